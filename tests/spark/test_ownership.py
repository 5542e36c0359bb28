"""What a job owns: others get it soon after its driver was killed, and not before. No JVM."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

import psycopg
import pytest
from tests.fixtures.asking import ask

from trunkline.core.db import Db
from trunkline.core.errors import Conflict
from trunkline.spark.jobs.job import owning
from trunkline.testing import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

DRIVER = """
import sys, time
from trunkline.core.db import Db
from trunkline.spark.jobs.job import owning
with owning(Db(sys.argv[1]), "driver") as held:
    held.take("app:r")
    print("ready", flush=True)
    time.sleep(60)
"""
TIED = "select count(*) from trunkline.lease where session_since is not null"


@pytest.fixture
def driver(dsn: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER, dsn], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def test_what_a_killed_driver_owned_is_taken_over_within_two_seconds(
    dsn: str, driver: subprocess.Popen[str]
) -> None:
    with owning(Db(dsn), "heir") as heir:
        with pytest.raises(Conflict, match=r"is being worked on by driver"):
            heir.take("app:r")
        driver.kill()
        driver.wait()
        killed = time.monotonic()
        heir.take("app:r")
        assert time.monotonic() - killed < 3


def test_a_driver_that_loses_its_session_keeps_what_it_owns(
    dsn: str, driver: subprocess.Popen[str]
) -> None:
    end = "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory'"
    with psycopg.connect(dsn, autocommit=True) as session, owning(Db(dsn), "heir") as heir:
        first = "select session_since from trunkline.lease where name = 'driver'"
        before = ask(session, first)
        session.execute(end)

        def tied_again() -> None:
            assert ask(session, first) > before
            assert ask(session, TIED) == 2

        wait_until(tied_again, 10)
        time.sleep(1)
        with pytest.raises(Conflict, match=r"is being worked on by driver"):
            heir.take("app:r")
