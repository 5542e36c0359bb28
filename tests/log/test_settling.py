"""What is committed while its caller goes on: durable, in few commits, and told when refused."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

import trunkline
from trunkline import LeaseLost, Platform, Unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.fixtures.proxy import Proxy

    from trunkline.core.calls import Call
    from trunkline.log.consumer import Batch, Consumer


@pytest.fixture
def dsn(log_dsn: str) -> str:
    """A database that the tests of this module share, swept after each of them."""
    return log_dsn


@pytest.fixture
async def tl(dsn: str) -> AsyncIterator[Platform]:
    async with trunkline.connect(dsn) as tl:
        await tl.log.create("orders")
        yield tl


class Settlements:
    """Keeps the commits that are asked for, and can hold them up."""

    def __init__(self, tl: Platform, monkeypatch: pytest.MonkeyPatch):
        self.asked: list[tuple[int, int]] = []
        self.meanwhile: Callable[[], None] | None = None
        self.free = asyncio.Event()
        self.free.set()
        self._run = tl.db.run
        monkeypatch.setattr(tl.db, "run", self._watched)

    async def _watched(self, call: Call[Any], **options: Any) -> Any:
        if call.function in {"log_commit", "log_ack"}:
            up_to = call.arguments.get("up_to", 0)
            self.asked.append((call.arguments["partition"], up_to))
            if self.meanwhile is not None:
                self.meanwhile()
            await self.free.wait()
        return await self._run(call, **options)


@pytest.fixture
def settlements(tl: Platform, monkeypatch: pytest.MonkeyPatch) -> Settlements:
    return Settlements(tl, monkeypatch)


async def fill(tl: Platform, n: int, **to: Any) -> None:
    await tl.log.append("orders", [str(number) for number in range(1, n + 1)], **to)


async def poll(consumer: Consumer) -> Batch:
    batch = await consumer.poll(10)
    assert batch is not None, "nothing came"
    return batch


async def done(tl: Platform) -> list[int]:
    return [position.up_to for position in await tl.log.groups("orders", "g")]


async def test_after_a_flush_what_was_committed_soon_is_durable(tl: Platform) -> None:
    await fill(tl, 5)
    async with tl.log.consume("orders", "g", max_messages=2) as consumer:
        for _ in range(3):
            (await poll(consumer)).commit_soon()
        await consumer.flush()
        assert await done(tl) == [5]


async def test_positions_that_wait_for_a_commit_under_way_are_committed_together(
    tl: Platform, settlements: Settlements
) -> None:
    await fill(tl, 6)
    async with tl.log.consume("orders", "g", max_messages=1) as consumer:
        settlements.free.clear()
        for _ in range(6):
            (await poll(consumer)).commit_soon()
            await asyncio.sleep(0)
        settlements.free.set()
        await consumer.flush()
    assert settlements.asked == [(0, 1), (0, 6)]


async def test_there_are_a_hundred_rounds_of_commits_a_second_at_most(
    tl: Platform, settlements: Settlements
) -> None:
    await fill(tl, 300)
    async with tl.log.consume("orders", "g", max_messages=1) as consumer:
        began = time.monotonic()
        for _ in range(300):
            (await poll(consumer)).commit_soon()
            await asyncio.sleep(0)
        took = time.monotonic() - began
        assert len(settlements.asked) <= took * 100 + 1
        await consumer.flush()
    assert await done(tl) == [300]


async def test_an_older_position_that_comes_later_changes_nothing(
    tl: Platform, settlements: Settlements
) -> None:
    await fill(tl, 3)
    async with tl.log.consume("orders", "g", max_messages=1) as consumer:
        first, second, third = [await poll(consumer) for _ in range(3)]
        settlements.free.clear()
        for batch in (first, third, second):
            batch.commit_soon()
            await asyncio.sleep(0)
        settlements.free.set()
        await consumer.flush()
    assert settlements.asked == [(0, 1), (0, 3)]


async def test_a_busy_partition_does_not_keep_the_others_from_being_committed(
    tl: Platform, settlements: Settlements
) -> None:
    await tl.log.alter("orders", partitions=2)
    for partition in (0, 1):
        await fill(tl, 2, partition=partition)
    async with tl.log.consume("orders", "g", max_messages=1) as consumer:
        batches = [await poll(consumer) for _ in range(4)]
        batches.sort(key=lambda batch: (batch.partition, batch.first_offset))
        settlements.free.clear()
        for batch in (batches[0], batches[2], batches[1]):  # of partitions 0, 1, 0
            batch.commit_soon()
            await asyncio.sleep(0)
        settlements.free.set()
        await consumer.flush()
    assert settlements.asked == [(0, 1), (1, 1), (0, 2)]


async def test_a_flush_waits_for_what_was_done_before_it_and_for_nothing_else(
    tl: Platform, settlements: Settlements
) -> None:
    await fill(tl, 30)
    async with tl.log.consume("orders", "g", max_messages=1) as consumer:
        batches = [await poll(consumer) for _ in range(30)]
        later = iter(batches[1:])
        settlements.meanwhile = lambda: next(later).commit_soon()
        batches[0].commit_soon()
        await consumer.flush()
        assert len(settlements.asked) < 5
        settlements.meanwhile = None


async def test_closing_commits_first_what_is_done(tl: Platform) -> None:
    await fill(tl, 3)
    async with tl.log.consume("orders", "g", max_messages=2) as consumer:
        (await poll(consumer)).commit_soon()
    async with tl.log.consume("orders", "g") as consumer:
        assert (await poll(consumer)).values == [b"3"]


async def test_what_a_closing_consumer_could_not_commit_comes_again_and_is_told(
    tl: Platform,
    settlements: Settlements,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("trunkline.log.consumer.GOODBYE_WITHIN", 0.05)
    await fill(tl, 1)
    consumer = tl.log.consume("orders", "g")
    batch = await poll(consumer)
    settlements.free.clear()
    batch.commit_soon()
    flushing = asyncio.create_task(consumer.flush())
    await consumer.close()
    with pytest.raises(Unavailable, match="closed before"):
        await flushing
    assert "comes again" in caplog.text
    settlements.free.set()
    async with tl.log.consume("orders", "g") as another:
        assert (await poll(another)).values == [b"1"]
    with pytest.raises(LeaseLost, match="the consumer is closed"):
        batch.commit_soon()


async def test_who_was_fenced_is_told_by_flush_once_and_reads_on(
    tl: Platform, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(tl, 2)
    async with tl.log.consume("orders", "g", max_messages=1) as consumer:
        batch = await poll(consumer)
        await tl.log.seek("orders", "g", "earliest")
        batch.commit_soon()
        with pytest.raises(LeaseLost):
            await consumer.flush()
        assert "commit refused" in caplog.text
        await consumer.flush()
        assert (await poll(consumer)).values == [b"1"]


async def test_commits_wait_for_a_server_that_is_away(
    dsn: str, tl: Platform, proxy: Callable[[str], Proxy]
) -> None:
    await fill(tl, 2)
    wire = proxy(dsn)
    async with (
        trunkline.connect(wire.dsn, connect_timeout=0.2) as far,
        far.log.consume("orders", "g") as consumer,
    ):
        far.db._patience = 0.1
        batch = await poll(consumer)
        wire.refuse()
        batch.commit_soon()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await consumer.flush()
        wire.resume()
        await consumer.flush()
    assert await done(tl) == [2]


async def test_claims_are_acknowledged_while_the_next_are_handled(tl: Platform) -> None:
    await fill(tl, 40)
    found: list[bytes | None] = []
    async with tl.log.consume("orders", "g", mode="shared", max_messages=1) as consumer:
        while len(found) < 40:
            batch = await poll(consumer)
            found += batch.values
            batch.commit_soon()
        await consumer.flush()
        assert await consumer.poll(0) is None
    assert found == [b"%d" % n for n in range(1, 41)]
    assert [position.lag for position in await tl.log.lag("orders", "g")] == [0]


async def test_an_acknowledgement_whose_answer_got_lost_is_no_refusal(
    tl: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(tl, 1)
    run, lost = tl.db.run, []

    async def losing(call: Call[Any], **options: Any) -> Any:
        answer = await run(call, **options)
        if call.function == "log_ack" and not lost:
            lost.append(call)
            raise Unavailable("the wire was cut")
        return answer

    monkeypatch.setattr(tl.db, "run", losing)
    async with tl.log.consume("orders", "g", mode="shared") as consumer:
        (await poll(consumer)).commit_soon()
        await consumer.flush()
    assert lost
    assert [position.lag for position in await tl.log.lag("orders", "g")] == [0]


async def test_so_many_wait_to_be_committed_and_no_more(
    tl: Platform, settlements: Settlements
) -> None:
    await fill(tl, 20)
    async with tl.log.consume("orders", "g", mode="shared", max_messages=1) as consumer:
        settlements.free.clear()
        for _ in range(16):
            (await poll(consumer)).commit_soon()
        assert await consumer.poll(0.05) is None
        waiting = asyncio.create_task(poll(consumer))
        settlements.free.set()
        assert (await waiting).values == [b"17"]


async def test_what_is_settled_before_it_is_handed_out_needs_no_commit(
    tl: Platform, settlements: Settlements
) -> None:
    await fill(tl, 1)
    async with tl.log.consume("orders", "g", delivery="at-most-once") as consumer:
        batch = await poll(consumer)
        asked = [*settlements.asked]
        batch.commit_soon()
        await consumer.flush()
    assert settlements.asked == asked == [(0, 1)]
