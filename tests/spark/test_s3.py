"""A lake in a bucket, which Spark itself cannot read without a package from Maven."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from tests.fixtures.asking import call
from tests.fixtures.programs import environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.asking import Session


@pytest.fixture
def session(dsn: str) -> Iterator[Session]:
    with psycopg.connect(dsn, autocommit=True) as opened:
        yield opened


@pytest.mark.spark
@pytest.mark.timeout(400)
@pytest.mark.usefixtures("java")
def test_a_lake_in_a_bucket_is_filled_kept_in_step_and_audited(
    dsn: str, session: Session, s3: dict[str, str], hasty: dict[str, str]
) -> None:
    session.execute("create table orders (id int primary key, note text)")
    session.execute("insert into orders select i, 'n' from generate_series(1, 500) i")
    call(session, "tube_ensure", tube="lake")
    call(session, "tube_attach", tube="lake", relation="orders")
    ran = subprocess.run(
        [sys.executable, Path(__file__).with_name("s3_job.py"), dsn],
        env=environment(**hasty, **s3),
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split("\n")[:3] == ["11", "490 490 True", "1"]
