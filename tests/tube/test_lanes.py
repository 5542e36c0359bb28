"""Workers while the lanes of their tube change: nothing is lost, and nobody stops working."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

import pytest
from tests.tube.test_worker import HASTE, Shelf, execute, running, waiting

import trunkline
from trunkline.core.errors import Unavailable
from trunkline.testing import eventually
from trunkline.tube import calls
from trunkline.tube.downstreams.base import Page
from trunkline.tube.garbage import Garbage
from trunkline.tube.lanes import Lane, Lanes
from trunkline.tube.models import Entry
from trunkline.tube.pace import Pace
from trunkline.tube.queue import LaneQueue

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from trunkline.core.calls import Call
    from trunkline.platform import Platform

T = TypeVar("T")

PATIENT = Pace(retry_first=3_600, retry_longest=3_600, poll_interval=0.02)


@pytest.fixture
async def tl(dsn: str) -> AsyncIterator[Platform]:
    async with trunkline.connect(dsn) as platform:
        await execute(platform, "create table item (id int primary key, name text)")
        await platform.tube.ensure("items", lanes=2)
        await platform.tube.attach("items", "item", shard="id % 2")
        yield platform


async def nothing_waits(tl: Platform) -> bool:
    return await waiting(tl) == 0


async def test_what_an_ended_lane_had_not_delivered_is_delivered_by_another(tl: Platform) -> None:
    shelf = Shelf()
    shelf.fails = {"1": "not now"}
    worker = tl.tube.worker("items", shelf, pace=PATIENT)
    async with running(worker):
        await execute(tl, "insert into item values (1, 'odd'), (2, 'even')")
        await tl.tube.tick()
        await eventually(lambda: shelf.writes["1"] > 0 and shelf.writes["2"] > 0)
        await tl.tube.ensure("items", lanes=1)
        shelf.fails = {}
        await eventually(lambda: nothing_waits(tl), timeout=20)
    assert shelf.keys == ["1", "2"]


async def test_a_worker_goes_on_when_there_are_fewer_lanes_than_it_works(tl: Platform) -> None:
    shelf = Shelf()
    async with running(tl.tube.worker("items", shelf, pace=HASTE)):
        await execute(tl, "insert into item values (1), (2)")
        await tl.tube.tick()
        await eventually(lambda: shelf.keys == ["1", "2"])
        await tl.tube.ensure("items", lanes=1)
        await execute(tl, "insert into item values (3), (4)")
        await tl.tube.tick()
        await eventually(lambda: shelf.keys == ["1", "2", "3", "4"])


async def test_positions_that_are_given_out_again_are_read_again(tl: Platform) -> None:
    """After a failover to a server that had not heard of them."""
    shelf = Shelf()
    async with running(tl.tube.worker("items", shelf, pace=HASTE)):
        await execute(tl, "insert into item values (1), (3)")
        await tl.tube.tick()
        await eventually(lambda: nothing_waits(tl))
        await execute(
            tl,
            "delete from trunkline.tick where sequence = 'tube_entry';"
            " update trunkline.cursor set up_to = 0;"
            " truncate trunkline.tube_entry;"
            " update trunkline.incarnation set timeline = timeline + 7",
        )
        await execute(tl, "insert into item values (5)")
        await tl.tube.tick()
        await eventually(lambda: "5" in shelf.keys)


class Meddler:
    """A database in which something happens right after a call."""

    def __init__(self, tl: Platform, function: str, happens: Callable[[], Awaitable[None]]):
        self._db = tl.db
        self._function = function
        self._happens = happens

    async def run(self, call: Call[T]) -> T:
        answer = await self._db.run(call)
        if call.function == self._function:
            await self._happens()
        return answer


async def test_a_lane_that_is_lost_while_it_is_given_back_is_just_lost(tl: Platform) -> None:
    process = await tl._lease.hold()

    async def taken() -> None:
        await execute(tl, "update trunkline.owner set epoch = epoch + 1")

    lanes = Lanes(tl.db, tl._lease, tube="items", member="one")
    await lanes.rejoin(process)
    await execute(tl, "insert into item values (1), (2)")
    await tl.tube.tick()
    for lane in lanes:
        lane.queue.read_up_to[0], lane.worked = 1, True
    await tl.db.run(calls.join("items", process, member="two"))
    lanes._db = Meddler(tl, "tube_join", taken)  # type: ignore[assignment]
    await lanes.rejoin(process)
    assert len(lanes) == 0


async def test_a_worker_gives_its_lanes_back_though_the_server_was_away(tl: Platform) -> None:
    worker = tl.tube.worker("items", Shelf(), pace=HASTE)
    async with running(worker):
        await execute(tl, "insert into item values (1), (2)")
        await tl.tube.tick()
        await eventually(lambda: nothing_waits(tl))
        worker._lanes._db = GoneDb()  # type: ignore[assignment]
    await tl._lease.renew()
    assert [lane.process for lane in await tl.tube.stats("items")] == [None, None]


class GoneDb:
    """A database that is away."""

    async def run(self, call: Call[T]) -> T:
        raise Unavailable("away.")


async def test_garbage_of_a_lane_that_was_lost_is_left_to_its_next_owner(tl: Platform) -> None:
    """Nobody makes room in its queue any more."""

    class Cluttered(Shelf):
        async def older_than(self, *_: object) -> Page:
            return Page([(0, "1"), (0, "2")], "more")

    lane = Lane(0, 1, 1, LaneQueue(0, 0), [0, 0])
    entry = Entry(1, 1, 1, "item", 0, "T", [], None, "truncate", datetime.now(UTC))
    lane.queue.add(0, entry)
    garbage = Garbage(tl.db, Cluttered(), tube="items", queue_keys=1, tell=lambda: None)
    collecting = asyncio.create_task(garbage.collect(lane, (0, 1), entry))
    await eventually(lambda: len(lane.queue) == 2)
    lane.lost = True
    await asyncio.wait_for(collecting, 5)


async def test_keys_touched_all_the_time_do_not_fill_the_memory_while_nothing_is_delivered(
    tl: Platform,
) -> None:
    shelf = Shelf()
    shelf.gate.clear()
    worker = tl.tube.worker("items", shelf, pace=Pace(queue_keys=5, poll_interval=0.02))
    await execute(
        tl,
        "insert into item values (2);"
        " select trunkline.tube_touch('items', 'item', '{2}', shard => 0)"
        " from generate_series(1, 1000)",
    )
    await tl.tube.tick()
    async with running(worker):
        await eventually(lambda: any(lane.queue.entries >= 50 for lane in worker._lanes))
        for _ in range(20):
            await worker._read()
        assert max(lane.queue.entries for lane in worker._lanes) <= 250
        shelf.gate.set()
        await eventually(lambda: nothing_waits(tl))
    assert shelf.keys == ["2"]
