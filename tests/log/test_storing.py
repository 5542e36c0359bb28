"""Full batches follow each other before they are answered: in order, and every message once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.log.producing import batches, blocked, numbered, values

import trunkline
from trunkline import Appended, Invalid, NotFound, Platform, Unavailable
from trunkline.core.pipeline import Pipeline

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.fixtures.proxy import Proxy

    from trunkline.core.calls import Call


@pytest.fixture
def dsn(log_dsn: str) -> str:
    """A database that the tests of this module share, swept after each of them."""
    return log_dsn


@pytest.fixture
async def tl(dsn: str) -> AsyncIterator[Platform]:
    async with trunkline.connect(dsn) as tl:
        await tl.log.create("orders")
        yield tl


@pytest.fixture
def under_way(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many batches were not yet answered, at each that was sent."""
    seen: list[int] = []
    send = Pipeline.send

    async def counting(self: Pipeline, call: Call[Any]) -> None:
        seen.append(len(self._under_way))
        await send(self, call)

    monkeypatch.setattr(Pipeline, "send", counting)
    return seen


async def test_a_full_batch_is_sent_before_the_one_ahead_of_it_is_answered(
    tl: Platform, under_way: list[int]
) -> None:
    async with tl.log.producer("orders", batch_messages=10) as producer:
        (answer,) = await producer.send_many(numbered(10))
        (last,) = [await producer.send_many(numbered(10)) for _ in range(19)][-1]
    assert await answer == Appended("orders", 0, 1, 10)
    assert await last == Appended("orders", 0, 191, 200)
    assert await values(tl) == numbered(10) * 20
    assert len(await batches(tl)) == 20
    assert under_way.count(1) >= 15
    assert max(under_way) == 1


async def test_what_does_not_fill_a_batch_waits_for_company(
    dsn: str, tl: Platform, under_way: list[int]
) -> None:
    producer = tl.log.producer("orders", batch_messages=10, linger=0)
    async with blocked(dsn) as blocker:
        await producer.send_many(numbered(10))
        await blocker.blocks()
        for number in numbered(9):
            await producer.send(number)
    await producer.close()
    assert [row.n for row in await batches(tl)] == [10, 9]
    assert under_way == []


async def test_keys_and_a_compacted_topic_are_streamed_too(
    tl: Platform, under_way: list[int]
) -> None:
    await tl.log.create("prices", partitions=2, compact=True)
    async with tl.log.producer("prices", batch_messages=5) as producer:
        for number in numbered(200):
            await producer.send(number, key=number)
    stored = [value for partition in (0, 1) for value in await values(tl, "prices", partition)]
    assert sorted(stored, key=lambda value: int(value or 0)) == numbered(200)
    assert 1 in under_way


async def test_a_topic_of_early_release_is_not_streamed(tl: Platform, under_way: list[int]) -> None:
    await tl.log.create("early", early_release=True)
    async with tl.log.producer("early", batch_messages=5) as producer:
        await producer.send_many(numbered(5))
        await producer.send_many(numbered(5))
    assert await values(tl, "early") == numbered(5) * 2
    assert under_way == []


async def test_a_bad_entry_of_a_stream_harms_only_itself_and_the_order_stays(
    tl: Platform, under_way: list[int]
) -> None:
    producer = tl.log.producer("orders", batch_messages=4)
    sent = [
        await producer.send_many([None] if n % 13 == 7 else [str(n), str(n)]) for n in range(60)
    ]
    with pytest.raises(Invalid, match="not compacted"):
        await producer.flush()
    answers = [answer.exception() for (answer,) in sent]
    assert [isinstance(answer, Invalid) for answer in answers] == [n % 13 == 7 for n in range(60)]
    good = [str(n).encode() for n in range(60) for _ in range(2) if n % 13 != 7]
    assert await values(tl) == good
    assert 1 in under_way


async def test_a_topic_that_leaves_in_the_middle_of_a_stream_fails_what_is_left(
    dsn: str, tl: Platform
) -> None:
    producer = tl.log.producer("orders", batch_messages=2)
    sent = []
    for number in range(200):
        sent += await producer.send_many([str(number)] * 2)
        if number == 50:
            await sent[25]
            async with trunkline.connect(dsn) as other:
                await other.log.delete("orders")
    with pytest.raises(NotFound):
        await producer.flush()
    ends = [isinstance(answer.exception(), NotFound) for answer in sent]
    assert ends == sorted(ends)  # once it was gone nothing was stored
    assert not ends[25]
    assert ends[-1]


async def test_a_stream_whose_answers_got_lost_is_stored_once(
    dsn: str, tl: Platform, proxy: Callable[[str], Proxy]
) -> None:
    wire = proxy(dsn)
    async with trunkline.connect(wire.dsn) as far, blocked(dsn) as blocker:
        producer = far.log.producer("orders", batch_messages=2)
        sent = [answer for _ in range(3) for answer in await producer.send_many(["a", "b"])]
        await blocker.blocks(1)
        wire.cut()  # the server has two, and goes on at least with the first
        await blocker.blocks(2)
        await blocker.release()
        assert [(await answer).first_offset for answer in sent] == [1, 3, 5]
        assert (await (await producer.send("c"))).first_offset == 7
    assert await values(tl) == [*[b"a", b"b"] * 3, b"c"]


async def test_without_idempotence_a_stream_whose_answers_got_lost_is_not_repeated(
    dsn: str, tl: Platform, proxy: Callable[[str], Proxy]
) -> None:
    wire = proxy(dsn)
    async with trunkline.connect(wire.dsn) as far, blocked(dsn) as blocker:
        producer = far.log.producer("orders", batch_messages=1, idempotent=False)
        sent = [answer for name in "abc" for answer in await producer.send_many([name])]
        await blocker.blocks(1)
        wire.cut()
        await blocker.blocks(2)
        await blocker.release()
        lost = await asyncio.gather(*sent[:2], return_exceptions=True)
        assert [type(end) for end in lost] == [Unavailable, Unavailable]
        await sent[2]
        with pytest.raises(Unavailable):
            await producer.flush()
    found = await values(tl)
    assert sorted(set(found)) == sorted(found)
    assert {b"a", b"c"} <= set(found)


async def test_a_stream_goes_on_in_order_though_its_sessions_are_ended_again_and_again(
    dsn: str, tl: Platform, under_way: list[int]
) -> None:
    end = (
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where application_name = 'trunkline' and query like '%log_append%'"
        " and datname = current_database()"
    )
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as session:
        producer = tl.log.producer("orders", batch_messages=5, in_flight_bytes=20_000)
        for number in range(1000):
            await producer.send(str(number))
            if number % 50 == 0:
                await session.execute(end)
        await producer.close()
    assert await values(tl) == numbered(1000)
    assert [check.problem for check in await tl.log.verify("orders")] == [None]
    assert 1 in under_way


@pytest.mark.parametrize("moments", [0, 1, 20])
async def test_whoever_waits_for_a_stream_is_told_when_the_program_ends(
    dsn: str, tl: Platform, moments: int
) -> None:
    producer = tl.log.producer("orders", batch_messages=2)
    async with blocked(dsn) as blocker:
        sent = [answer for _ in range(5) for answer in await producer.send_many(["a", "b"])]
        if moments == 20:
            await blocker.blocks()
        for _ in range(moments):
            await asyncio.sleep(0)
        for task in asyncio.all_tasks():
            if task.get_name() == "append orders/0":
                task.cancel()
        ends = await asyncio.wait_for(asyncio.gather(*sent, return_exceptions=True), 15)
        assert {type(end) for end in ends} == {Unavailable}
        with pytest.raises(Unavailable, match="program ended"):
            await asyncio.wait_for(producer.flush(), 5)
    await (await producer.send("later"))
    assert (await values(tl))[-1] == b"later"
    assert producer._in_flight == 0


async def test_streams_leave_a_connection_to_whoever_waits_for_one(dsn: str) -> None:
    async with trunkline.connect(dsn, pool_max=2) as tl:
        await tl.log.create("wide", partitions=6)
        producer = tl.log.producer("wide", batch_messages=5, in_flight_bytes=50_000)

        async def fill(partition: int) -> None:
            for _ in range(100):
                await producer.send_many(numbered(5), partition=partition)

        filling = asyncio.gather(*map(fill, range(6)))
        asked = 0
        while not filling.done():
            await tl.log.list()
            asked += 1
        await filling
        await producer.close()
        assert asked > 3
        for partition in range(6):
            assert await values(tl, "wide", partition) == numbered(5) * 100


async def test_nothing_is_streamed_behind_a_transaction_pooler(
    dsn: str, under_way: list[int]
) -> None:
    async with trunkline.connect(dsn, prepare=False) as tl:
        await tl.log.create("orders")
        async with tl.log.producer("orders", batch_messages=5) as producer:
            for _ in range(4):
                await producer.send_many(numbered(5))
        assert await values(tl) == numbered(5) * 4
    assert under_way == []


async def test_many_messages_need_a_topic_and_a_message(tl: Platform) -> None:
    producer = tl.log.producer()
    with pytest.raises(Invalid, match=r"send_many\(\) needs a topic"):
        await producer.send_many(["a"])
    with pytest.raises(Invalid, match="at least one"):
        await producer.send_many([], topic="orders")
    await producer.send_many(["a"], topic="orders")
    await producer.close()
    with pytest.raises(Invalid, match="closed"):
        await producer.send_many(["b"], topic="orders")
    assert await values(tl) == [b"a"]


async def test_a_bad_message_of_many_is_told_by_flush(tl: Platform) -> None:
    producer = tl.log.producer("orders")
    await producer.send_many([None])
    with pytest.raises(Invalid, match="not compacted"):
        await producer.flush()


def test_many_messages_are_sent_by_a_blocking_producer(dsn: str) -> None:
    with trunkline.connect_sync(dsn) as tl:
        tl.log.create("orders")
        with tl.log.producer("orders", batch_messages=5) as producer:
            for _ in range(10):
                producer.send_many(numbered(5), keys=numbered(5))
        assert [message.value for message in tl.log.read("orders")] == numbered(5) * 10
