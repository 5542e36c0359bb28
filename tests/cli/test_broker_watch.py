"""``trunkline broker watch|unwatch|watched``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg
    from tests.cli.conftest import Cli


def test_a_table_is_watched_listed_and_unwatched(sql: psycopg.Connection[Any], cli: Cli) -> None:
    sql.execute("create table orders (id int primary key, status text, total int)")
    words = ("--column", "status", "--no-delete", "--condition", "total > 0")
    made = cli("broker", "watch", "orders", *words)
    assert made.code == 0, made.err
    sql.execute("insert into orders values (1, 'new', 5)")
    found = cli("broker", "watched")
    (row,) = found.rows
    assert (row["topic"], row["columns"], row["condition"]) == (
        "public.orders",
        ["status"],
        "total > 0",
    )
    assert row["operations"] == ["insert", "update", "truncate"]
    assert row["fault"] is None
    assert sql.execute("select payload from trunkline.event").fetchall() == [
        ({"id": 1, "status": "new"},)
    ]
    assert cli("broker", "unwatch", "orders").code == 0
    assert cli("broker", "unwatch", "orders").code == 3
    assert cli("broker", "watched").rows == []


def test_a_table_that_is_not_there_and_a_wrong_column_are_explained(
    sql: psycopg.Connection[Any], cli: Cli
) -> None:
    sql.execute("create table orders (id int primary key)")
    missing = cli("broker", "watch", "nonsense")
    assert missing.code == 3
    assert "schema.table" in missing.err
    refused = cli("broker", "watch", "orders", "--column", "nonsense")
    assert refused.code == 2
    assert '"nonsense"' in refused.err
