"""An older package works with the schema of this one, or is refused when it connects.

``packages/schema-N.tar.xz`` has the Python files of the last package whose schema has number N.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import psycopg
import pytest
from tests.fixtures.asking import ask

import trunkline
from trunkline.core.errors import SchemaMismatch
from trunkline.version import SCHEMA

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
OLDEST = "select oldest_client from trunkline.compatibility()"


def test_the_package_says_the_number_of_its_schema(dsn: str) -> None:
    with psycopg.connect(dsn) as session:
        assert ask(session, "select schema from trunkline.compatibility()") == SCHEMA


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        (f"{SCHEMA - 1}, 0", "too old.*trunkline db install"),
        (f"{SCHEMA + 2}, {SCHEMA + 1}", "too new.*newer trunkline package"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused(dsn: str, numbers: str, said: str) -> None:
    replace(dsn, numbers)
    with pytest.raises(SchemaMismatch, match=said):
        trunkline.connect_sync(dsn)


def test_a_newer_schema_that_serves_this_package_is_accepted(dsn: str) -> None:
    replace(dsn, f"{SCHEMA + 1}, {SCHEMA}")
    with trunkline.connect_sync(dsn) as tl:
        assert tl.log.list() == []


def test_a_schema_without_a_number_is_too_old(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute("drop function trunkline.compatibility()")
    with pytest.raises(SchemaMismatch, match="too old: it has number 0"):
        trunkline.connect_sync(dsn)


def test_every_package_that_the_schema_serves_is_tried(dsn: str) -> None:
    with psycopg.connect(dsn) as session:
        served = range(ask(session, OLDEST), SCHEMA + 1)
    kept = {int(re.sub(r"\D", "", file.stem)) for file in HERE.glob("packages/schema-*.tar.xz")}
    assert kept == set(served)


@pytest.mark.parametrize(
    "package", sorted(HERE.glob("packages/schema-*.tar.xz")), ids=lambda p: p.name
)
@pytest.mark.parametrize("program", ["older_calls", "older_program"])
def test_an_older_package_works_with_the_newer_schema(
    dsn: str, tmp_path: Path, package: Path, program: str
) -> None:
    with tarfile.open(package) as archive:
        archive.extractall(tmp_path, filter="data")
    older = tmp_path / "package" / "src"
    ran = subprocess.run(
        [sys.executable, "-m", f"tests.upgrade.{program}", dsn],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{older}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    if program == "older_program":
        assert ran.stdout.split() == [str(older / "trunkline" / "__init__.py"), "done"]
    else:
        assert int(ran.stdout) > 150


def replace(dsn: str, numbers: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute(
            "create or replace function trunkline.compatibility()"
            " returns table (schema int, oldest_client int) language sql stable security definer"
            f" as 'select {numbers}'"
        )
