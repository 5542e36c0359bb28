"""Members of assigned groups: partitions in order, fenced, and quiet while nothing comes."""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.log.steps import fail_over

import trunkline
from trunkline import (
    Conflict,
    Invalid,
    LeaseLost,
    NotFound,
    Platform,
    PositionTrimmed,
    Unavailable,
)
from trunkline.core import telemetry
from trunkline.log.decoding import decode
from trunkline.testing import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.fixtures.proxy import Proxy

    from trunkline.core.calls import Call
    from trunkline.log.batches import StoredBatch
    from trunkline.log.consumer import Batch, Consumer
    from trunkline.log.decoding import DecodedBatch

FAR = 30.0  # seconds: a poll interval that no test waits for


@pytest.fixture
def dsn(log_dsn: str) -> str:
    """A database that the tests of this module share, swept after each of them."""
    return log_dsn


@pytest.fixture
async def tl(dsn: str) -> AsyncIterator[Platform]:
    async with trunkline.connect(dsn) as tl:
        await tl.log.create("orders")
        yield tl


class Watch:
    """Counts what is asked of the database, and can hold it up."""

    def __init__(self, tl: Platform, monkeypatch: pytest.MonkeyPatch):
        self.asked: Counter[str] = Counter()
        self._gates: dict[str, asyncio.Event] = {}
        self._reached: dict[str, asyncio.Event] = {}
        self._run = tl.db.run
        monkeypatch.setattr(tl.db, "run", self._watched)

    def hold(self, function: str) -> asyncio.Event:
        """Hold up calls of a function; the answer is set when one is held."""
        self._gates[function] = asyncio.Event()
        return self._reached.setdefault(function, asyncio.Event())

    def let_go(self, function: str) -> None:
        """End of the hold-up."""
        self._gates.pop(function).set()

    async def _watched(self, call: Call[Any], **options: Any) -> Any:
        self.asked[call.function] += 1
        if gate := self._gates.get(call.function):
            self._reached[call.function].set()
            await gate.wait()
        return await self._run(call, **options)


@pytest.fixture
def watch(tl: Platform, monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(tl, monkeypatch)


async def fill(tl: Platform, n: int, *, first: int = 1, topic: str = "orders", **to: Any) -> None:
    await tl.log.append(topic, [str(number) for number in range(first, first + n)], **to)


async def poll(consumer: Consumer) -> Batch:
    batch = await consumer.poll(10)
    assert batch is not None, "nothing came"
    return batch


async def take(consumer: Consumer, n: int) -> list[int]:
    """Read and commit so many messages."""
    found: list[int] = []
    while len(found) < n:
        batch = await poll(consumer)
        found += numbers(batch)
        await batch.commit()
    return found


def numbers(batch: Batch) -> list[int]:
    return [int(value or b"") for value in batch.values]


async def done(tl: Platform, group: str = "g", topic: str = "orders") -> list[int]:
    return [position.up_to for position in await tl.log.groups(topic, group)]


async def make_effect(dsn: str) -> None:
    """An empty table for what a handler does."""
    await execute(dsn, "drop table if exists effect")
    await execute(dsn, "create table effect (n int)")


async def execute(dsn: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as session:
        cursor = await session.execute(statement, values)
        return await cursor.fetchall() if cursor.description else []


async def test_a_group_reads_everything_in_order_and_goes_on_where_it_was(tl: Platform) -> None:
    await fill(tl, 10)
    async with tl.log.consume("orders", "g", max_messages=4) as consumer:
        assert [numbers(await poll(consumer)) for _ in range(2)] == [[1, 2, 3, 4], [5, 6, 7, 8]]
    async with tl.log.consume("orders", "g", max_messages=4) as consumer:
        batch = await poll(consumer)
        assert (batch.first_offset, batch.last_offset, len(batch)) == (1, 4, 4)
        await batch.commit()
    async with tl.log.consume("orders", "g") as consumer:
        assert await take(consumer, 6) == [5, 6, 7, 8, 9, 10]
        assert await consumer.poll(0) is None
    assert await done(tl) == [10]


@pytest.mark.parametrize("codec", ["none", "zstd"])
async def test_a_batch_is_the_same_as_messages_as_columns_and_as_arrow(
    tl: Platform, codec: str
) -> None:
    await tl.log.create("all", codec=codec)
    await tl.log.append("all", ["a", "b"], keys=["k", None], headers=[None, {"x": 1}])
    await tl.log.append("all", ["c"])
    async with tl.log.consume("all", "g") as consumer:
        batch = await poll(consumer)
    assert [(m.offset, m.key, m.value, m.headers) for m in batch.messages] == [
        (1, b"k", b"a", None),
        (2, None, b"b", {"x": 1}),
        (3, None, b"c", None),
    ]
    assert batch.values == [b"a", b"b", b"c"]
    assert batch.offsets == [1, 2, 3]
    table = batch.to_arrow()
    assert table.column_names == ["offset", "timestamp", "key", "value", "headers"]
    assert table.column("offset").to_pylist() == batch.offsets
    assert table.column("value").to_pylist() == batch.values
    assert table.column("key").to_pylist() == [b"k", None, None]
    assert table.column("headers").to_pylist() == [None, '{"x":1}', None]
    assert table.column("timestamp").to_pylist() == [m.at for m in batch.messages]
    assert "all/0, 1..3" in repr(batch)


@pytest.mark.parametrize("start", ["earliest", "latest", "offset", "time"])
async def test_a_new_group_starts_where_it_is_told_and_an_old_one_where_it_was(
    tl: Platform, start: str
) -> None:
    await fill(tl, 3)
    await fill(tl, 3, first=4)
    moments = [message.at async for message in tl.log.read("orders")]
    begin, expected = {
        "earliest": ("earliest", [1, 2, 3, 4, 5, 6, 7]),
        "latest": ("latest", [7]),
        "offset": (5, [5, 6, 7]),
        "time": (moments[3], [4, 5, 6, 7]),
    }[start]
    async with tl.log.consume("orders", "g", start=begin) as consumer:  # type: ignore[arg-type]
        if start == "latest":
            assert await consumer.poll(0) is None
        await fill(tl, 1, first=7)
        assert await take(consumer, len(expected)) == expected
    await fill(tl, 1, first=8)
    async with tl.log.consume("orders", "g", start=begin) as consumer:  # type: ignore[arg-type]
        assert await take(consumer, 1) == [8]


async def test_a_start_that_is_not_there_is_refused(tl: Platform) -> None:
    await fill(tl, 3)
    with pytest.raises(PositionTrimmed):
        await tl.log.consume("orders", "g", start=9).poll(0)
    with pytest.raises(trunkline.Invalid):
        await tl.log.consume("orders", "g", start="sometime").poll(0)
    assert await tl.log.groups("orders") == []


async def test_groups_do_not_disturb_each_other(tl: Platform) -> None:
    await fill(tl, 5)
    async with tl.log.consume("orders", "a") as a, tl.log.consume("orders", "b") as b:
        assert await take(a, 5) == await take(b, 5)
    with pytest.raises(Conflict, match="assigned"):
        await tl.log.consume("orders", "a", mode="shared").poll(0)


async def test_what_was_not_committed_is_delivered_again(tl: Platform) -> None:
    await fill(tl, 6)
    async with tl.log.consume("orders", "g", max_messages=2) as consumer:
        batches = [await poll(consumer) for _ in range(3)]
        await batches[1].commit()  # everything up to here, and so the first one too
    assert await done(tl) == [4]
    async with tl.log.consume("orders", "g") as consumer:
        assert await take(consumer, 2) == [5, 6]


async def test_a_released_batch_comes_back_before_all_others(tl: Platform) -> None:
    await fill(tl, 6)
    async with tl.log.consume("orders", "g", max_messages=2) as consumer:
        batches = [await poll(consumer) for _ in range(3)]
        for batch in batches:
            await batch.release(reason="try again")
        assert await take(consumer, 6) == [1, 2, 3, 4, 5, 6]


async def test_a_release_while_the_next_messages_are_fetched_skips_nothing(
    tl: Platform, watch: Watch
) -> None:
    await fill(tl, 2)
    async with tl.log.consume("orders", "g") as consumer:
        batch = await poll(consumer)
        await fill(tl, 2, first=3)
        held = watch.hold("log_fetch")
        polling = asyncio.create_task(take(consumer, 4))
        await held.wait()
        await batch.release()
        watch.let_go("log_fetch")
        assert await polling == [1, 2, 3, 4]


async def test_at_most_once_commits_first_and_never_delivers_again(tl: Platform) -> None:
    await fill(tl, 4)
    options: dict[str, Any] = {"delivery": "at-most-once", "max_messages": 2}
    async with tl.log.consume("orders", "g", **options) as consumer:
        batch = await poll(consumer)
        assert numbers(batch) == [1, 2]
        assert await done(tl) == [2]
        await batch.release()
        await batch.commit()
        assert numbers(await poll(consumer)) == [3, 4]
    async with tl.log.consume("orders", "g", **options) as consumer:
        assert await consumer.poll(0) is None


async def test_at_most_once_goes_on_quietly_when_it_was_fenced(tl: Platform) -> None:
    await fill(tl, 4)
    async with tl.log.consume("orders", "g", delivery="at-most-once", max_messages=1) as consumer:
        await poll(consumer)
        await tl.log.seek("orders", "g", 3)
        assert [numbers(await poll(consumer)) for _ in range(2)] == [[3], [4]]


async def test_the_effect_and_the_position_are_committed_together(dsn: str, tl: Platform) -> None:
    await make_effect(dsn)
    await fill(tl, 6)
    async with tl.log.consume("orders", "g", max_messages=2) as consumer:
        batch = await poll(consumer)
        async with tl.transaction() as connection:
            await connection.execute(
                "insert into effect select unnest(%s::int[])", [numbers(batch)]
            )
            await batch.commit(on=connection)
            assert await done(tl) == [0]
        assert await done(tl) == [2]
        batch = await poll(consumer)
        with pytest.raises(ZeroDivisionError):
            async with tl.transaction() as connection:
                await connection.execute("insert into effect values (99)")
                await batch.commit(on=connection)
                raise ZeroDivisionError
        assert await done(tl) == [2]
        await batch.release()
        assert numbers(await poll(consumer)) == [3, 4]
    assert await execute(dsn, "select n from effect") == [(1,), (2,)]


async def test_a_transaction_that_dies_between_effect_and_commit_leaves_neither(
    dsn: str, tl: Platform
) -> None:
    await make_effect(dsn)
    await fill(tl, 2)
    async with tl.log.consume("orders", "g") as consumer:
        batch = await poll(consumer)
        with suppress(psycopg.OperationalError, Unavailable):
            async with tl.transaction() as connection:
                await connection.execute("insert into effect values (1)")
                await batch.commit(on=connection)
                pid = connection.info.backend_pid
                await execute(dsn, "select pg_terminate_backend(%s, 10000)", pid)
        assert await done(tl) == [0]
        assert await execute(dsn, "select n from effect") == []
        await batch.release()
        assert await take(consumer, 2) == [1, 2]


async def test_a_commit_whose_answer_got_lost_does_not_repeat_the_effect(
    dsn: str, tl: Platform, proxy: Callable[[str], Proxy]
) -> None:
    await make_effect(dsn)
    await execute(
        dsn,
        "create or replace function wait() returns trigger language plpgsql as"
        " 'begin perform pg_advisory_xact_lock(42); return null; end'",
    )
    await execute(
        dsn,
        "create constraint trigger wait after insert on effect"
        " deferrable initially deferred for each row execute function wait()",
    )
    await fill(tl, 4)
    wire = proxy(dsn)
    async with (
        await psycopg.AsyncConnection.connect(dsn) as gate,
        trunkline.connect(wire.dsn) as far,
        far.log.consume("orders", "g", max_messages=2) as consumer,
    ):
        await gate.execute("select pg_advisory_xact_lock(42)")
        batch = await poll(consumer)

        async def handle() -> None:
            async with far.transaction() as connection:
                await connection.execute("insert into effect values (1)")
                await batch.commit(on=connection)

        handling = asyncio.create_task(handle())
        await eventually(lambda: _waiting(dsn, 1))
        wire.cut()  # the server is in the middle of the commit, and will finish it
        with pytest.raises(psycopg.OperationalError):
            await handling
        await batch.release()
        polling = asyncio.create_task(poll(consumer))
        await eventually(lambda: _waiting(dsn, 2))
        await gate.rollback()
        assert numbers(await polling) == [3, 4]
    assert await execute(dsn, "select n from effect") == [(1,)]


async def _waiting(dsn: str, n: int) -> None:
    waiting = "select pid from pg_stat_activity where datname = current_database()"
    assert len(await execute(dsn, f"{waiting} and wait_event_type = 'Lock'")) == n


async def test_members_share_the_partitions_and_every_message_is_read_once(tl: Platform) -> None:
    await tl.log.create("many", partitions=5)
    for partition in range(5):
        await fill(tl, 20, first=100 * partition, topic="many", partition=partition)
    found: Counter[int] = Counter()

    async def work(consumer: Consumer) -> None:
        async for batch in consumer:
            found.update(numbers(batch))
            await batch.commit()

    members = [tl.log.consume("many", "g", max_messages=3) for _ in range(3)]
    tasks = [asyncio.create_task(work(member)) for member in members]
    await eventually(lambda: found.total() >= 100, timeout=20)
    await eventually(
        lambda: sorted(len(member.assignment) for member in members) == [1, 2, 2], timeout=20
    )
    owned = [partition for member in members for partition in member.assignment]
    for partition in range(5):
        await fill(tl, 5, first=1000 + 10 * partition, topic="many", partition=partition)
    await eventually(lambda: found.total() >= 125, timeout=20)

    async def all_committed() -> bool:
        return all(group.lag == 0 for group in await tl.log.lag("many"))

    await eventually(all_committed)
    for member in members:
        await member.close()
    await asyncio.gather(*tasks)
    assert sorted(owned) == [0, 1, 2, 3, 4]
    assert set(found.values()) == {1}


async def test_a_newcomer_waits_until_what_was_handed_out_is_settled(tl: Platform) -> None:
    await tl.log.create("two", partitions=2)
    for partition in range(2):
        await fill(tl, 3, first=10 * partition, topic="two", partition=partition)
    async with (
        tl.log.consume("two", "g", max_messages=2) as old,
        tl.log.consume("two", "g", max_messages=2) as new,
    ):
        batches = [await poll(old), await poll(old)]
        assert old.assignment == [0, 1]
        assert await new.poll(0) is None
        for batch in batches:
            assert new.assignment == []
            await batch.commit()  # was begun before the newcomer came, and counts

        async def shared() -> None:
            if batch := await old.poll(0):
                await batch.release()
            if batch := await new.poll(0):
                await batch.release()
            assert len(old.assignment) == len(new.assignment) == 1

        await eventually(shared)
        assert numbers(await poll(new)) in ([2], [12])
    assert await done(tl, topic="two") == [2, 2]


async def test_the_partitions_of_a_member_that_leaves_are_taken_at_once(tl: Platform) -> None:
    await fill(tl, 3)
    first = tl.log.consume("orders", "g", poll_interval=FAR)
    batch = await poll(first)
    async with tl.log.consume("orders", "g", poll_interval=FAR) as second:
        waiting = asyncio.create_task(take(second, 3))
        await eventually(lambda: second._subscription is not None)
        assert second.assignment == []
        await first.close()
        assert await waiting == [1, 2, 3]
        with pytest.raises(LeaseLost):
            await batch.commit()
    assert await done(tl) == [3]


async def test_two_members_of_one_process_are_two_members(tl: Platform) -> None:
    await tl.log.create("two", partitions=2)
    async with tl.log.consume("two", "g") as a, tl.log.consume("two", "g") as b:

        async def shared() -> None:
            for member in (a, b):
                await member.poll(0)
            assert len(a.assignment) == len(b.assignment) == 1

        await eventually(shared)
        assert a.assignment != b.assignment


async def test_partitions_that_are_added_are_read_too(tl: Platform) -> None:
    await fill(tl, 1)
    async with tl.log.consume("orders", "g", start="latest") as consumer:
        assert await consumer.poll(0) is None
        await tl.log.alter("orders", partitions=3)
        await fill(tl, 2, first=5, partition=2)
        assert await take(consumer, 2) == [5, 6]
        assert consumer.assignment == [0, 1, 2]


async def test_a_seek_fences_the_reader_which_goes_on_from_there(dsn: str, tl: Platform) -> None:
    await make_effect(dsn)
    await fill(tl, 6)
    async with tl.log.consume("orders", "g", max_messages=2) as consumer:
        await take(consumer, 4)
        batch = await poll(consumer)
        assert await tl.log.seek("orders", "g", 2) == {0: 2}
        with pytest.raises(LeaseLost) as caught:
            async with tl.transaction() as connection:
                await connection.execute("insert into effect values (1)")
                await batch.commit(on=connection)
        assert caught.value.code == "TL423"
        assert await take(consumer, 4) == [2, 3, 4, 5]
    assert await execute(dsn, "select n from effect") == []


async def test_an_idle_reader_notices_a_seek(tl: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trunkline.log.assigned._REJOIN_EVERY", 0.3)
    await fill(tl, 2)
    async with tl.log.consume("orders", "g") as consumer:
        await take(consumer, 2)
        assert await consumer.poll(0) is None
        await tl.log.seek("orders", "g", "earliest")
        assert await take(consumer, 2) == [1, 2]


async def test_a_reader_behind_the_floor_is_told_and_goes_on_after_a_seek(tl: Platform) -> None:
    await fill(tl, 6)
    async with tl.log.consume("orders", "g", max_messages=2, fetch_bytes=1) as consumer:
        await take(consumer, 6)
        await eventually(lambda: consumer._ahead is None)
        await fill(tl, 2, first=7)
        await tl.log.trim("orders", 0, 9)
        for _ in range(2):
            with pytest.raises(PositionTrimmed) as caught:
                await consumer.poll(1)
        assert caught.value.details["first"] == 9
        await tl.log.seek("orders", "g", "earliest")
        await fill(tl, 1, first=9)
        assert await take(consumer, 1) == [9]


async def test_iteration_ends_when_the_consumer_is_closed(tl: Platform) -> None:
    await fill(tl, 2)
    seen: list[int] = []
    consumer = tl.log.consume("orders", "g", poll_interval=FAR)

    async def read() -> None:
        async for batch in consumer:
            seen.extend(numbers(batch))

    reading = asyncio.create_task(read())
    await eventually(lambda: seen == [1, 2])
    await consumer.close()
    await reading
    await consumer.close()
    assert await consumer.poll() is None
    assert (await tl.log.groups("orders"))[0].process is None


async def test_a_consumer_that_was_never_read_from_closes_quietly(tl: Platform) -> None:
    consumer = tl.log.consume("orders", "g")
    await consumer.close()
    assert await consumer.poll(0) is None
    assert await tl.log.groups("orders") == []


async def test_who_leaves_the_loop_goes_on_with_the_same_consumer(tl: Platform) -> None:
    await fill(tl, 4)
    async with tl.log.consume("orders", "g", max_messages=2) as consumer:
        async for batch in consumer:
            if numbers(batch) == [1, 2]:
                break
        await batch.commit()
        assert await take(consumer, 2) == [3, 4]


async def test_closing_while_the_group_is_being_joined_leaves_no_member_behind(
    dsn: str, tl: Platform, watch: Watch
) -> None:
    consumer = tl.log.consume("orders", "g")
    held = watch.hold("log_join")
    polling = asyncio.create_task(consumer.poll())
    await held.wait()
    closing = asyncio.create_task(consumer.close())
    await asyncio.sleep(0)
    watch.let_go("log_join")
    await asyncio.gather(polling, closing)
    assert await execute(dsn, "select * from trunkline.party") == []
    assert await execute(dsn, "select process from trunkline.owner") == [(None,)]


async def test_a_close_that_is_cancelled_leaves_all_the_same(
    dsn: str, tl: Platform, watch: Watch
) -> None:
    consumer = tl.log.consume("orders", "g")
    assert await consumer.poll(0) is None
    leaving = watch.hold("log_leave")
    closing = asyncio.create_task(consumer.close())
    await leaving.wait()
    closing.cancel()
    await asyncio.wait({closing})
    watch.let_go("log_leave")
    await consumer.close()
    assert await execute(dsn, "select * from trunkline.party") == []
    assert await execute(dsn, "select process from trunkline.owner") == [(None,)]


async def test_a_member_that_closed_while_the_server_was_away_is_not_kept_alive(
    dsn: str, tl: Platform, proxy: Callable[[str], Proxy]
) -> None:
    wire = proxy(dsn)
    async with trunkline.connect(wire.dsn, connect_timeout=0.2) as far:
        far.db._patience = 0.1
        consumer = far.log.consume("orders", "g")
        assert await consumer.poll(0) is None
        wire.refuse()
        await consumer.close()
        wire.resume()
        far.db._patience = 10
        await far._lease.renew()
        assert await execute(dsn, "select * from trunkline.party") == []
        assert await execute(dsn, "select process from trunkline.owner") == [(None,)]


@pytest.mark.parametrize("delivery", ["at-least-once", "at-most-once"])
async def test_a_poll_that_is_cancelled_loses_nothing(tl: Platform, delivery: str) -> None:
    await fill(tl, 40)
    found: list[int] = []
    async with tl.log.consume(
        "orders", "g", delivery=delivery, max_messages=1, fetch_bytes=1
    ) as consumer:
        wait, give_up = 0.0001, time.monotonic() + 20
        while len(found) < 40 and time.monotonic() < give_up:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    found += numbers(await poll(consumer))
            wait = min(wait * 1.1, 0.02)
    assert found == list(range(1, 41))


async def test_many_tasks_may_poll_one_consumer(tl: Platform) -> None:
    await fill(tl, 60)
    found: list[int] = []
    async with tl.log.consume("orders", "g", max_messages=1) as consumer:

        async def read() -> None:
            while len(found) < 60:
                if batch := await consumer.poll(0.05):
                    found.extend(numbers(batch))

        await asyncio.gather(*(read() for _ in range(5)))
    assert sorted(found) == list(range(1, 61))


async def test_small_batches_out_of_a_large_one_cost_one_fetch(tl: Platform, watch: Watch) -> None:
    await fill(tl, 500)
    async with tl.log.consume("orders", "g", max_messages=10) as consumer:
        for _ in range(50):
            assert len(await poll(consumer)) == 10
    assert watch.asked["log_fetch"] == 1


async def test_a_backlog_is_read_ahead_while_the_caller_works(tl: Platform, watch: Watch) -> None:
    for number in range(1, 21):
        await fill(tl, 1, first=number)
    async with tl.log.consume("orders", "g", max_messages=2, fetch_bytes=4) as consumer:
        assert numbers(await poll(consumer)) == [1, 2]
        await eventually(lambda: watch.asked["log_fetch"] == 2)
        held = watch.hold("log_fetch")
        assert numbers(await poll(consumer)) == [3, 4]
        await asyncio.wait_for(held.wait(), 5)
        watch.let_go("log_fetch")
        assert await take(consumer, 16) == list(range(5, 21))


async def test_a_backlog_is_read_ahead_though_the_caller_never_waits(
    tl: Platform, watch: Watch
) -> None:
    for _ in range(40):
        await tl.log.append("orders", "x")
    asked = []
    async with tl.log.consume("orders", "g", max_messages=1, fetch_bytes=20) as consumer:
        for _ in range(40):
            await poll(consumer)
            asked.append(watch.asked["log_fetch"])
    assert asked[8] == 2  # with the tenth there is room for the third ten, if the second are here
    assert asked[12] == 3  # while the second ten are handed out, the third are on their way


async def test_what_is_handed_out_next_is_decoded_while_the_caller_waits(
    tl: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[int] = []

    def counting(row: StoredBatch) -> DecodedBatch:
        decoded.append(row.base_offset)
        return decode(row)

    monkeypatch.setattr("trunkline.log.share.decode", counting)
    for number in range(1, 6):
        await fill(tl, 1, first=number)
    async with tl.log.consume("orders", "g", max_messages=2) as consumer:
        first = await poll(consumer)
        assert decoded == [1, 2]
        await asyncio.sleep(0)
        assert decoded == [1, 2, 3, 4]
        await first.commit()
        assert await take(consumer, 3) == [3, 4, 5]
    assert decoded == [1, 2, 3, 4, 5]


async def test_damage_is_told_when_its_turn_comes_and_harms_nothing_before(
    tl: Platform, dsn: str
) -> None:
    for number in range(1, 4):
        await fill(tl, 1, first=number)
    ((segment,),) = await execute(
        dsn,
        "select max(segment_id) from trunkline.log_segment s join trunkline.log_topic t"
        " using (topic_id) where t.topic = 'orders'",
    )
    damage = f"update trunkline.log_segment_{segment} set value_ends = '' where base_offset = 3"
    await execute(dsn, damage)
    async with tl.log.consume("orders", "g", max_messages=1) as consumer:
        assert await take(consumer, 2) == [1, 2]
        for _ in range(2):
            with pytest.raises(Invalid, match="value_ends"):
                await consumer.poll(5)


async def test_what_was_read_ahead_is_forgotten_when_a_batch_is_released(
    tl: Platform, watch: Watch
) -> None:
    for number in range(1, 9):
        await fill(tl, 1, first=number)
    async with tl.log.consume("orders", "g", max_messages=2, fetch_bytes=4) as consumer:
        held = watch.hold("log_fetch")
        polling = asyncio.create_task(poll(consumer))
        await asyncio.wait_for(held.wait(), 5)
        held.clear()
        watch.let_go("log_fetch")
        held = watch.hold("log_fetch")
        batch = await polling
        await asyncio.wait_for(held.wait(), 5)
        await batch.release()
        watch.let_go("log_fetch")
        assert await take(consumer, 8) == list(range(1, 9))


async def test_a_consumer_closes_while_it_reads_ahead(tl: Platform, watch: Watch) -> None:
    for number in range(1, 9):
        await fill(tl, 1, first=number)
    async with tl.log.consume("orders", "g", max_messages=2, fetch_bytes=4) as consumer:
        await poll(consumer)
        await eventually(lambda: watch.asked["log_fetch"] == 2)
        held = watch.hold("log_fetch")
        await poll(consumer)
        await asyncio.wait_for(held.wait(), 5)
    assert (await tl.log.groups("orders"))[0].process is None


async def test_large_batches_are_put_together_out_of_small_ones(tl: Platform, watch: Watch) -> None:
    for first in range(1, 31, 3):
        await fill(tl, 3, first=first)
    async with tl.log.consume("orders", "g", max_messages=25) as consumer:
        assert numbers(await poll(consumer)) == list(range(1, 26))
        assert numbers(await poll(consumer)) == list(range(26, 31))
    assert watch.asked["log_fetch"] == 1


async def test_a_compacted_topic_is_read_over_its_holes(tl: Platform) -> None:
    await tl.log.create("state", compact=True)
    for first in range(0, 30, 10):
        keys = [str(n % 7) for n in range(first, first + 10)]
        await tl.log.append("state", [str(n) for n in range(first, first + 10)], keys=keys)
    await tl.log.compact("state")
    async with tl.log.consume("state", "g", max_messages=2) as consumer:
        assert await take(consumer, 7) == [23, 24, 25, 26, 27, 28, 29]
    assert (await tl.log.lag("state"))[0].lag == 0


async def test_a_topic_that_was_made_anew_is_read_from_its_beginning(
    tl: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trunkline.log.topics.REMEMBER_SECONDS", 0)
    await fill(tl, 5)
    async with tl.log.consume("orders", "g", max_messages=2) as consumer:
        await take(consumer, 2)
        await poll(consumer)
        await tl.log.delete("orders")
        with pytest.raises(NotFound):
            while True:
                await consumer.poll(0)
        await tl.log.create("orders")
        await fill(tl, 9, first=101)
        assert await take(consumer, 9) == list(range(101, 110))


async def test_a_topic_that_was_made_anew_before_its_reader_looked_is_read_from_its_beginning(
    tl: Platform,
) -> None:
    await fill(tl, 5)
    async with tl.log.consume("orders", "g", max_messages=2) as consumer:
        await take(consumer, 2)
        await tl.log.delete("orders")
        await tl.log.create("orders")
        await fill(tl, 9, first=101)
        consumer._rejoin_at = 0.0
        assert await take(consumer, 9) == list(range(101, 110))


async def test_a_message_wakes_a_reader_long_before_it_would_look_again(tl: Platform) -> None:
    async with tl.log.consume("orders", "g", poll_interval=FAR) as consumer:
        waiting = asyncio.create_task(take(consumer, 1))
        await eventually(lambda: consumer._subscription is not None)
        assert await tl._listener.ready()
        began = time.monotonic()
        await fill(tl, 1)
        assert await waiting == [1]
    assert time.monotonic() - began < FAR / 3


async def test_readers_are_woken_by_other_processes_too(dsn: str, tl: Platform) -> None:
    async with (
        trunkline.connect(dsn) as other,
        other.log.consume("orders", "g", poll_interval=FAR) as consumer,
    ):
        waiting = asyncio.create_task(take(consumer, 1))
        await eventually(lambda: consumer._subscription is not None)
        assert await other._listener.ready()
        await fill(tl, 1)
        assert await waiting == [1]


async def test_messages_do_not_make_members_look_at_the_group(tl: Platform, watch: Watch) -> None:
    async with tl.log.consume("orders", "g") as consumer:
        assert await consumer.poll(0) is None
        before = watch.asked["log_join"]
        began = time.monotonic()
        for number in range(30):
            await fill(tl, 1, first=number)
            await take(consumer, 1)
        assert watch.asked["log_join"] - before <= 2 + (time.monotonic() - began) / 3


async def test_polling_finds_messages_while_nobody_listens(dsn: str, tl: Platform) -> None:
    async with tl.log.consume("orders", "g", poll_interval=0.1) as consumer:
        assert await consumer.poll(0) is None
        await tl._listener.close()
        waiting = asyncio.create_task(take(consumer, 1))
        await fill(tl, 1)
        assert await waiting == [1]


async def test_a_reader_survives_the_end_of_all_its_connections(dsn: str, tl: Platform) -> None:
    await fill(tl, 1)
    async with tl.log.consume("orders", "g") as consumer:
        assert await take(consumer, 1) == [1]
        await execute(
            dsn,
            "select pg_terminate_backend(pid, 10000) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()",
        )
        waiting = asyncio.create_task(take(consumer, 1))
        await fill(tl, 1, first=2)
        assert await waiting == [2]


async def test_what_is_read_and_polls_that_found_nothing_are_counted(tl: Platform) -> None:
    def counted(what: str) -> float:
        name, labels = f"trunkline_log_{what}_total", {"topic": "orders", "group": "counted"}
        return telemetry.default.registry.get_sample_value(name, labels) or 0.0

    await fill(tl, 5)
    async with tl.log.consume("orders", "counted") as consumer:
        assert await consumer.poll(0) is not None
        assert await consumer.poll(0) is None
    assert (counted("consumed_messages"), counted("consumed_batches")) == (5, 1)
    assert counted("empty_polls") >= 1
    assert counted("failed_polls") == 0


async def test_a_reader_waits_for_a_server_that_is_away_and_then_polls_as_before(
    dsn: str, tl: Platform, proxy: Callable[[str], Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = proxy(dsn)
    async with (
        trunkline.connect(wire.dsn, connect_timeout=0.2) as far,
        far.log.consume("orders", "g", poll_interval=0.1) as consumer,
    ):
        far.db._patience = 0.1
        assert await consumer.poll(0) is None
        await far._listener.close()
        wire.refuse()
        waiting = asyncio.create_task(take(consumer, 1))
        watch = Watch(far, monkeypatch)
        await eventually(lambda: watch.asked.total() >= 3)  # each of them in vain
        wire.resume()
        watch.asked.clear()
        await eventually(lambda: watch.asked["log_ready"] >= 8)
        began = time.monotonic()
        await fill(tl, 1)
        assert await waiting == [1]
        assert time.monotonic() - began < 2


async def test_20_idle_consumers_write_nothing(
    dsn: str, tl: Platform, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trunkline.log.assigned._REJOIN_EVERY", 1.0)  # and polls as often in less
    consumers = [
        tl.log.consume(
            "orders",
            f"g{number}",
            mode="assigned" if number % 2 else "shared",
            poll_interval=0.1,
        )
        for number in range(20)
    ]
    for consumer in consumers:
        assert await consumer.poll(0) is None
    await tl._lease.renew()
    ((before,),) = await execute(dsn, "select pg_snapshot_xmax(pg_current_snapshot())::text")
    watch.asked.clear()
    await asyncio.gather(*(consumer.poll(1.5) for consumer in consumers))
    assert watch.asked["log_ready"] > 100
    assert watch.asked["log_claim"] > 100
    assert watch.asked["log_join"] >= 10
    for (table,) in await execute(
        dsn,
        "select oid::regclass::text from pg_class where relnamespace = 'trunkline'::regnamespace"
        " and relkind = 'r'",
    ):
        written = f"select ctid from {table} where xmin::text::bigint >= %s"
        assert await execute(dsn, written, int(before)) == [], table


@pytest.mark.parametrize("weight", ["values", "headers", "values as zstd"])
async def test_memory_is_bounded_by_fetch_bytes_and_one_batch_whatever_the_backlog(
    tl: Platform, weight: str
) -> None:
    batch_bytes, fetch_bytes = 1 << 20, 2 << 20
    # compressed it is nearly nothing, so that one fetch has all of it
    await tl.log.create("large", codec="zstd" if "zstd" in weight else "none")
    n = batch_bytes // 8192
    heavy, light = [b"x" * 8192] * n, [b"x"] * n
    headers = [{"x": "x" * 8192}] * n
    for _ in range(25):
        if weight == "headers":
            await tl.log.append("large", light, headers=headers)
        else:
            await tl.log.append("large", heavy)
    read = 0
    async with tl.log.consume("large", "g", max_messages=20, fetch_bytes=fetch_bytes) as consumer:
        await consumer.poll(0)
        gc.collect()
        tracemalloc.start()
        while read < 24 * 128:
            read += len((await poll(consumer)).values)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    # what was fetched, as it came over the wire and as rows, and a decoded batch with its windows
    assert peak < 2 * fetch_bytes + 4 * batch_bytes


# Another life of the server


@pytest.mark.parametrize("delivery", ["at-least-once", "at-most-once"])
async def test_nothing_is_skipped_that_another_life_of_the_server_wrote(
    tl: Platform, dsn: str, delivery: str, watch: Watch
) -> None:
    """What was handed out stands in the way of what is there now: its commit is refused.

    What nobody has seen is forgotten.
    """
    for number in range(1, 9):
        await fill(tl, 1, first=number)
    async with tl.log.consume("orders", "g", delivery=delivery, max_messages=4) as consumer:
        assert await take(consumer, 4) == [1, 2, 3, 4]
        if delivery == "at-least-once":
            batch = await poll(consumer)
            assert numbers(batch) == [5, 6, 7, 8]
            fail_over(dsn, after=4)
            with pytest.raises(PositionTrimmed) as caught:
                await batch.commit()
            assert caught.value.details["cut"] == 4
            assert await done(tl) == [4]
        else:
            fail_over(dsn, after=4)
        batch = await poll(consumer)
        assert numbers(batch) == [5, 6, 7, 8]
        assert {batch.written_by(offset) for offset in batch.offsets} == {8}
        await batch.commit()
    assert await done(tl) == [8]


async def test_a_consumer_that_was_ahead_of_a_standby_is_told_once_and_goes_on(
    tl: Platform, dsn: str
) -> None:
    """It had handed out what the standby never heard of, and has nothing to commit."""
    await fill(tl, 8)
    async with tl.log.consume("orders", "g") as consumer:
        batch = await poll(consumer)
        assert numbers(batch) == [1, 2, 3, 4, 5, 6, 7, 8]
        await fill(tl, 1, first=9)
        ahead = await poll(consumer)
        await batch.commit()
        fail_over(dsn, after=8)
        with pytest.raises(PositionTrimmed) as caught:
            await poll(consumer)
        assert caught.value.details["cut"] == 8
        again = await poll(consumer)
        assert (numbers(ahead), numbers(again)) == ([9], [9])
        with pytest.raises(PositionTrimmed):
            await ahead.commit()
        await again.commit()
    assert await done(tl) == [9]


async def test_a_consumer_that_was_ahead_of_a_standby_is_told_also_after_a_refused_commit(
    tl: Platform, dsn: str
) -> None:
    """The commit is of what both have: only its epoch is over."""
    await fill(tl, 8)
    async with tl.log.consume("orders", "g") as consumer:
        batch = await poll(consumer)
        await fill(tl, 1, first=9)
        assert numbers(await poll(consumer)) == [9]
        fail_over(dsn, after=8)
        with pytest.raises(LeaseLost):
            await batch.commit()
        with pytest.raises(PositionTrimmed) as caught:
            await poll(consumer)
        assert caught.value.details["cut"] == 8
        assert await take(consumer, 9) == [1, 2, 3, 4, 5, 6, 7, 8, 9]
