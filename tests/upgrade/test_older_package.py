"""An older package works with the schema of this one, or is refused when it connects."""

from __future__ import annotations

import psycopg
import pytest
from tests.fixtures.asking import ask

import trunkline
from trunkline.core.errors import SchemaMismatch
from trunkline.version import SCHEMA


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


def replace(dsn: str, numbers: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute(
            "create or replace function trunkline.compatibility()"
            " returns table (schema int, oldest_client int) language sql stable security definer"
            f" as 'select {numbers}'"
        )
