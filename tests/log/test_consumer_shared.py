"""Readers of shared groups: claims that are settled one by one, and what becomes of the rest."""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.log.steps import fail_over

import trunkline
from trunkline import LeaseLost, NotFound, Platform, PositionTrimmed, Unavailable
from trunkline.testing import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trunkline import Message
    from trunkline.core.calls import Call
    from trunkline.log.consumer import Batch, Consumer

FAR = 30.0  # seconds: a poll interval that no test waits for
SOON = timedelta(milliseconds=300)  # a deadline that tests let pass
NEVER = timedelta(minutes=10)


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
    """Counts what is asked of the database, holds it or its answer up, or makes it fail."""

    def __init__(self, tl: Platform, monkeypatch: pytest.MonkeyPatch):
        self.asked: Counter[str] = Counter()
        self.failing: set[str] = set()
        self.slow = ""
        self._held = ""
        self._reached = asyncio.Event()
        self._run = tl.db.run
        monkeypatch.setattr(tl.db, "run", self._watched)

    def hold(self, function: str) -> asyncio.Event:
        """Hold up calls of a function until they are cancelled; the answer is set when one is."""
        self._held = function
        return self._reached

    async def _watched(self, call: Call[Any], **options: Any) -> Any:
        self.asked[call.function] += 1
        if call.function in self.failing:
            self.failing.remove(call.function)
            raise Unavailable("the wire was cut")
        if call.function == self._held:
            self._held = ""
            self._reached.set()
            await asyncio.Event().wait()
        answer = await self._run(call, **options)
        if call.function == self.slow:
            self.slow = ""
            await asyncio.sleep(0.2)
        return answer


@pytest.fixture
def watch(tl: Platform, monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(tl, monkeypatch)


def share(tl: Platform, group: str = "g", *, topic: str = "orders", **options: Any) -> Consumer:
    options = {"deadline": NEVER, "poll_interval": 0.05, **options}
    return tl.log.consume(topic, group, mode="shared", **options)


async def fill(tl: Platform, n: int, *, first: int = 1, topic: str = "orders", **to: Any) -> None:
    await tl.log.append(topic, [str(number) for number in range(first, first + n)], **to)


async def poll(consumer: Consumer) -> Batch:
    batch = await consumer.poll(10)
    assert batch is not None, "nothing came"
    return batch


def numbers(batch: Batch) -> list[int]:
    return [int(value or b"") for value in batch.values]


async def take(consumer: Consumer, n: int) -> list[int]:
    """Read and settle so many messages."""
    found: list[int] = []
    while len(found) < n:
        batch = await poll(consumer)
        found += numbers(batch)
        await batch.commit()
    return found


async def read(tl: Platform, topic: str) -> list[Message]:
    return [message async for message in tl.log.read(topic)]


async def done(tl: Platform) -> list[tuple[int, int]]:
    """How far the group is, and how many claims are in flight."""
    return [(position.up_to, position.claims) for position in await tl.log.groups()]


async def make_effect(dsn: str) -> None:
    """An empty table for what a handler does."""
    await execute(dsn, "drop table if exists effect")
    await execute(dsn, "create table effect (n int)")


async def execute(dsn: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as session:
        cursor = await session.execute(statement, values)
        return await cursor.fetchall() if cursor.description else []


async def test_a_claim_is_what_was_asked_for_or_what_there_is(tl: Platform) -> None:
    await fill(tl, 10)
    async with share(tl, max_messages=4) as consumer:
        batches = [await poll(consumer) for _ in range(3)]
        assert [numbers(batch) for batch in batches] == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]
        assert await consumer.poll(0) is None
        assert await done(tl) == [(0, 3)]
        await batches[2].commit()
        await batches[0].commit()
        assert await done(tl) == [(4, 1)]
        await batches[1].commit()
    assert await done(tl) == [(10, 0)]


@pytest.mark.parametrize("delivery", ["at-least-once", "at-most-once"])
async def test_many_readers_of_one_partition_get_every_message_once(
    dsn: str, tl: Platform, delivery: str
) -> None:
    await fill(tl, 300)
    found: Counter[int] = Counter()

    async def work(consumer: Consumer) -> None:
        async with consumer:
            while found.total() < 600:
                if batch := await consumer.poll(0.05):
                    found.update(numbers(batch))
                    await batch.commit()

    async with trunkline.connect(dsn) as other:
        readers = [
            share(platform, max_messages=7, delivery=delivery)
            for platform in (tl, other)
            for _ in range(4)
        ]
        working = asyncio.gather(*map(work, readers))
        await fill(tl, 300, first=301)
        await working
    assert sorted(found) == list(range(1, 601))
    assert set(found.values()) == {1}
    assert await done(tl) == [(600, 0)]


@pytest.mark.parametrize(
    ("start", "expected"), [("earliest", [1, 2, 3, 4]), ("latest", [4]), (3, [3, 4])]
)
async def test_a_new_group_starts_where_it_is_told(
    tl: Platform, start: Any, expected: list[int]
) -> None:
    await fill(tl, 3)
    async with share(tl, start=start) as consumer:
        if start == "latest":
            assert await consumer.poll(0) is None
        await fill(tl, 1, first=4)
        assert await take(consumer, len(expected)) == expected


async def test_a_claim_comes_back_after_its_deadline_and_its_first_reader_is_refused(
    dsn: str, tl: Platform
) -> None:
    await make_effect(dsn)
    await fill(tl, 2)
    async with share(tl, deadline=SOON) as slow, share(tl) as quick:
        late = await poll(slow)
        assert await quick.poll(0) is None
        again = await poll(quick)
        assert (numbers(again), late.attempts, again.attempts) == ([1, 2], 1, 2)
        with pytest.raises(LeaseLost):
            async with tl.transaction() as connection:
                await connection.execute("insert into effect values (1)")
                await late.commit(on=connection)
        with pytest.raises(LeaseLost):
            await late.extend(NEVER)
        await again.commit()
    assert await execute(dsn, "select n from effect") == []
    assert await done(tl) == [(2, 0)]


async def test_a_claim_that_was_extended_stays(tl: Platform) -> None:
    await fill(tl, 1)
    async with share(tl, deadline=SOON) as reader, share(tl) as other:
        began = time.monotonic()
        batch = await poll(reader)
        await batch.extend(NEVER)
        while time.monotonic() < began + 2 * SOON.total_seconds():
            assert await other.poll(0.05) is None
        await batch.commit()


async def test_a_released_claim_is_handed_out_again_at_once_or_later(tl: Platform) -> None:
    await fill(tl, 2)
    async with share(tl) as consumer:
        batch = await poll(consumer)
        await batch.release(reason="busy")
        batch = await poll(consumer)
        assert (numbers(batch), batch.attempts) == ([1, 2], 2)
        await batch.release(retry_after=0.2)
        assert await consumer.poll(0) is None
        batch = await poll(consumer)
        assert (numbers(batch), batch.attempts) == ([1, 2], 3)
        await batch.commit()
    assert await done(tl) == [(2, 0)]


async def test_the_effect_and_the_claim_are_settled_together(dsn: str, tl: Platform) -> None:
    await make_effect(dsn)
    await fill(tl, 2)
    async with share(tl) as consumer:
        batch = await poll(consumer)
        with pytest.raises(ZeroDivisionError):
            async with tl.transaction() as connection:
                await connection.execute("insert into effect values (99)")
                await batch.commit(on=connection)
                raise ZeroDivisionError
        async with tl.transaction() as connection:
            await connection.execute("insert into effect values (1)")
            await batch.commit(on=connection)
    assert await execute(dsn, "select n from effect") == [(1,)]
    assert await done(tl) == [(2, 0)]


async def test_at_most_once_delivers_nothing_again(tl: Platform) -> None:
    await fill(tl, 4)
    async with share(tl, delivery="at-most-once", max_messages=2) as consumer:
        batch = await poll(consumer)
        assert await done(tl) == [(2, 0)]
        await batch.extend(NEVER)
        await batch.release()
        await batch.commit()
        assert numbers(await poll(consumer)) == [3, 4]
        assert await consumer.poll(0.1) is None


async def test_only_partitions_that_have_something_are_tried(tl: Platform, watch: Watch) -> None:
    await tl.log.create("wide", partitions=40)
    async with share(tl, topic="wide") as consumer:
        assert await consumer.poll(0) is None
        watch.asked.clear()
        assert await consumer.poll(0) is None
        assert watch.asked == {"log_claimable": 1}
        await fill(tl, 1, topic="wide", partition=39)
        await fill(tl, 1, first=2, topic="wide", partition=7)
        watch.asked.clear()
        found = [await consumer.poll(0), await consumer.poll(0)]
        assert [numbers(batch) for batch in found if batch] == [[2], [1]]
        assert watch.asked["log_claim"] == 2
        assert await consumer.poll(0) is None


async def test_where_all_partitions_are_busy_nobody_asks_which(tl: Platform, watch: Watch) -> None:
    await tl.log.create("wide", partitions=4)
    for partition in range(4):
        await fill(tl, 3, topic="wide", partition=partition)
    async with share(tl, topic="wide", max_messages=1) as consumer:
        seen = Counter([(await poll(consumer)).partition for _ in range(12)])
        assert seen == dict.fromkeys(range(4), 3)
        assert watch.asked["log_claimable"] == 0


@pytest.mark.parametrize("delivery", ["at-least-once", "at-most-once"])
async def test_a_claim_whose_messages_could_not_be_read_is_read_again(
    tl: Platform, watch: Watch, delivery: str
) -> None:
    await fill(tl, 2)
    async with share(tl, delivery=delivery) as consumer:
        watch.failing.add("log_fetch")
        batch = await poll(consumer)
        assert (numbers(batch), batch.attempts) == ([1, 2], 1)
        await batch.commit()
    assert await done(tl) == [(2, 0)]


@pytest.mark.parametrize("delivery", ["at-least-once", "at-most-once"])
async def test_a_claim_whose_poll_was_cancelled_meanwhile_is_the_next_ones(
    tl: Platform, watch: Watch, delivery: str
) -> None:
    await fill(tl, 2)
    async with share(tl, max_messages=1, delivery=delivery) as consumer:
        watch.slow = "log_claim"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await consumer.poll()
        assert numbers(await poll(consumer)) == [1]
        assert numbers(await poll(consumer)) == [2]
        assert watch.asked["log_claim"] == 2


async def test_a_claim_whose_poll_was_cancelled_is_given_back_at_the_end(
    tl: Platform, watch: Watch
) -> None:
    await fill(tl, 1)
    async with share(tl) as consumer:
        watch.slow = "log_claim"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await consumer.poll()
    async with share(tl) as successor:
        assert await take(successor, 1) == [1]


@pytest.mark.parametrize("delivery", ["at-least-once", "at-most-once"])
async def test_a_poll_that_is_cancelled_keeps_its_claim_for_the_next(
    tl: Platform, watch: Watch, delivery: str
) -> None:
    await fill(tl, 2)
    async with share(tl, delivery=delivery) as consumer:
        held = watch.hold("log_fetch")
        polling = asyncio.create_task(consumer.poll())
        await held.wait()
        polling.cancel()
        await asyncio.wait({polling})
        batch = await poll(consumer)
        assert (numbers(batch), batch.attempts) == ([1, 2], 1)


async def test_a_reader_that_closes_gives_back_what_it_has_not_handed_out(
    tl: Platform, watch: Watch
) -> None:
    await fill(tl, 2)
    async with share(tl) as consumer:
        held = watch.hold("log_fetch")
        polling = asyncio.create_task(consumer.poll())
        await held.wait()
        polling.cancel()
        await asyncio.wait({polling})
    async with share(tl) as consumer:
        assert await take(consumer, 2) == [1, 2]


async def test_a_commit_that_was_cancelled_after_it_took_effect_can_be_repeated(
    tl: Platform, watch: Watch
) -> None:
    await fill(tl, 1)
    async with share(tl) as consumer:
        batch = await poll(consumer)
        watch.slow = "log_ack"
        for _ in range(2):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await batch.commit()
        await batch.commit()
        assert await done(tl) == [(1, 0)]
        with pytest.raises(LeaseLost):
            await batch.commit()  # nobody was cut short any more
    assert watch.asked["log_ack"] == 2


async def test_a_commit_that_was_cancelled_and_failed_tells_so_when_it_is_repeated(
    tl: Platform, watch: Watch
) -> None:
    await fill(tl, 1)
    async with share(tl) as consumer:
        batch = await poll(consumer)
        watch.failing.add("log_ack")
        committing = asyncio.create_task(batch.commit())
        await asyncio.sleep(0)
        committing.cancel()
        await asyncio.wait({committing})
        with pytest.raises(Unavailable, match="the wire was cut"):
            await batch.commit()
        await batch.commit()
        assert await done(tl) == [(1, 0)]


async def test_a_reader_that_closes_waits_for_a_commit_that_was_cancelled(
    tl: Platform, watch: Watch
) -> None:
    await fill(tl, 1)
    async with share(tl) as consumer:
        batch = await poll(consumer)
        committing = asyncio.create_task(batch.commit())
        await asyncio.sleep(0)
        committing.cancel()
        await asyncio.wait({committing})
    assert committing.cancelled()
    assert await done(tl) == [(1, 0)]


async def test_small_claims_out_of_a_large_batch_cost_one_fetch(tl: Platform, watch: Watch) -> None:
    await fill(tl, 500)
    async with share(tl, max_messages=10) as consumer:
        assert await take(consumer, 500) == list(range(1, 501))
    assert watch.asked["log_fetch"] == 1
    assert watch.asked["log_claim"] == 50


async def test_two_readers_who_take_turns_decode_a_batch_once_each(
    tl: Platform, watch: Watch
) -> None:
    await fill(tl, 400)
    found = []
    async with share(tl, max_messages=10) as a, share(tl, max_messages=10) as b:
        for _ in range(20):
            found += await take(a, 10) + await take(b, 10)
    assert found == list(range(1, 401))
    assert watch.asked["log_fetch"] == 2


async def test_a_compacted_topic_is_claimed_over_its_holes(tl: Platform) -> None:
    await tl.log.create("state", compact=True)
    for first in range(0, 30, 10):
        keys = [str(n % 7) for n in range(first, first + 10)]
        await tl.log.append("state", [str(n) for n in range(first, first + 10)], keys=keys)
    await tl.log.compact("state")
    async with share(tl, topic="state", max_messages=4) as consumer:
        assert await take(consumer, 7) == [23, 24, 25, 26, 27, 28, 29]
        assert await consumer.poll(0) is None
    assert await done(tl) == [(30, 0)]


async def work_until_buried(
    tl: Platform, *, poison: set[int], bad: str = "boom", **options: Any
) -> Counter[int]:
    """Handle all messages of the topic, but never the poisoned ones; until these are buried."""
    handled: Counter[int] = Counter()
    async with share(tl, **options) as consumer:

        async def work() -> None:
            if batch := await consumer.poll(0):
                if poison & set(numbers(batch)):
                    await batch.release(reason=bad)
                else:
                    handled.update(numbers(batch))
                    await batch.commit()
            assert all(claims == 0 for _, claims in await done(tl))
            assert (await tl.log.lag("orders"))[0].lag == 0

        await eventually(work)
    return handled


async def test_only_the_poisoned_message_becomes_a_dead_letter_and_says_why(tl: Platform) -> None:
    await tl.log.append(
        "orders",
        [str(n) for n in range(1, 11)],
        keys=[f"k{n}" for n in range(1, 11)],
        headers=[{"n": n} for n in range(1, 11)],
    )
    handled = await work_until_buried(tl, poison={4}, max_messages=5, max_attempts=3)
    assert handled == Counter({1, 2, 3, 5, 6, 7, 8, 9, 10})
    (letter,) = await read(tl, "orders.dead")
    assert (letter.key, letter.value) == (b"k4", b"4")
    assert letter.headers is not None
    assert letter.headers["n"] == 4
    about = letter.headers["dead"]
    assert about.pop("attempts") == 3
    assert datetime.fromisoformat(about.pop("at")) <= letter.at
    assert about == {
        "topic": "orders",
        "group": "g",
        "partition": 0,
        "offset": 4,
        "reason": "boom",
    }


async def test_silence_is_a_reason_too(tl: Platform) -> None:
    await fill(tl, 1)
    async with share(tl, deadline=timedelta(milliseconds=50), max_attempts=2) as consumer:
        assert [(await poll(consumer)).attempts for _ in range(2)] == [1, 2]

        async def buried() -> None:
            assert await consumer.poll(0) is None
            assert (await tl.log.lag("orders"))[0].lag == 0

        await eventually(buried)
    (letter,) = await read(tl, "orders.dead")
    assert letter.headers is not None
    assert "in time" in letter.headers["dead"]["reason"]
    assert letter.headers["dead"]["attempts"] == 2


async def test_nothing_is_buried_that_was_not_handed_out_however_short_the_deadline(
    tl: Platform,
) -> None:
    await fill(tl, 1)
    async with share(tl, deadline=timedelta(microseconds=1), max_attempts=2) as consumer:
        assert [(await poll(consumer)).attempts for _ in range(2)] == [1, 2]


@pytest.mark.parametrize("lost", ["question", "answer"])
async def test_a_message_is_buried_once_though_its_burier_hears_nothing_of_it(
    tl: Platform, watch: Watch, lost: str
) -> None:
    await fill(tl, 1)
    async with share(tl, max_attempts=1) as first:
        await (await poll(first)).release(reason="boom")
        if lost == "question":
            watch.failing.add("log_bury")
        else:
            watch.slow = "log_bury"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await first.poll()
        assert await first.poll(0) is None
    async with share(tl, max_attempts=1) as second:
        assert await second.poll(0) is None
    assert await done(tl) == [(1, 0)]
    assert len(await read(tl, "orders.dead")) == 1


async def test_a_message_is_given_back_whatever_is_in_the_words_of_the_reason(
    tl: Platform,
) -> None:
    await fill(tl, 1)
    async with share(tl, max_attempts=1) as consumer:
        await (await poll(consumer)).release(reason="bad byte \0, bad letter \ud800")
        assert await consumer.poll(0.2) is None
    (letter,) = await read(tl, "orders.dead")
    assert letter.headers is not None
    assert letter.headers["dead"]["reason"] == "bad byte \N{REPLACEMENT CHARACTER}, bad letter ?"


async def test_a_topic_whose_name_is_as_long_as_can_be_has_dead_letters_too(tl: Platform) -> None:
    topic = "x" * 200
    await tl.log.create(topic)
    await fill(tl, 1, topic=topic)
    async with share(tl, topic=topic, max_attempts=1) as consumer:
        await (await poll(consumer)).release(reason="boom")
        assert await consumer.poll(0.2) is None
    (letter,) = await read(tl, "x" * 195 + ".dead")
    assert letter.value == b"1"


async def test_a_topic_of_dead_letters_may_have_settings_of_its_own(tl: Platform) -> None:
    await tl.log.create("orders.dead", retention=timedelta(days=7), codec="zstd")
    await fill(tl, 2)
    await work_until_buried(tl, poison={2}, max_attempts=1)
    assert [letter.value for letter in await read(tl, "orders.dead")] == [b"2"]


async def test_a_compressed_message_is_buried_as_it_was(tl: Platform) -> None:
    await tl.log.create("packed", codec="zstd")
    await tl.log.append("packed", [b"1", b"2"], keys=["k", "l"], headers=[{"n": 1}, None])
    async with share(tl, topic="packed", max_attempts=1, max_messages=1) as consumer:
        await (await poll(consumer)).release(reason="boom")
        assert await take(consumer, 1) == [2]
    (letter,) = await tl.log.dead_list("packed")
    shown = await tl.log.dead_show("packed", letter.letter)
    assert (letter.offset, letter.key, shown.value) == (1, b"k", b"1")
    assert shown.headers is not None
    assert shown.headers["n"] == 1
    assert await tl.log.dead_retry("packed", letter.letter) == 1
    assert [message.value for message in await read(tl, "packed")] == [b"1", b"2", b"1"]


async def test_a_reader_that_takes_no_acknowledgement_is_given_what_others_failed_with(
    tl: Platform,
) -> None:
    await fill(tl, 1)
    async with share(tl, max_attempts=1) as careful:
        await (await poll(careful)).release(reason="boom")
    async with share(tl, max_attempts=1, delivery="at-most-once") as careless:
        assert numbers(await poll(careless)) == [1]


async def test_a_tombstone_is_buried_as_an_empty_message(tl: Platform) -> None:
    await tl.log.create("state", compact=True)
    await tl.log.append("state", None, keys="k")
    async with share(tl, topic="state", max_attempts=1) as consumer:
        await (await poll(consumer)).release(reason="boom")
        assert await consumer.poll(0) is None
    assert [(m.key, m.value) for m in await read(tl, "state.dead")] == [(b"k", b"")]


async def test_a_topic_that_was_made_anew_gives_its_own_messages_and_dead_letters(
    tl: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trunkline.log.topics.REMEMBER_SECONDS", 0)
    await fill(tl, 6)
    await work_until_buried(tl, poison={1}, max_attempts=1, max_messages=2)
    async with share(tl, "other", max_messages=2) as consumer:
        await take(consumer, 4)
        await tl.log.delete("orders")
        with pytest.raises(NotFound):
            await consumer.poll(0)
        await tl.log.create("orders")
        await fill(tl, 6, first=101)
        assert await take(consumer, 6) == list(range(101, 107))
    await work_until_buried(tl, poison={101}, max_attempts=1, max_messages=2)
    assert [letter.value for letter in await read(tl, "orders.dead")] == [b"1", b"101"]


async def test_offsets_that_went_back_are_read_anew(tl: Platform) -> None:
    await fill(tl, 6)
    async with share(tl, max_messages=2) as consumer:
        await take(consumer, 4)
        await tl.log.delete("orders")
        await tl.log.create("orders")  # within the seconds that a topic is remembered
        await fill(tl, 6, first=101)
        assert await take(consumer, 6) == list(range(101, 107))


async def test_a_topic_that_others_made_anew_is_not_read_out_of_what_was_decoded_before(
    dsn: str, tl: Platform
) -> None:
    await fill(tl, 20)
    async with share(tl, max_messages=5) as consumer, trunkline.connect(dsn) as elsewhere:
        assert await take(consumer, 5) == [1, 2, 3, 4, 5]
        await elsewhere.log.delete("orders")
        await elsewhere.log.create("orders")
        await fill(elsewhere, 20, first=101)
        async with share(elsewhere, max_messages=5) as other:
            assert await take(other, 5) == [101, 102, 103, 104, 105]
        assert await take(consumer, 5) == [106, 107, 108, 109, 110]


async def test_partitions_are_read_in_turn_and_new_ones_too(
    tl: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trunkline.log.topics.REMEMBER_SECONDS", 0)
    await tl.log.create("many", partitions=2)
    await fill(tl, 4, topic="many", partition=0)
    await fill(tl, 4, first=11, topic="many", partition=1)
    async with share(tl, topic="many", max_messages=2) as consumer:
        assert sorted(await take(consumer, 4)) == [1, 2, 11, 12]
        await tl.log.alter("many", partitions=3)
        await fill(tl, 2, first=21, topic="many", partition=2)
        assert sorted(await take(consumer, 6)) == [3, 4, 13, 14, 21, 22]


async def test_a_group_behind_the_floor_is_told_and_goes_on_after_a_seek(tl: Platform) -> None:
    await fill(tl, 6)
    async with share(tl, max_messages=2) as consumer:
        await take(consumer, 2)
        await tl.log.trim("orders", 0, 5)
        with pytest.raises(PositionTrimmed) as caught:
            await consumer.poll(0)
        assert caught.value.details["first"] == 5
        await tl.log.seek("orders", "g", "earliest")
        assert await take(consumer, 2) == [5, 6]


async def test_a_message_wakes_a_reader_long_before_it_would_look_again(tl: Platform) -> None:
    async with share(tl, poll_interval=FAR) as consumer:
        waiting = asyncio.create_task(take(consumer, 1))
        await eventually(lambda: consumer._subscription is not None)
        assert await tl._listener.ready()
        await fill(tl, 1)
        assert await waiting == [1]


async def test_closing_ends_a_poll_and_leaves_claims_to_those_who_have_them(tl: Platform) -> None:
    await fill(tl, 1)
    consumer = share(tl, poll_interval=FAR)
    batch = await poll(consumer)
    waiting = asyncio.create_task(consumer.poll())
    await asyncio.sleep(0)
    await consumer.close()
    assert await waiting is None
    assert await consumer.poll() is None
    await batch.commit()
    assert await done(tl) == [(1, 0)]


@pytest.mark.parametrize("codec", ["none", "zstd"])
async def test_memory_is_bounded_by_what_was_claimed_whatever_the_backlog(
    tl: Platform, codec: str
) -> None:
    batch_bytes = 1 << 20
    await tl.log.create("large", codec=codec)
    for _ in range(12):
        await tl.log.append("large", [b"x" * 8192] * (batch_bytes // 8192))
    count = 0
    async with share(tl, topic="large", max_messages=20, delivery="at-most-once") as consumer:
        count += len(await poll(consumer))
        gc.collect()
        tracemalloc.start()
        while count < 11 * 128:
            count += len((await poll(consumer)).values)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 6 * batch_bytes


# Another life of the server


async def test_what_was_decoded_is_not_taken_for_what_another_life_of_the_server_wrote(
    tl: Platform, dsn: str
) -> None:
    await fill(tl, 2)
    await tl.log.append("orders", ["11", "12", "13", "14"])
    async with share(tl, max_messages=3) as consumer:
        assert await take(consumer, 3) == [1, 2, 11]
        fail_over(dsn, after=2, payload=b"91929394")
        assert await take(consumer, 3) == [92, 93, 94]
