"""Columns, tables and schemas may be named like anything in our SQL: documents stay what rows are.

Every word of the SQL sources (aliases, variables, parameters, output columns) and every keyword of
SQL becomes a column; each path that makes JSON of a row, or evaluates an expression, is run.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from psycopg import sql
from tests.fixtures.asking import ask, call, column, connections
from tests.fixtures.postgres import new_database
from tests.tube.sql_steps import Reader, attach, documents, ensure, finish, schedule

import trunkline

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.fixtures.asking import Session
    from tests.fixtures.postgres import AnyServer

SOURCES = Path(trunkline.__file__).parent
CHUNKS = 4
MOST = 1_000  # columns of a table; Postgres takes 1,600
PLACES = [("r", "d"), ("k", "key"), ("order", "new_rows"), ("t", "select"), ("e.f", 'i"u')]


@pytest.fixture(scope="module")
def dsn(server: AnyServer, template: str) -> Iterator[str]:
    with new_database(server, template=template) as name:
        yield server.dsn(name)


@pytest.fixture
def session(dsn: str) -> Iterator[Session]:
    with connections(dsn) as connect:
        yield connect()


def our_words() -> set[str]:
    """Whatever is named in our SQL, and more: every word that is no comment."""
    words: set[str] = set()
    for file in SOURCES.glob("**/*.sql"):
        text = re.sub(r"/\*.*?\*/|--[^\n]*", "", file.read_text(), flags=re.DOTALL)
        words.update(re.findall(r"\b[a-z_][a-z0-9_]*\b", text))
    for file in SOURCES.glob("spark/*.py"):
        for text in re.findall(r'"""(.*?)"""', file.read_text(), flags=re.DOTALL):
            words.update(re.findall(r"\b[a-z_][a-z0-9_]*\b", text))
    return {word for word in words if len(word) < 64}


def names(session: Session, chunk: int) -> list[str]:
    system = column(
        session,
        "select attname::text from pg_attribute where attnum < 0"
        " and attrelid = 'pg_class'::regclass",
    )
    words = our_words() | set(column(session, "select word from pg_get_keywords()"))
    assert {"d", "r", "k", "keys", "shard", "it", "select", "new_rows", "place"} <= words
    wanted = sorted(words - set(system) - {"_deleted"})[chunk::CHUNKS]
    assert 100 < len(wanted) < MOST
    return wanted


def table(session: Session, chunk: int, columns: Sequence[str]) -> str:
    """A table of numbers with these columns; its quoted name."""
    schema, name = PLACES[chunk % len(PLACES)]
    place = sql.Identifier(schema, name).as_string()
    session.execute(f"drop schema if exists {sql.Identifier(schema).as_string()} cascade")
    session.execute(f"create schema {sql.Identifier(schema).as_string()}")
    listed = ", ".join(
        f"{quoted(name)} int default {number}" for number, name in enumerate(columns, 1)
    )
    session.execute(f'create table {place} ("the Key" int primary key, {listed})')
    return place


def quoted(name: str) -> str:
    return sql.Identifier(name).as_string()


def rows(session: Session, place: str) -> dict[str, Any]:
    found = session.execute(f'select x."the Key"::text, to_jsonb(x.*) from {place} x')
    return dict(found.fetchall())


def run(session: Session, statement: str) -> None:
    session.execute(statement.encode())


@pytest.mark.timeout(300)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_tube_delivers_rows_whatever_their_columns_are_called(
    session: Session, chunk: int
) -> None:
    columns = names(session, chunk)
    place = table(session, chunk, columns)
    tube = ensure(session, f"names{chunk}", condition='"the Key" <> 3')
    all_there = " and ".join(f"{quoted(name)} is not null" for name in columns)
    computed = f'(({quoted(columns[0])} + {quoted(columns[-1])}) / "the Key") % 1'
    attachment = attach(session, place, tube, condition=all_there, shard=computed)
    feed = Reader(session, tube)
    run(session, f'insert into {place} ("the Key") values (1), (2), (3)')
    assert feed.keys() == ["1", "2"]
    run(session, f'insert into {place} ("the Key") values (0)')  # whose shard cannot be computed
    assert feed.keys() == ["0"]
    run(session, f'delete from {place} where "the Key" = 0')
    feed.new()
    truth = rows(session, place)
    assert set(truth["1"]) == {"the Key", *columns}
    keys = ["1", "2", "3", "4"]
    expected = {"1": truth["1"], "2": truth["2"], "3": None, "4": None}
    assert documents(session, attachment, *keys) == expected
    assert documents(session, attachment, *keys, shards=[0] * 4) == expected
    texts = call(session, "tube_enrich_text", attachment=attachment, keys=keys)
    assert {key: text and json.loads(text) for key, text in texts} == expected
    moved = call(session, "_tube_moved", attachment=attachment, keys=["1", "2"], shards=[0, 1])
    assert moved == [("2",)]
    for extra in ((), (0,)):  # then row by row, as one of them fails
        for key in extra:
            run(session, f'insert into {place} ("the Key") values ({key})')
            feed.new()
        finish(session, schedule(session, tube, relation=place))
        assert feed.keys() == sorted(["1", "2", *map(str, extra)])
    run(session, f'delete from {place} where "the Key" = 0')
    run(session, f'update {place} set {quoted(columns[0])} = null where "the Key" = 2')
    assert feed.keys() == ["0", "2"]
    assert documents(session, attachment, "2") == {"2": None}
    run(
        session,
        "create temp table copied (relation text, shard int, key text, document jsonb,"
        " version bigint, written_at timestamptz, primary key (relation, shard, key))",
    )
    session.execute("select trunkline._tube_mirror(%s, '{1,2}', '{0,0}', 'copied')", [attachment])
    assert dict(session.execute("select key, document from copied").fetchall()) == {
        "1": truth["1"],
        "2": None,
    }


@pytest.mark.timeout(300)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_stored_downstream_reads_rows_whatever_their_columns_are_called(
    session: Session, chunk: int
) -> None:
    columns = names(session, chunk)
    place = table(session, chunk, columns)
    owner = f"owner_of_names_{chunk}"
    run(session, f"create role {owner}; grant trunkline_writer to {owner}")
    try:
        schema = quoted(PLACES[chunk][0])
        run(
            session,
            f"grant all on schema {schema} to {owner}; alter table {place} owner to {owner}",
        )
        run(session, f"set role {owner}")
        tube = ensure(session, f"stored{chunk}")
        attachment = attach(session, place, tube, condition=f"{quoted(columns[0])} is not null")
        run(session, f'insert into {place} ("the Key") values (1)')
        assert documents(session, attachment, "1", "2") == {**rows(session, place), "2": None}
        run(session, "reset role")
        assert documents(session, attachment, "1", "2") == {**rows(session, place), "2": None}
        feed = Reader(session, tube)
        finish(session, schedule(session, tube))
        assert feed.keys() == ["1"]
    finally:
        run(session, f"reset role; reassign owned by {owner} to current_user")
        run(session, f"drop owned by {owner}; drop role {owner}")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_watched_table_tells_rows_whatever_their_columns_are_called(
    session: Session, chunk: int
) -> None:
    columns = names(session, chunk)
    place = table(session, chunk, columns)
    some = columns[:: len(columns) // 50]
    condition = " and ".join(f"{quoted(name)} > 0" for name in columns)
    for chosen in (None, some):
        run(session, "delete from trunkline.event")
        call(session, "broker_watch", relation=place, condition=condition, columns=chosen)
        run(session, f'insert into {place} ("the Key") values (1), (2)')
        truth = rows(session, place)
        if chosen:
            truth = {
                key: {name: row[name] for name in ("the Key", *chosen)}
                for key, row in truth.items()
            }
        told = "select key, payload from trunkline.event where metadata ->> 'op' = %s"
        assert dict(session.execute(told, ["insert"]).fetchall()) == truth
        run(session, f'update {place} set {quoted(some[0])} = 7777 where "the Key" = 1')
        assert session.execute(told, ["update"]).fetchall() == [
            ("1", {"the Key": 1, some[0]: 7777})
        ]
        run(session, f"delete from {place}")
        truth["1"][some[0]] = 7777
        assert dict(session.execute(told, ["delete"]).fetchall()) == truth
        call(session, "broker_unwatch", relation=place)


@pytest.mark.timeout(300)
def test_keys_may_be_called_whatever_they_are(session: Session) -> None:
    words = [name for chunk in range(CHUNKS) for name in names(session, chunk)]
    tube = ensure(session, "keys")
    for first in range(0, len(words), 31):
        some = words[first : first + 31]
        run(session, "drop table if exists keyed")
        listed = ", ".join(f"{quoted(name)} int default {n}" for n, name in enumerate(some))
        keys = ", ".join(map(quoted, some))
        run(session, f'create table keyed ({listed}, "the Value" int, primary key ({keys}))')
        attachment = attach(session, "keyed", tube)
        run(session, "insert into keyed default values")
        key = json.dumps(list(range(len(some))))
        (row,) = column(session, "select to_jsonb(keyed.*) from keyed")
        assert documents(session, attachment, key) == {key: row}
        call(session, "tube_touch", tube=tube, relation="keyed", keys=[key])
        backfill = schedule(session, tube, relation="keyed")
        assert ask(session, "select trunkline.tube_backfill_step(%s)", [backfill])
        call(session, "tube_detach", tube=tube, relation="keyed")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_policies_see_rows_whatever_their_columns_are_called(session: Session, chunk: int) -> None:
    columns = names(session, chunk)
    place = table(session, chunk, columns)
    reader = f"reader_of_names_{chunk}"
    policy = " and ".join(f"{quoted(name)} > 0" for name in columns)
    run(session, f"create role {reader}")
    try:
        run(session, f"grant usage on schema {quoted(PLACES[chunk][0])} to {reader}")
        run(session, f"create policy p on {place} for select to {reader} using ({policy})")
        run(session, f"alter table {place} enable row level security")
        call(session, "live_watch", relation=place, roles=[reader])
        run(session, f'insert into {place} ("the Key") values (1)')
        row = rows(session, place)["1"]
        images = [json.dumps(row), json.dumps(row | {columns[0]: -1})]
        seen = session.execute(
            "select trunkline.live_visible(%s, %s, '{}', %s::jsonb[])", [place, reader, images]
        )
        assert seen.fetchall() == [([True, False],)]
    finally:
        call(session, "live_unwatch", relation=place)
        run(session, f"drop owned by {reader} cascade; drop role {reader}")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_spark_reads_rows_whatever_their_columns_are_called(
    session: Session, dsn: str, chunk: int
) -> None:
    pytest.importorskip("pyspark")
    from trunkline.spark.tube_rows import Slice, Span, read_slice

    columns = names(session, chunk)
    place = table(session, chunk, columns)
    tube = ensure(session, f"spark{chunk}")
    attach(session, place, tube, condition=f"{quoted(columns[0])} is not null")
    feed = Reader(session, tube)
    run(session, f'insert into {place} ("the Key") values (1), (2)')
    run(session, f'update {place} set {quoted(columns[0])} = null where "the Key" = 2')
    entries = feed.new()
    span = Span(0, 0, entries[0].up_to, entries[-1].up_to)
    truth = rows(session, place)["1"]
    relation = ask(session, "select trunkline._hook_name(%s::regclass)", [place])
    whole = Slice(dsn, tube, relation, "columns", (span,))
    found = {row["the Key"]: row for batch in read_slice(whole) for row in batch.to_pylist()}
    assert found[1] == truth | {"_deleted": False}
    assert found[2]["_deleted"] is True
    touched = Slice(dsn, tube, relation, "json", (span,))
    texts = [row for batch in read_slice(touched) for row in batch.to_pylist()]
    assert {row["key"]: row["document"] and json.loads(row["document"]) for row in texts} == {
        "1": truth,
        "2": None,
    }
