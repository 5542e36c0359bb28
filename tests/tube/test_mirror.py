"""Rows and documents in one database: the server brings the one to the other."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.fixtures.asking import Session, ask, refused
from tests.tube.sql_steps import attach
from tests.tube.sql_steps import documents as enriched

import trunkline
from trunkline.testing import eventually
from trunkline.tube.delivery import Carried, Mirrored
from trunkline.tube.downstreams.postgres import PostgresDownstream
from trunkline.tube.models import KeyId
from trunkline.tube.pace import Pace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from trunkline.platform import Platform
    from trunkline.tube.worker import Worker

HASTE = Pace(batch=10, park_after=2, retry_first=0.01, poll_interval=0.02)
MIRROR = "select trunkline._tube_mirror(%s, %s::text[], %s::int[], 'trunkline_documents')"


@pytest.fixture
async def tl(dsn: str) -> AsyncIterator[Platform]:
    async with trunkline.connect(dsn) as platform:
        await execute(platform, "create table item (id int primary key, name text, place int)")
        await platform.tube.ensure("items")
        yield platform


async def execute(tl: Platform, statement: str, values: Sequence[Any] = ()) -> list[Any]:
    async with tl.transaction() as connection:
        cursor = await connection.execute(statement.encode(), values)
        return await cursor.fetchall() if cursor.description else []


@pytest.fixture
def worker(tl: Platform) -> Worker:
    return tl.tube.worker("items", ("postgres", {}), pace=HASTE)


async def deliver(tl: Platform, worker: Worker) -> int:
    await tl.tube.tick()
    return await worker.run_once()


async def documents(tl: Platform) -> list[Any]:
    return await execute(
        tl, "select shard, key, document from trunkline_documents order by key, shard"
    )


async def test_only_attached_rows_of_the_same_database_are_mirrored(
    tl: Platform, other_dsn: str
) -> None:
    here, there = ("postgres", {}), ("postgres", {"dsn": other_dsn})
    assert isinstance(tl.tube.worker("items", here)._bring, Mirrored)
    assert isinstance(tl.tube.worker("items", there)._bring, Carried)
    assert isinstance(tl.tube.worker("items", here, replica=tl.db)._bring, Carried)
    enrich = "select 1 as key, 2 as document where %(keys)s is not null"
    assert isinstance(tl.tube.worker("items", here, enrich=enrich)._bring, Carried)


async def test_a_row_and_its_leaving_arrive_with_the_version_of_before(
    tl: Platform, worker: Worker
) -> None:
    await tl.tube.attach("items", "item", shard="place", condition="name <> 'hidden'")
    await execute(tl, "insert into item values (1, 'a', 1), (2, 'hidden', 1), (3, 'c', 1)")
    assert await deliver(tl, worker) == 2
    await execute(tl, "update item set place = 2 where id = 1")
    await execute(tl, "update item set name = 'hidden' where id = 3")
    assert await deliver(tl, worker) == 3
    assert await documents(tl) == [
        (1, "1", None),
        (2, "1", {"id": 1, "name": "a", "place": 2}),
        (1, "3", None),
    ]
    [[number, generation, late]] = await execute(
        tl,
        "select max(d.version), (trunkline.tube_version()).generation,"
        " max(d.version & ((1::bigint << 48) - 1)) > pg_current_wal_insert_lsn() - '0/0'"
        " from trunkline_documents d",
    )
    assert number >> 48 == generation
    assert not late


@pytest.mark.parametrize("number", [2, 32_768, 65_536, 2**31 - 1])
async def test_what_a_later_life_of_the_server_says_counts_whatever_its_number(
    tl: Platform, worker: Worker, number: int
) -> None:
    """A standby takes over; its write-ahead log is shorter than that of the server before."""
    attached = await tl.tube.attach("items", "item")
    await execute(tl, "insert into item values (1, 'before')")
    await deliver(tl, worker)
    await execute(tl, "update trunkline_documents set version = version + (1::bigint << 40)")
    await execute(
        tl,
        "insert into trunkline.incarnation"
        " select %s, i.incarnation, i.system_identifier, i.timeline, i.database, i.schema,"
        " i.xid_space from trunkline.incarnation i",
        [number],
    )
    await execute(tl, "update item set name = 'after'")
    await execute(tl, MIRROR, [attached.attachment, ["1"], [0]])
    assert [document["name"] for _, _, document in await documents(tl)] == ["after"]


async def test_the_first_version_that_another_life_of_the_server_tells_is_higher_than_all_before(
    tl: Platform,
) -> None:
    version = "select generation from trunkline.tube_version()"
    await execute(tl, "select trunkline.incarnation()")
    [[before]] = await execute(tl, version)
    await execute(tl, "update trunkline.incarnation set timeline = timeline + 1")
    [[first]] = await execute(tl, version)
    assert await execute(tl, version) == [(first,)]
    assert first > before


async def test_a_newer_version_stays(tl: Platform, worker: Worker) -> None:
    attached = await tl.tube.attach("items", "item")
    await execute(tl, "insert into item values (1, 'row')")
    await deliver(tl, worker)
    await execute(tl, "update trunkline_documents set version = (1::bigint << 62), document = '1'")
    await execute(tl, MIRROR, [attached.attachment, ["1"], [0]])
    assert await documents(tl) == [(0, "1", 1)]


async def test_keys_of_any_text_are_told_exactly(tl: Platform, worker: Worker) -> None:
    await execute(tl, "create table odd (a text, b int, primary key (a, b))")
    await tl.tube.attach("items", "odd")
    odd = ['quote " and \\ slash', "{brace},\n", "'", "", "NULL", "\u00fc"]
    for a in odd:
        await execute(tl, "insert into odd values (%s, 1)", [a])
    await deliver(tl, worker)
    assert sorted(document["a"] for _, _, document in await documents(tl)) == sorted(odd)


async def test_what_is_at_fault_is_parked_alone(tl: Platform, worker: Worker) -> None:
    await tl.tube.attach("items", "item", condition="10 / (place - 7) < 100")
    await deliver(tl, worker)
    await execute(tl, "alter table trunkline_documents add constraint small check (key <> '13')")
    await execute(tl, "insert into item select i, 'x', i from generate_series(1, 20) i")
    await deliver(tl, worker)
    assert {row.key: row.error for row in await tl.tube.parked("items")}.keys() == {"7", "13"}
    assert len(await documents(tl)) == 18


async def test_a_mirror_that_is_gone_holds_the_tube_back_and_parks_nothing(tl: Platform) -> None:
    await tl.tube.attach("items", "item")
    await execute(tl, "insert into item values (1)")
    downstream = PostgresDownstream(dsn=tl.db.dsn)
    await downstream.open()
    await execute(tl, "alter table trunkline_documents rename to elsewhere")
    worker = tl.tube.worker("items", downstream, pace=HASTE)
    stop = asyncio.Event()
    await tl.tube.tick()
    running = asyncio.create_task(worker.run(stop))
    try:
        await eventually(lambda: worker._hold_until > 0)
        assert await tl.tube.parked("items") == []
        delivered = worker.delivered.wait()
        await execute(tl, "alter table elsewhere rename to trunkline_documents")
        assert await delivered == 1
    finally:
        stop.set()
        await running


async def test_tombstones_are_forgotten_here_too(tl: Platform) -> None:
    downstream = PostgresDownstream(dsn=tl.db.dsn)
    await downstream.open()
    await execute(
        tl,
        "insert into trunkline_documents (relation, shard, key, version, written_at)"
        " values ('item', 0, 'old', 1, now() - interval '2 days')",
    )
    mirror = downstream.mirror_of(tl.db.dsn)
    assert mirror is not None
    attached = await tl.tube.attach("items", "item")
    await mirror(attached.attachment, [KeyId(attached.attachment, 0, "1")])
    assert [key for _, key, _ in await documents(tl)] == ["1"]
    await downstream.close()


def test_the_server_mirrors_only_what_it_reads_after_the_version(session: Session) -> None:
    attachment = attach(session)
    session.execute("create table trunkline_documents ()")
    with refused("TL400"), session.transaction():
        session.execute("set transaction isolation level repeatable read")
        session.execute(MIRROR, [attachment, ["1"], [0]])


def test_a_document_holds_the_same_whatever_the_settings_of_who_reads_the_row(
    session: Session,
) -> None:
    session.execute("create table sample (id int primary key, size float8, raw bytea)")
    session.execute(
        "create table trunkline_documents (relation text, shard int, key text, document jsonb,"
        " version bigint, written_at timestamptz, primary key (relation, shard, key))"
    )
    attachment = attach(session, "sample")
    session.execute("insert into sample values (1, 1 / 3.0::float8, 'a')")
    session.execute("set extra_float_digits = -10; set bytea_output = 'escape'")
    session.execute(MIRROR, [attachment, ["1"], [0]])
    mirrored = ask(session, "select document from trunkline_documents")
    assert enriched(session, attachment, "1") == {"1": mirrored}
    assert mirrored == {"id": 1, "size": 1 / 3, "raw": "\\x61"}
