"""The Postgres downstream."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from tests.fixtures.stores import change, opened

from trunkline.core.errors import Forbidden, Invalid, NotFound, Unavailable
from trunkline.testing import eventually
from trunkline.tube.downstreams.postgres import PostgresDownstream

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.fixture
def mirror_dsn(other_dsn: str) -> str:
    """A schema of its own for each test, in a database without Trunkline."""
    schema = f"mirror_{uuid4().hex}"
    with psycopg.connect(other_dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("create schema {}").format(sql.Identifier(schema)))
    return make_conninfo(other_dsn, options=f"-c search_path={schema}")


def schema_of(dsn: str) -> str:
    return str(conninfo_to_dict(dsn)["options"]).rpartition("=")[2]


async def query(dsn: str, text: str, values: Sequence[Any] = ()) -> list[Any]:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        cursor = await connection.execute(text.encode(), values)
        return await cursor.fetchall() if cursor.description else []


async def test_postgres_stores_digits_and_null_characters_as_jsonb_can(mirror_dsn: str) -> None:
    async with opened(PostgresDownstream(dsn=mirror_dsn)) as downstream:
        changes = [
            change("good", '{"n": 12345678901234567890.10}', at=1),
            change("escaped", '{"text": "\\u0000"}', at=1),
            change("raw \0", "{}", at=1),
            change("no json", "{", at=1),
            change("x" * 3_000, "{}", at=1),
        ]
        failures = await downstream.upsert(changes)
        assert list(failures) == changes[1:4]
        assert "\\u0000" in failures[changes[1]]
    assert await query(mirror_dsn, "select document ->> 'n' from trunkline_documents limit 1") == [
        ("12345678901234567890.10",)
    ]


async def test_postgres_says_that_its_table_is_missing(mirror_dsn: str) -> None:
    with pytest.raises(NotFound, match=r'no table "archive\.rows"'):
        await PostgresDownstream(dsn=mirror_dsn, table="archive.rows", create=False).open()


@pytest.mark.parametrize(
    "columns",
    [
        "relation text, shard int, key text",
        "relation text, shard int, key text, document jsonb, version bigint, written_at timestamp",
        "relation text, shard int, key text, document int, version bigint, written_at timestamp,"
        " primary key (relation, shard, key)",
        "relation text, shard int, key text, document jsonb, version bigint, written_at timestamp,"
        " primary key (relation, shard, key)",
    ],
)
async def test_postgres_says_what_its_table_lacks(mirror_dsn: str, columns: str) -> None:
    await query(mirror_dsn, f"create table rows ({columns})")
    with pytest.raises(Invalid, match='table "rows" cannot take documents') as caught:
        await PostgresDownstream(dsn=mirror_dsn, table="rows").open()
    assert "primary key" in caught.value.hint


async def test_postgres_says_which_rights_are_missing(mirror_dsn: str) -> None:
    role = f"guest_{uuid4().hex}"
    async with opened(PostgresDownstream(dsn=mirror_dsn)):
        await query(mirror_dsn, f"create role {role} login")
    try:
        await query(mirror_dsn, f"grant usage on schema {schema_of(mirror_dsn)} to {role}")
        with pytest.raises(Forbidden, match="needs select, insert, update and delete"):
            await PostgresDownstream(dsn=make_conninfo(mirror_dsn, user=role)).open()
    finally:
        await query(mirror_dsn, f"drop owned by {role}")
        await query(mirror_dsn, f"drop role {role}")


async def test_postgres_is_opened_by_ten_at_once(mirror_dsn: str) -> None:
    await query(mirror_dsn, 'create schema "Mirror"')
    made = [PostgresDownstream(dsn=mirror_dsn, table="Mirror.Rows") for _ in range(10)]
    await asyncio.gather(*(downstream.open() for downstream in made))
    await asyncio.gather(
        *(each.upsert([change(str(n), {}, at=1)]) for n, each in enumerate(made)),
    )
    await asyncio.gather(*(downstream.close() for downstream in made))
    assert await query(mirror_dsn, 'select count(*) from "Mirror"."Rows"') == [(10,)]


async def test_postgres_batches_in_opposite_order_do_not_deadlock(mirror_dsn: str) -> None:
    async with opened(PostgresDownstream(dsn=mirror_dsn)) as downstream:
        for at in range(1, 11):
            there = [change(str(n), {"at": at}, at=at) for n in range(200)]
            back = [change(str(n), at=at) for n in reversed(range(200))]
            await asyncio.gather(
                downstream.upsert(there), downstream.delete(back), downstream.upsert(there[::-1])
            )


async def test_postgres_forgets_tombstones_after_their_time(mirror_dsn: str) -> None:
    async with opened(PostgresDownstream(dsn=mirror_dsn)) as downstream:
        await downstream.delete([change("old", at=1), change("new", at=1)])
        await query(
            mirror_dsn,
            "update trunkline_documents set written_at = now() - interval '2 days'"
            " where key = 'old'",
        )
        downstream._forget_at = 0.0  # type: ignore[attr-defined]
        await downstream.delete([change("newest", at=1)])
    keys = await query(mirror_dsn, "select key from trunkline_documents order by key")
    assert keys == [("new",), ("newest",)]


async def test_postgres_writes_next_to_no_index_when_documents_are_written_anew(
    mirror_dsn: str,
) -> None:
    async with opened(PostgresDownstream(dsn=mirror_dsn)) as downstream:
        for at in (1, 2, 3):
            await downstream.upsert([change(str(n), {"at": at}, at=at) for n in range(500)])

    async def unindexed() -> None:
        [[written, beside]] = await query(
            mirror_dsn,
            "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where schemaname = %s",
            [schema_of(mirror_dsn)],
        )
        assert written == 1_000
        assert beside > 900  # the last row of a page may not find room

    await eventually(unindexed)


@pytest.mark.parametrize(
    ("harm", "repair"),
    [
        (
            "alter table trunkline_documents rename to elsewhere",
            "alter table elsewhere rename to trunkline_documents",
        ),
        (
            "alter table trunkline_documents rename version to v",
            "alter table trunkline_documents rename v to version",
        ),
    ],
)
async def test_postgres_waits_for_a_table_that_takes_nothing(
    mirror_dsn: str, harm: str, repair: str
) -> None:
    async with opened(PostgresDownstream(dsn=mirror_dsn)) as downstream:
        await query(mirror_dsn, harm)
        with pytest.raises(Unavailable, match="refuses every document"):
            await downstream.upsert([change("1", {}, at=1)])
        await query(mirror_dsn, repair)
        assert await downstream.upsert([change("1", {}, at=1)]) == {}


async def test_postgres_takes_a_refusal_of_the_tables_own_rules_for_the_documents_fault(
    mirror_dsn: str,
) -> None:
    async with opened(PostgresDownstream(dsn=mirror_dsn)) as downstream:
        await query(
            mirror_dsn, "alter table trunkline_documents add constraint small check (shard < 5)"
        )
        good, bad = change("1", {}, at=1), change("1", {}, at=1, shard=7)
        assert "small" in (await downstream.upsert([good, bad]))[bad]


async def test_postgres_documents_can_be_read_as_the_table_they_mirror(mirror_dsn: str) -> None:
    await query(mirror_dsn, "create table orders (id int, total numeric, tags text[])")
    async with opened(PostgresDownstream(dsn=mirror_dsn)) as downstream:
        await downstream.upsert([change("1", '{"id": 1, "total": 1.50, "tags": ["a"]}', at=1)])
        await downstream.delete([change("2", at=1)])
    await query(
        mirror_dsn,
        "create view mirrored_orders as select r.* from trunkline_documents d,"
        " jsonb_populate_record(null::orders, d.document) r"
        " where d.relation = 'orders' and d.document is not null",
    )
    assert await query(mirror_dsn, "select id, total::text, tags from mirrored_orders") == [
        (1, "1.50", ["a"])
    ]


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("Rows of 100%", "Rows of 100%"),
        ('"Rows of 100%"', "Rows of 100%"),
        ('"a.b ""c"""', 'a.b "c"'),
        ("{schema}.Rows", "Rows"),
        ('{schema}."Rows"', "Rows"),
        ('"{schema}"."a.b"', "a.b"),
    ],
)
async def test_postgres_takes_a_name_as_it_is_or_in_the_quotes_of_sql(
    mirror_dsn: str, name: str, table: str
) -> None:
    schema = schema_of(mirror_dsn)
    named = name.replace("{schema}", schema)
    async with opened(PostgresDownstream(dsn=mirror_dsn, table=named)) as downstream:
        assert await downstream.upsert([change("1", "{}", at=1)]) == {}
    found = "select relname from pg_class where relnamespace = %s::regnamespace and relkind = 'r'"
    assert await query(mirror_dsn, found, [schema]) == [(table,)]


@pytest.mark.parametrize("name", ["", ".a", "a.", "a.b.c", 'a"b', '"a', '""', '"a"b'])
def test_postgres_refuses_what_names_no_table(name: str) -> None:
    with pytest.raises(Invalid, match=r"name or schema\.name"):
        PostgresDownstream(dsn="", table=name)
