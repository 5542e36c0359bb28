"""Workers: one key at a time, again after failures, parked when hopeless, fenced when late."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.conninfo import make_conninfo
from tests.fixtures.postgres import new_database, take_over

import trunkline
from trunkline.core.db import AsyncDb
from trunkline.core.errors import Unavailable
from trunkline.testing import eventually
from trunkline.tube.downstreams.base import Downstream, Page
from trunkline.tube.pace import Pace
from trunkline.tube.services import TubeRunner

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from tests.fixtures.postgres import AnyServer

    from trunkline.platform import Platform
    from trunkline.tube.models import Change, Version
    from trunkline.tube.worker import Worker

HASTE = Pace(batch=2, parallelism=3, park_after=3, retry_first=0.01, poll_interval=0.02)


class Shelf(Downstream):
    """Keeps documents by key with their versions, and remembers how it was called."""

    def __init__(self) -> None:
        self.documents: dict[tuple[int, str], tuple[str | None, Version]] = {}
        self.batches: list[list[str]] = []
        self.writes: Counter[str] = Counter()
        self.in_flight: Counter[str] = Counter()
        self.clashes = 0
        self.fails: Mapping[str, str] = {}
        self.away = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def upsert(self, changes: Sequence[Change]) -> Mapping[Change, str]:
        return await self._write(changes)

    async def delete(self, changes: Sequence[Change]) -> Mapping[Change, str]:
        return await self._write(changes)

    async def older_than(
        self, relation: str, shard: int | None, version: Version, after: str | None, limit: int
    ) -> Page:
        old = sorted(
            (place, key)
            for (place, key), (document, stored) in self.documents.items()
            if document is not None and stored < version
        )
        return Page(old, None)

    @property
    def keys(self) -> list[str]:
        return sorted(
            key for (_, key), (document, _) in self.documents.items() if document is not None
        )

    @property
    def texts(self) -> dict[str, str]:
        return {key: text for (_, key), (text, _) in self.documents.items() if text is not None}

    async def _write(self, changes: Sequence[Change]) -> Mapping[Change, str]:
        keys = [change.key for change in changes]
        self.batches.append(keys)
        self.in_flight.update(keys)
        self.clashes += sum(self.in_flight[key] > 1 for key in keys)
        await self.gate.wait()
        self.in_flight.subtract(keys)
        if self.away:
            self.away -= 1
            raise Unavailable("the shelf is away.")
        failed = {}
        for change in changes:
            self.writes[change.key] += 1
            if change.key in self.fails:
                failed[change] = self.fails[change.key]
                continue
            stored = self.documents.get((change.shard, change.key))
            if stored is None or stored[1] <= change.version:
                self.documents[(change.shard, change.key)] = (change.document, change.version)
        return failed


@pytest.fixture
async def tl(dsn: str) -> AsyncIterator[Platform]:
    async with prepared(dsn) as platform:
        yield platform


@asynccontextmanager
async def prepared(dsn: str) -> AsyncIterator[Platform]:
    async with trunkline.connect(dsn) as platform:
        await execute(platform, "create table item (id int primary key, name text)")
        await platform.tube.ensure("items")
        await platform.tube.attach("items", "item")
        yield platform


async def execute(tl: Platform, statement: str) -> None:
    async with tl.transaction() as connection:
        await connection.execute(statement)


async def deliver(tl: Platform, worker: Worker) -> int:
    await tl.tube.tick()
    return await worker.run_once()


async def waiting(tl: Platform) -> int:
    await tl.tube.tick()
    return sum(lane.live_entries + lane.backfill_entries for lane in await tl.tube.stats("items"))


@asynccontextmanager
async def running(worker: Worker) -> AsyncIterator[asyncio.Event]:
    stop = asyncio.Event()
    task = asyncio.create_task(worker.run(stop))
    try:
        yield stop
    finally:
        stop.set()
        await task


async def test_batches_are_filled_across_entries(tl: Platform) -> None:
    shelf = Shelf()
    await execute(tl, "insert into item select g from generate_series(1, 3) g")
    await execute(tl, "insert into item select g from generate_series(4, 7) g")
    await deliver(tl, tl.tube.worker("items", shelf, pace=HASTE))
    assert sorted(map(len, shelf.batches)) == [1, 2, 2, 2]
    assert shelf.keys == ["1", "2", "3", "4", "5", "6", "7"]


async def test_a_key_in_two_entries_is_sent_once_and_both_are_done(tl: Platform) -> None:
    shelf = Shelf()
    await execute(tl, "insert into item values (1, 'a')")
    await execute(tl, "update item set name = 'b'")
    await deliver(tl, tl.tube.worker("items", shelf))
    assert shelf.writes == {"1": 1}
    assert await waiting(tl) == 0


async def test_touches_during_delivery_cause_exactly_one_more(tl: Platform) -> None:
    shelf = Shelf()
    await execute(tl, "insert into item values (1, 'a')")
    await tl.tube.tick()
    async with running(tl.tube.worker("items", shelf, pace=HASTE)):
        shelf.gate.clear()
        await eventually(lambda: bool(shelf.batches))
        for name in "bcd":
            await execute(tl, f"update item set name = '{name}'")
        await tl.tube.tick()
        await eventually(lambda: waiting_is_read(tl))
        shelf.gate.set()
        await eventually(lambda: _nothing_waits(tl))
    assert shelf.writes["1"] == 2
    assert shelf.clashes == 0
    assert '"d"' in str(shelf.documents[(0, "1")][0])


async def waiting_is_read(tl: Platform) -> bool:
    return await waiting(tl) >= 4


async def _nothing_waits(tl: Platform) -> bool:
    return await waiting(tl) == 0


async def test_a_worker_that_is_cancelled_while_it_rests_leaves_no_task_behind(
    tl: Platform,
) -> None:
    def waits() -> int:
        return sum("Event.wait" in str(task.get_coro()) for task in asyncio.all_tasks())

    before = waits()
    worker = tl.tube.worker("items", Shelf(), pace=Pace(poll_interval=30))
    task = asyncio.create_task(worker.run(asyncio.Event()))
    await eventually(lambda: waits() == before + 2)
    task.cancel()
    await asyncio.wait({task})
    await eventually(lambda: waits() == before, timeout=2)


async def test_no_key_is_ever_in_flight_twice_under_concurrent_changes(tl: Platform) -> None:
    shelf = Shelf()
    await execute(tl, "insert into item select g from generate_series(1, 20) g")
    async with running(tl.tube.worker("items", shelf, pace=HASTE)):
        for turn in range(40):
            await execute(tl, f"update item set name = '{turn}' where id % 3 = {turn % 3}")
            await tl.tube.tick()
        await eventually(lambda: _nothing_waits(tl))
    assert shelf.clashes == 0
    rows = {key: document for (_, key), (document, _) in shelf.documents.items()}
    async with tl.transaction() as connection:
        cursor = await connection.execute("select id::text, to_jsonb(item)::text from item")
        assert rows == dict(await cursor.fetchall())


async def test_a_failed_key_is_tried_again_and_then_parked_while_the_others_go_on(
    tl: Platform,
) -> None:
    shelf = Shelf()
    shelf.fails = {"2": "it does not fit"}
    await execute(tl, "insert into item select g from generate_series(1, 5) g")
    await deliver(tl, tl.tube.worker("items", shelf, pace=HASTE))
    assert shelf.keys == ["1", "3", "4", "5"]
    assert shelf.writes["2"] == HASTE.park_after
    [parked] = await tl.tube.parked("items")
    assert (parked.key, parked.error) == ("2", "it does not fit")
    assert await waiting(tl) == 0


async def test_a_key_is_parked_whatever_is_in_the_words_of_its_error(tl: Platform) -> None:
    shelf = Shelf()
    shelf.fails = {"1": "bad byte \0", "2": "bad letter \ud800"}
    await execute(tl, "insert into item select g from generate_series(1, 3) g")
    await deliver(tl, tl.tube.worker("items", shelf, pace=HASTE))
    errors = {parked.key: parked.error for parked in await tl.tube.parked("items")}
    assert errors == {"1": "bad byte \N{REPLACEMENT CHARACTER}", "2": "bad letter ?"}
    assert await waiting(tl) == 0


async def test_an_unparked_key_is_delivered_with_the_state_of_now(tl: Platform) -> None:
    shelf = Shelf()
    shelf.fails = {"1": "no"}
    worker = tl.tube.worker("items", shelf, pace=HASTE)
    await execute(tl, "insert into item values (1, 'a')")
    await deliver(tl, worker)
    await execute(tl, "update item set name = 'b'")
    await deliver(tl, worker)
    shelf.fails = {}
    assert await tl.tube.unpark("items") == 1
    await deliver(tl, worker)
    assert '"b"' in str(shelf.documents[(0, "1")][0])
    assert await tl.tube.parked("items") == []


async def test_a_row_whose_enrichment_always_fails_is_parked_alone(tl: Platform) -> None:
    shelf = Shelf()

    async def enrich(touches: Sequence[Any]) -> Mapping[str, Any]:
        if any(touch.key == "3" for touch in touches):
            raise ValueError("cannot read 3")
        return {touch.key: {"id": touch.key} for touch in touches}

    await execute(tl, "insert into item select g from generate_series(1, 8) g")
    worker = tl.tube.worker("items", shelf, enrich=enrich, pace=Pace(batch=8, park_after=2))
    await deliver(tl, worker)
    assert shelf.keys == ["1", "2", "4", "5", "6", "7", "8"]
    assert "cannot read 3" in (await tl.tube.parked("items"))[0].error


async def test_a_downstream_that_is_away_holds_the_tube_back_and_parks_nothing(
    tl: Platform,
) -> None:
    shelf = Shelf()
    shelf.away = 4
    await execute(tl, "insert into item select g from generate_series(1, 4) g")
    await deliver(tl, tl.tube.worker("items", shelf, pace=HASTE))
    assert shelf.keys == ["1", "2", "3", "4"]
    assert await tl.tube.parked("items") == []


async def test_a_worker_outlives_a_disk_that_is_full_for_a_while(
    tl: Platform, caplog: pytest.LogCaptureFixture
) -> None:
    await execute(
        tl,
        "create function refuse() returns trigger language plpgsql as"
        " $$begin raise disk_full using message = 'no room'; end$$;"
        " create trigger refuse before insert on trunkline.cursor execute function refuse()",
    )
    await execute(tl, "insert into item values (1)")
    await tl.tube.tick()
    async with running(tl.tube.worker("items", Shelf(), pace=HASTE)):
        await eventually(lambda: "no room" in caplog.text)
        await execute(tl, "drop function refuse cascade")

        async def done() -> None:
            assert await waiting(tl) == 0

        await eventually(done)


async def test_a_table_that_is_locked_for_a_while_holds_the_tube_back_and_parks_nothing(
    tl: Platform, dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    shelf = Shelf()
    await execute(tl, "insert into item values (1)")
    await tl.tube.tick()
    impatient = make_conninfo(dsn, options="-c lock_timeout=10")
    async with trunkline.connect(impatient) as other:
        async with tl.transaction() as connection:
            await connection.execute("lock table item")
            worker = other.tube.worker("items", shelf, pace=HASTE)
            async with running(worker):
                await eventually(lambda: caplog.text.count("lock timeout") >= 3)
        await deliver(tl, worker)
    assert shelf.keys == ["1"]
    assert await tl.tube.parked("items") == []


async def test_live_keys_go_first_and_backfill_keeps_its_share(tl: Platform) -> None:
    shelf = Shelf()
    async with tl.transaction() as connection:
        await connection.execute("set local trunkline.priority = 'backfill'")
        await connection.execute("insert into item select g from generate_series(1, 10) g")
    await execute(tl, "insert into item select g from generate_series(101, 120) g")
    pace = Pace(batch=10, parallelism=1, backfill_share=0.2)
    await deliver(tl, tl.tube.worker("items", shelf, pace=pace))
    first = shelf.batches[0]
    assert sum(int(key) > 100 for key in first) == 8
    assert len(shelf.keys) == 30


async def test_the_degraded_mode_leaves_backfill_alone(tl: Platform) -> None:
    shelf = Shelf()
    await execute(tl, "insert into item values (1, 'a')")
    await tl.tube.touch("items", "item", [1], op="B")
    await tl.tube.touch("items", "item", [1])
    worker = tl.tube.worker("items", shelf, pace=Pace(exclude_backfill=True))
    await deliver(tl, worker)
    assert (await tl.tube.stats("items"))[0].backfill_entries == 1
    assert (await tl.tube.stats("items"))[0].live_entries == 0


async def test_a_backfill_removes_what_is_gone_and_spares_what_is_committed_late(
    tl: Platform,
) -> None:
    shelf = Shelf()
    worker = tl.tube.worker("items", shelf)
    await execute(tl, "insert into item select g from generate_series(1, 5) g")
    await deliver(tl, worker)
    await execute(tl, "alter table item disable trigger user; delete from item where id = 2;")
    await execute(tl, "alter table item enable trigger user")
    async with tl.transaction() as late:
        await late.execute("insert into item values (0, 'late')")
        [backfill] = await tl.tube.backfill_schedule("items")
        await tl.tube.backfill_step(backfill)
        await tl.tube.backfill_step(backfill)
        [status] = await tl.tube.backfill_status("items")
        assert status.status == "finishing"
        assert "pid" in str(status.waits_for)
    await tl.tube.backfill_step(backfill)
    await deliver(tl, worker)
    assert shelf.keys == ["0", "1", "3", "4", "5"]


async def test_a_backfill_takes_back_what_a_standby_that_took_over_lacks(
    server: AnyServer, template: str
) -> None:
    """Nothing else does: no entry that the standby has speaks of it."""
    shelf = Shelf()
    with new_database(server, template=template) as first:
        async with prepared(server.dsn(first)) as tl:
            await execute(tl, "insert into item values (1, 'there'), (2, 'there')")
            await deliver(tl, tl.tube.worker("items", shelf, pace=HASTE))
        there = shelf.texts
        with new_database(server, template=first) as second:
            async with trunkline.connect(server.dsn(first)) as tl:
                worker = tl.tube.worker("items", shelf, pace=HASTE)
                await execute(tl, "update item set name = 'lost'; insert into item values (3)")
                await deliver(tl, worker)
                assert shelf.keys == ["1", "2", "3"]
                await asyncio.to_thread(take_over, server, first, second)
                async with running(worker):
                    [backfill] = await tl.tube.backfill_schedule("items")

                    async def brought_back() -> None:
                        await tl.tube.backfill_step(backfill)
                        await tl.tube.tick()
                        assert shelf.texts == there

                    await eventually(brought_back)


async def test_truncate_empties_the_downstream(tl: Platform) -> None:
    shelf = Shelf()
    worker = tl.tube.worker("items", shelf)
    await execute(tl, "insert into item select g from generate_series(1, 5) g")
    await deliver(tl, worker)
    await execute(tl, "truncate item")
    await execute(tl, "insert into item values (9, 'new')")
    await deliver(tl, worker)
    assert shelf.keys == ["9"]
    assert await waiting(tl) == 0


async def test_two_workers_share_the_lanes_and_never_one_of_them(
    tl: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trunkline.tube.lanes._REJOIN_EVERY", 0.05)
    await tl.tube.ensure("items", lanes=4)
    await tl.tube.attach("items", "item", shard="id % 4")
    shelf = Shelf()
    one, two = (tl.tube.worker("items", shelf, pace=HASTE) for _ in range(2))
    async with running(one), running(two):

        async def shared() -> bool:
            return sorted((await _owners(tl)).values()) == [2, 2]

        await eventually(shared, timeout=20)
        await execute(tl, "insert into item select g from generate_series(1, 200) g")
        await eventually(lambda: _nothing_waits(tl))
    assert shelf.clashes == 0
    assert len(shelf.keys) == 200


async def _owners(tl: Platform) -> Counter[str]:
    async with tl.transaction() as connection:
        cursor = await connection.execute(
            "select process::text || member from trunkline.owner"
            " where resource like 'tube:%:4:%' and process is not null"
        )
        return Counter(row[0] for row in await cursor.fetchall())


async def test_a_worker_that_lost_its_lane_cannot_acknowledge(tl: Platform) -> None:
    shelf = Shelf()
    shelf.gate.clear()
    await execute(tl, "insert into item values (1, 'a')")
    await tl.tube.tick()
    async with running(tl.tube.worker("items", shelf, pace=HASTE)):
        await eventually(lambda: bool(shelf.batches))
        await execute(
            tl,
            "update trunkline.owner set epoch = epoch + 1, process = null"
            " where resource like 'tube:%'",
        )
        shelf.gate.set()
        await eventually(lambda: shelf.writes["1"] >= 2)  # taken again, delivered again
        await eventually(lambda: _nothing_waits(tl))


async def test_a_cancelled_worker_finishes_what_is_in_flight_and_gives_its_lanes_back(
    tl: Platform,
) -> None:
    first, second = Shelf(), Shelf()
    first.gate.clear()
    await execute(tl, "insert into item select g from generate_series(1, 2) g")
    await tl.tube.tick()
    working = asyncio.create_task(tl.tube.worker("items", first, pace=HASTE).run(asyncio.Event()))
    await eventually(lambda: sum(map(len, first.batches)) == 2)
    working.cancel()
    await asyncio.sleep(0)
    first.gate.set()
    await asyncio.wait({working})
    assert first.keys == ["1", "2"]
    await execute(tl, "update item set name = 'x' where id = 1")
    assert await deliver(tl, tl.tube.worker("items", second)) == 1
    assert second.keys == ["1"]


async def _owned(tl: Platform) -> bool:
    return all(lane.process is not None for lane in await tl.tube.stats("items"))


async def test_the_runner_notices_new_changed_and_removed_downstreams(tl: Platform) -> None:
    runner = TubeRunner(tl.db, tl._lease, tl._listener)
    try:
        await tl.tube.downstream("items", "postgres", {"table": "first"})
        assert await runner.run_once() == 1
        await execute(tl, "insert into item values (1, 'a')")
        await tl.tube.tick()
        await eventually(lambda: _count(tl, "first", 1), also=(trunkline.NotFound,))
        await tl.tube.downstream("items", "postgres", {"table": "second"})
        await runner.run_once()
        await asyncio.wait_for(runner.wake.wait(), 10)
        await runner.run_once()
        await execute(tl, "insert into item values (2, 'b')")
        await tl.tube.tick()
        await eventually(lambda: _count(tl, "second", 1), also=(trunkline.NotFound,))
        await tl.tube.downstream("items", None)
        assert await runner.run_once() == 1
        assert await runner.run_once() == 0
    finally:
        await runner.close()


async def test_a_downstream_with_bad_options_stops_no_other_tube(tl: Platform) -> None:
    await tl.tube.ensure("broken")
    await tl.tube.downstream("broken", "postgres")
    await execute(  # as an older schema may have stored it
        tl, """update trunkline.tube_downstream set options = '{"worker.park_after": "2"}'"""
    )
    await tl.tube.downstream("items", "postgres", {"table": "fine"})
    runner = TubeRunner(tl.db, tl._lease, tl._listener)
    try:
        assert await runner.run_once() == 1
        assert await runner.run_once() == 0
    finally:
        await runner.close()


async def _count(tl: Platform, table: str, n: int) -> bool:
    async with tl.transaction() as connection:
        found = await connection.execute("select to_regclass(%s) is not null", [table])
        row = await found.fetchone()
        if not (row and row[0]):
            return False
        cursor = await connection.execute(f"select count(*) from {table}")  # type: ignore[arg-type]
        row = await cursor.fetchone()
    return bool(row and row[0] == n)


async def test_a_query_enriches_in_sets_and_a_missing_row_is_gone(tl: Platform) -> None:
    shelf = Shelf()
    query = (
        "select id::text, jsonb_build_object('shout', upper(name)) from item"
        " where id = any (%(keys)s::int[]) and name <> 'b'"
    )
    await execute(tl, "insert into item values (1, 'a'), (2, 'b')")
    await deliver(tl, tl.tube.worker("items", shelf, enrich=query))
    assert shelf.keys == ["1"]
    assert "A" in str(shelf.documents[(0, "1")][0])


async def test_an_idle_worker_writes_nothing(tl: Platform) -> None:
    async with running(tl.tube.worker("items", Shelf(), pace=HASTE)):
        await eventually(lambda: _owned(tl))

        async def tables() -> list[Any]:
            async with tl.transaction() as connection:
                cursor = await connection.execute(
                    "select relname, n_tup_ins, n_tup_upd, n_tup_del from pg_stat_user_tables"
                    " where schemaname = 'trunkline' and relname <> 'lease' order by 1"
                )
                return await cursor.fetchall()

        async def settled() -> bool:
            before = await tables()
            for _ in range(20):
                await tl.tube.tick()
            return before == await tables()

        await eventually(settled)


async def test_more_garbage_than_the_queue_holds_is_collected_bit_by_bit(tl: Platform) -> None:
    class Pages(Shelf):
        async def older_than(
            self, relation: str, shard: int | None, version: Version, after: str | None, limit: int
        ) -> Page:
            keys = (await super().older_than(relation, shard, version, after, limit)).keys
            rest = [pair for pair in keys if after is None or pair[1] > after]
            return Page(rest[:10], rest[9][1] if len(rest) > 10 else None)

    shelf = Pages()
    worker = tl.tube.worker("items", shelf, pace=Pace(batch=5, queue_keys=10, poll_interval=0.02))
    await execute(tl, "insert into item select g from generate_series(1, 60) g")
    await deliver(tl, worker)
    await execute(tl, "truncate item")
    await deliver(tl, worker)
    assert shelf.keys == []


async def test_a_replica_that_is_away_leaves_the_primary(tl: Platform) -> None:
    shelf = Shelf()
    await execute(tl, "insert into item values (1, 'a')")
    replica = AsyncDb("postgresql://localhost:1/nowhere", connect_timeout=1)
    worker = tl.tube.worker("items", shelf, replica=replica, pace=HASTE)
    try:
        await asyncio.wait_for(deliver(tl, worker), 30)
    finally:
        await replica.close()
    assert shelf.keys == ["1"]


async def test_a_parked_key_that_is_delivered_is_parked_no_longer(tl: Platform) -> None:
    shelf = Shelf()
    shelf.fails = {"1": "poison", "2": "poison"}
    worker = tl.tube.worker("items", shelf, pace=HASTE)
    await execute(tl, "insert into item values (1, 'a'), (2, 'b'), (3, 'c')")
    await tl.tube.tick()
    await worker.run_once()
    assert sorted(parked.key for parked in await tl.tube.parked("items")) == ["1", "2"]
    shelf.fails = {"2": "poison"}
    await execute(tl, "update item set name = 'fixed'")
    await tl.tube.tick()
    await worker.run_once()
    assert [parked.key for parked in await tl.tube.parked("items")] == ["2"]
    await tl.tube.unpark("items")
    shelf.fails = {}
    await tl.tube.tick()
    await worker.run_once()
    assert await tl.tube.parked("items") == []


async def test_a_worker_begins_nothing_once_its_lease_may_have_run_out(
    tl: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after SIGSTOP and SIGCONT: the clock goes on, and another process has the lanes."""
    shelf = Shelf()
    worker = tl.tube.worker("items", shelf, pace=HASTE)
    await worker.run_once()
    await execute(tl, "insert into item values (1, 'a'), (2, 'b')")
    await tl.tube.tick()
    await worker._read()
    woke = worker._lanes._fresh_until + 1
    with monkeypatch.context() as slept:
        slept.setattr("trunkline.tube.lanes.time.monotonic", lambda: woke)
        assert not worker._lanes.are_fresh
        assert worker._lanes.is_due
        assert worker._send() == 0
        with pytest.raises(Unavailable, match="lease"):
            (lane,) = worker._lanes
            await worker._bring(lane.queue.take(2, backfill_share=0))
    assert shelf.batches == []
