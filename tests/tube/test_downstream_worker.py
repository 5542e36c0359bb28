"""A worker with each of the packaged downstreams, against real servers."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.fixtures.stores import (
    SearchStore,
    TopicStore,
    change,
    opened,
)

import trunkline
from trunkline.core.errors import NotFound
from trunkline.core.service import Loop
from trunkline.testing import eventually
from trunkline.tube.pace import Pace
from trunkline.tube.services import Backfiller, TubeSequencer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from tests.fixtures.opensearch import SearchServer
    from tests.fixtures.proxy import Proxy
    from tests.fixtures.stores import Store

    from trunkline.platform import Platform
    from trunkline.tube.worker import Worker

HASTE = Pace(batch=40, park_after=2, retry_first=0.01, poll_interval=0.02)


@pytest.fixture
async def tl(shared_dsn: str) -> AsyncIterator[Platform]:
    """A platform with a table in a tube, and the services that number and backfill."""
    async with trunkline.connect(shared_dsn) as platform:
        async with platform.transaction() as connection:
            await connection.execute("create table item (id int primary key, name text, n numeric)")
        await platform.tube.ensure("items", lanes=2)
        await platform.tube.attach("items", "item", shard="id % 3")
        stop = asyncio.Event()
        services = [TubeSequencer(platform.db), Backfiller(platform.db)]
        running = [asyncio.create_task(Loop(service).run(stop)) for service in services]
        yield platform
        stop.set()
        await asyncio.gather(*running)
        await platform.tube.drop("items", force=True)
        async with platform.transaction() as connection:
            await connection.execute("drop table item")


@asynccontextmanager
async def working(worker: Worker) -> AsyncIterator[Worker]:
    stop = asyncio.Event()
    task = asyncio.create_task(worker.run(stop))
    try:
        yield worker
    finally:
        stop.set()
        await task


async def execute(tl: Platform, query: str, values: Sequence[Any] = ()) -> list[Any]:
    async with tl.transaction() as connection:
        cursor = await connection.execute(query.encode(), values)
        return await cursor.fetchall() if cursor.description else []


async def same(tl: Platform, store: Store) -> None:
    """Wait until the store holds the rows of the table, and nothing else."""

    async def check() -> None:
        rows = await execute(tl, "select id, to_jsonb(item) from item")
        assert await store.documents() == {
            ("item", id_ % 3, str(id_)): document for id_, document in rows
        }

    await eventually(check, timeout=20, also=(psycopg.errors.UndefinedTable, KeyError, NotFound))


async def change_at_random(tl: Platform, seed: int) -> None:
    choice = random.Random(seed)
    for _ in range(60):
        id_, name = choice.randrange(40), f"name {choice.random()}"
        async with tl.transaction() as connection:
            kind = choice.randrange(4)
            if kind == 0:
                await connection.execute("delete from item where id = %s", [id_])
            elif kind == 1:
                await connection.execute("update item set name = %s where id = %s", [name, id_])
            else:
                await connection.execute(
                    "insert into item values (%s, %s, %s) on conflict (id)"
                    " do update set name = excluded.name, n = excluded.n",
                    [id_, name, choice.randrange(10**6)],
                )
            if choice.randrange(8) == 0:
                await connection.execute("insert into item values (-1, 'rolled back')")
                raise psycopg.Rollback


async def test_the_store_equals_the_table_after_concurrent_changes(
    tl: Platform, store: Store
) -> None:
    await execute(tl, "insert into item select i, 'before', 1.10 from generate_series(20, 60) i")
    async with working(tl.tube.worker("items", store.downstream(), pace=HASTE)):
        await tl.tube.backfill_schedule("items", chunk=10)
        await asyncio.gather(*(change_at_random(tl, seed) for seed in range(4)))
        await same(tl, store)
    assert await tl.tube.parked("items") == []


async def test_truncate_and_a_backfill_leave_no_garbage(tl: Platform, store: Store) -> None:
    downstream = store.downstream()
    async with opened(downstream):
        ghost = change("1", {"ghost": True}, at=1, relation="item", shard=1)
        await downstream.upsert([ghost])
    async with working(tl.tube.worker("items", store.downstream(), pace=HASTE)):
        await execute(tl, "insert into item select i from generate_series(2, 50) i")
        await tl.tube.backfill_schedule("items")
        await same(tl, store)
        await execute(tl, "truncate item")
        await same(tl, store)
        await execute(tl, "insert into item select i from generate_series(1, 5) i")
        await same(tl, store)


async def test_the_worker_waits_for_a_server_that_is_away(
    tl: Platform, store: Store, proxy: Callable[[str], Proxy]
) -> None:
    between = proxy(store.target)
    between.refuse()
    worker = tl.tube.worker("items", store.downstream(between.dsn), pace=HASTE)
    await execute(tl, "insert into item select i from generate_series(1, 100) i")
    async with working(worker):
        if not isinstance(store, TopicStore):  # which waits inside its connection
            await eventually(lambda: worker._hold_until > 0)
        between.resume()
        await same(tl, store)
        between.cut()
        await execute(tl, "update item set name = 'cut'")
        await same(tl, store)
        held = worker._hold_until
        between.refuse()
        await execute(tl, "delete from item where id < 50")
        if not isinstance(store, TopicStore):
            await eventually(lambda: worker._hold_until > held)
        between.resume()
        await same(tl, store)
    assert await tl.tube.parked("items") == []


async def test_the_worker_parks_what_a_store_will_never_take(tl: Platform, store: Store) -> None:
    async def enrich(touches: Sequence[Any]) -> Mapping[str, Any]:
        return {t.key: {"bad": "\ud800"} if t.key == "13" else {"n": t.key} for t in touches}

    worker = tl.tube.worker("items", store.downstream(), enrich=enrich, pace=HASTE)
    await execute(tl, "insert into item select i from generate_series(1, 40) i")
    async with working(worker):

        async def parked() -> None:
            assert [row.key for row in await tl.tube.parked("items")] == ["13"]

        await eventually(parked)
        await eventually(lambda: _count(store, 39))


async def _count(store: Store, n: int) -> bool:
    return len(await store.documents()) == n


async def test_the_worker_outlasts_a_search_server_that_answers_500(
    tl: Platform, search_server: SearchServer
) -> None:
    search_server.whole.extend([(500, "internal_server_error", "oops")] * 6)
    await execute(tl, "insert into item select i from generate_series(1, 100) i")
    store = SearchStore(search_server)
    async with working(tl.tube.worker("items", store.downstream(), pace=HASTE)):
        await same(tl, store)
    assert not search_server.whole
    assert await tl.tube.parked("items") == []
