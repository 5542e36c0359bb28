"""`Producer`: few batches out of many sends, bounded memory, and every message once."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections import Counter
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.log.producing import batches, blocked, numbered, values

import trunkline
from trunkline import Appended, Invalid, NotFound, Platform, TooLarge, Unavailable
from trunkline.log import storing
from trunkline.log.batches import Codec
from trunkline.log.topics import Topics
from trunkline.testing import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from tests.fixtures.proxy import Proxy

    from trunkline.core.calls import Call

NEVER = 60.0  # seconds that no test waits for


@pytest.fixture
def dsn(log_dsn: str) -> str:
    """A database that the tests of this module share, swept after each of them."""
    return log_dsn


@pytest.fixture
async def tl(dsn: str) -> AsyncIterator[Platform]:
    async with trunkline.connect(dsn) as tl:
        await tl.log.create("orders")
        yield tl


async def test_64_concurrent_callers_share_few_batches_and_each_learns_its_own_offset(
    tl: Platform,
) -> None:
    answers = await asyncio.gather(*(tl.log.append("orders", value) for value in numbered(64)))
    offsets = [answer.first_offset for (answer,) in answers]
    assert sorted(offsets) == list(range(1, 65))
    stored = await values(tl)
    assert [stored[offset - 1] for offset in offsets] == numbered(64)
    assert len(await batches(tl)) <= 4


async def test_all_who_ask_for_a_topic_at_the_same_time_go_on_at_the_same_time(
    tl: Platform,
) -> None:
    topics = Topics(tl.db)
    asking = [asyncio.create_task(topics.get("orders")) for _ in range(64)]
    await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
    assert all(task.done() for task in asking)


async def test_what_comes_while_a_batch_is_under_way_goes_together_with_the_next(
    dsn: str, tl: Platform
) -> None:
    async with blocked(dsn) as blocker:
        first = asyncio.create_task(tl.log.append("orders", b"first"))
        await blocker.blocks()
        others = [asyncio.create_task(tl.log.append("orders", [n, n])) for n in numbered(30)]
        await asyncio.sleep(0)
        await blocker.release()
        await first
        answers = [await other for other in others]
    assert [len(row.value_ends) // 4 - 1 for row in await batches(tl)] == [1, 60]
    assert [answer[0].first_offset for answer in answers] == list(range(2, 62, 2))


async def test_a_lone_caller_waits_for_nobody(tl: Platform) -> None:
    for number in range(1, 4):
        (answer,) = await tl.log.append("orders", b"x")
        assert answer.first_offset == number
    assert len(await batches(tl)) == 3


async def test_a_bad_entry_harms_only_itself(dsn: str, tl: Platform) -> None:
    bad = {3, 40}
    async with blocked(dsn) as blocker:
        first = asyncio.create_task(tl.log.append("orders", b"first"))
        await blocker.blocks()
        others = [
            asyncio.create_task(tl.log.append("orders", [None if n in bad else str(n)]))
            for n in range(64)
        ]
        await asyncio.sleep(0)
        await blocker.release()
        await first
        results = await asyncio.gather(*others, return_exceptions=True)
    assert {n for n, result in enumerate(results) if isinstance(result, Invalid)} == bad
    stored = await values(tl)
    for n, result in enumerate(results):
        if n not in bad:
            assert isinstance(result, list)
            assert stored[result[0].first_offset - 1] == str(n).encode()
    assert len(stored) == 63
    assert len(await batches(tl)) < 20  # the bad ones were looked for, not everybody sent alone


async def test_a_topic_that_left_fails_all_its_sends_at_once(
    tl: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Counter[str] = Counter()
    run = tl.db.run

    async def counting(call: Call[Any], **options: Any) -> Any:
        asked[call.function] += 1
        return await run(call, **options)

    producer = tl.log.producer("orders", linger=NEVER)
    answers = [await producer.send("x") for _ in range(500)]
    await tl.log.delete("orders")
    monkeypatch.setattr(tl.db, "run", counting)
    with pytest.raises(NotFound):
        await producer.flush()
    assert all(isinstance(answer.exception(), NotFound) for answer in answers)
    assert asked.total() <= 2
    await producer.flush()


async def test_sends_keep_their_order_and_tell_their_offsets(tl: Platform) -> None:
    async with tl.log.producer("orders", batch_messages=7) as producer:
        answers = [await producer.send(value) for value in numbered(50)]
    assert [(await answer).first_offset for answer in answers] == list(range(1, 51))
    assert await values(tl) == numbered(50)


async def test_sends_with_keys_go_to_the_partition_of_the_key(tl: Platform) -> None:
    await tl.log.create("many", partitions=3)
    async with tl.log.producer("many") as producer:
        sent = [await producer.send(key, key=key) for key in numbered(30)]
    (appended, *_) = await tl.log.append("many", b"again", keys=b"0")
    assert (await sent[0]).partition == appended.partition
    for partition in range(3):
        found = [message async for message in tl.log.read("many", partition)]
        assert all(m.key == m.value or m.value == b"again" for m in found)


async def test_keys_and_headers_survive_in_mixed_company(tl: Platform) -> None:
    async with tl.log.producer("orders", linger=NEVER) as producer:
        await producer.send("plain")
        await producer.send("keyed", key="k")
        await producer.send("headed", headers={"a": 1})
        await producer.send("both", key=b"", headers={})
    found = [(m.value, m.key, m.headers) async for m in tl.log.read("orders")]
    assert found == [
        (b"plain", None, None),
        (b"keyed", b"k", None),
        (b"headed", None, {"a": 1}),
        (b"both", b"", {}),
    ]
    assert len(await batches(tl)) == 1


async def test_headers_are_those_of_the_moment_of_the_send(tl: Platform) -> None:
    headers: dict[str, Any] = {"of": {}}
    async with tl.log.producer("orders", linger=NEVER) as producer:
        for n in range(3):
            headers["of"]["n"] = n
            await producer.send("reused", headers=headers)
    assert [m.headers["of"] async for m in tl.log.read("orders") if m.headers] == [
        {"n": 0},
        {"n": 1},
        {"n": 2},
    ]


async def test_linger_gathers_until_a_batch_is_full(tl: Platform) -> None:
    producer = tl.log.producer("orders", linger=NEVER, batch_messages=10)
    answers = [await producer.send(value) for value in numbered(20)]
    assert [(await answer).first_offset for answer in answers] == list(range(1, 21))
    assert len(await batches(tl)) == 2


async def test_a_batch_is_full_by_its_bytes_too(tl: Platform) -> None:
    producer = tl.log.producer("orders", linger=NEVER, batch_bytes=1000)
    answers = [await producer.send(b"x" * 100) for _ in range(30)]
    assert [(await answer).first_offset for answer in answers] == list(range(1, 31))
    assert [row.n for row in await batches(tl)] == [10, 10, 10]


async def test_flush_waits_for_no_linger(tl: Platform) -> None:
    producer = tl.log.producer("orders", linger=NEVER, batch_messages=10)
    for value in numbered(25):
        await producer.send(value)
    await producer.flush()
    assert await values(tl) == numbered(25)


async def test_flush_does_not_wait_for_what_others_send_meanwhile(tl: Platform) -> None:
    producer = tl.log.producer("orders", linger=0)

    async def endless() -> None:
        while True:
            await (await producer.send("noise"))

    noise = [asyncio.create_task(endless()) for _ in range(3)]
    answer = await producer.send("mine")
    async with asyncio.timeout(10):
        await producer.flush()
    assert answer.done()
    for task in noise:
        task.cancel()
    await asyncio.wait(noise)


async def test_flush_raises_the_first_failure_and_only_once(tl: Platform) -> None:
    producer = tl.log.producer("orders")
    bad = await producer.send("x", partition=5)
    good = await producer.send("y")
    with pytest.raises(NotFound, match="asked for 5"):
        await producer.flush()
    assert isinstance(bad.exception(), NotFound)
    assert (await good).first_offset == 1
    await producer.flush()


async def test_a_failure_is_told_even_when_its_sender_lost_patience(dsn: str, tl: Platform) -> None:
    producer = tl.log.producer("orders")
    await tl.log.create("state", compact=True)
    async with blocked(dsn) as blocker:
        keyless = await producer.send("x", topic="state")
        await blocker.blocks()
        keyless.cancel()
    with pytest.raises(Invalid, match="key"):
        await producer.flush()


async def test_leaving_the_block_tells_the_failure(tl: Platform) -> None:
    with pytest.raises(NotFound):
        async with tl.log.producer("orders") as producer:
            await producer.send("x", partition=5)


async def test_a_message_that_can_never_be_stored_is_refused_when_it_is_sent(tl: Platform) -> None:
    async with tl.log.producer() as producer:
        for send in (
            producer.send("x"),
            producer.send(None, topic="orders"),
            producer.send(7, topic="orders"),  # type: ignore[arg-type]
            producer.send("x", key=7, topic="orders"),  # type: ignore[arg-type]
            producer.send("x", headers={"a": object()}, topic="orders"),
            producer.send("x", headers="a", topic="orders"),  # type: ignore[arg-type]
            producer.send("x", topic=["orders"]),  # type: ignore[arg-type]
            producer.send("x", topic="orders", partition=[0]),  # type: ignore[arg-type]
            producer.send("x", topic="orders", partition=0.0),  # type: ignore[arg-type]
        ):
            with pytest.raises(Invalid):
                await send
        with pytest.raises(TooLarge):
            await producer.send(bytes((8 << 20) + 1), topic="orders")
        with pytest.raises(NotFound):
            await producer.send("x", topic="nowhere")
    assert await values(tl) == []


@pytest.mark.parametrize(
    "options",
    [
        {"batch_messages": 0},
        {"batch_bytes": 0},
        {"in_flight_bytes": 0},
        {"linger": -1},
        {"linger": "1"},
        {"batch_messages": "10"},
        {"codec": "lz4"},
    ],
    ids=str,
)
async def test_a_producer_that_makes_no_sense_is_refused(
    tl: Platform, options: dict[str, Any]
) -> None:
    with pytest.raises(Invalid):
        tl.log.producer("orders", **options)


async def test_a_producer_has_its_own_codec(tl: Platform) -> None:
    async with tl.log.producer("orders", codec="zstd") as producer:
        await producer.send(b"x" * 100)
        await producer.append("orders", [b"y" * 100])
    assert {row.codec for row in await batches(tl)} == {Codec.ZSTD}
    assert await values(tl) == [b"x" * 100, b"y" * 100]


@pytest.mark.parametrize("message", [b"", b"x" * 10, b"x" * 4000], ids=len)
async def test_a_server_that_hangs_makes_senders_wait_and_memory_stays_bounded(
    dsn: str, tl: Platform, message: bytes
) -> None:
    bound = 2 << 20
    producer = tl.log.producer("orders", in_flight_bytes=bound)
    await (await producer.send("warm up"))
    sent = 0

    async def send_for_ever() -> None:
        nonlocal sent
        while True:
            await producer.send(bytes(bytearray(message)), headers={"n": sent})
            sent += 1

    async with blocked(dsn):
        gc.collect()
        tracemalloc.start()
        sending = asyncio.create_task(send_for_ever())
        await eventually(producer._queue.locked)
        used, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        sending.cancel()
        await asyncio.wait({sending})
    assert sent > 200
    assert used < 1.5 * bound + (1 << 20)  # one batch under way is there twice
    await producer.flush()
    assert len(await values(tl)) == sent + 1
    assert producer._in_flight == 0


async def test_who_waits_for_room_is_served_in_turn(dsn: str, tl: Platform) -> None:
    producer = tl.log.producer("orders", in_flight_bytes=10_000)
    async with blocked(dsn) as blocker:
        await producer.send(b"first")
        await blocker.blocks()
        sends = []
        for value in (b"b" * 9_500, b"small", b"c" * 9_500, b"tiny"):
            sends.append(asyncio.create_task(producer.send(value)))
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not any(send.done() for send in sends)
    for send in sends:
        await send
    await producer.flush()
    assert [value and value[:1] for value in await values(tl)] == [b"f", b"b", b"s", b"c", b"t"]


async def test_a_message_larger_than_all_that_may_be_in_flight_goes_alone(tl: Platform) -> None:
    async with tl.log.producer("orders", in_flight_bytes=100) as producer:
        await producer.send("a")
        await producer.send(b"x" * 5000)
        await producer.send("b")
    assert await values(tl) == [b"a", b"x" * 5000, b"b"]


async def test_a_cancelled_caller_leaves_the_others_their_offsets(dsn: str, tl: Platform) -> None:
    async with blocked(dsn) as blocker:
        first = asyncio.create_task(tl.log.append("orders", b"first"))
        await blocker.blocks()
        others = [asyncio.create_task(tl.log.append("orders", n)) for n in numbered(10)]
        await asyncio.sleep(0)
        for gone in (first, others[4]):
            gone.cancel()
        await asyncio.wait([first, others[4]])
    answers = await asyncio.gather(*others, return_exceptions=True)
    stored = await values(tl)
    for n, answer in enumerate(answers):
        if n != 4:
            assert isinstance(answer, list)
            assert stored[answer[0].first_offset - 1] == str(n).encode()
    assert [check.problem for check in await tl.log.verify("orders")] == [None]


@pytest.mark.parametrize("moments", [0, 1, 20])
async def test_whoever_waits_is_told_when_the_program_ends(
    dsn: str, tl: Platform, moments: int, caplog: pytest.LogCaptureFixture
) -> None:
    producer = tl.log.producer("orders", batch_messages=1)
    async with blocked(dsn):
        answers = [await producer.send(value) for value in numbered(3)]
        for _ in range(moments):
            await asyncio.sleep(0)
        for task in asyncio.all_tasks():
            if task.get_name() == "append orders/0":
                task.cancel()
        ends = await asyncio.wait_for(asyncio.gather(*answers, return_exceptions=True), 5)
        assert {type(end) for end in ends} == {Unavailable}
        with pytest.raises(Unavailable, match="program ended"):
            await asyncio.wait_for(producer.flush(), 5)
    assert "the program ended before the message was acknowledged" in caplog.text
    await producer.send("later")
    await producer.close()
    assert (await values(tl))[-1] == b"later"


async def test_closing_stores_what_is_pending_and_refuses_what_comes(
    dsn: str, tl: Platform
) -> None:
    producer = tl.log.producer("orders", in_flight_bytes=2000)
    async with blocked(dsn) as blocker:
        await producer.send("a")
        await blocker.blocks()
        await producer.send("b")
        late = asyncio.create_task(producer.send(b"x" * 1500))
        await eventually(producer._queue.locked)
        closing = asyncio.create_task(producer.close())
        await asyncio.sleep(0)
        with pytest.raises(Invalid, match="closed"):
            await producer.append("orders", "c")
        assert not closing.done()
    await closing
    with pytest.raises(Invalid, match="closed"):
        await late
    await producer.close()
    assert await values(tl) == [b"a", b"b"]


async def test_an_answer_that_got_lost_stores_the_message_once(
    dsn: str, tl: Platform, proxy: Callable[[str], Proxy]
) -> None:
    wire = proxy(dsn)
    async with trunkline.connect(wire.dsn) as far, blocked(dsn) as blocker:
        appending = asyncio.create_task(far.log.append("orders", ["a", "b"]))
        await blocker.blocks(1)
        wire.cut()  # the server goes on with the first try and commits it, its answer goes nowhere
        await blocker.blocks(2)
        await blocker.release()
        assert await appending == [Appended("orders", 0, 1, 2)]
        assert await far.log.append("orders", "c") == [Appended("orders", 0, 3, 3)]
    assert await values(tl) == [b"a", b"b", b"c"]


async def test_every_message_arrives_once_over_a_network_that_keeps_breaking(
    dsn: str, tl: Platform, proxy: Callable[[str], Proxy]
) -> None:
    wire = proxy(dsn)
    async with trunkline.connect(wire.dsn) as far:
        producer = far.log.producer("orders", batch_messages=5)
        for number in range(200):
            await producer.send(str(number))
            if number % 20 == 0:
                wire.cut()
        await producer.flush()
    assert await values(tl) == numbered(200)
    assert [check.problem for check in await tl.log.verify("orders")] == [None]


async def test_without_idempotence_a_lost_answer_is_told_and_not_repeated(
    dsn: str, tl: Platform, proxy: Callable[[str], Proxy]
) -> None:
    wire = proxy(dsn)
    async with trunkline.connect(wire.dsn) as far, blocked(dsn) as blocker:
        producer = far.log.producer("orders", idempotent=False)
        answer = await producer.send("a")
        await blocker.blocks(1)
        wire.cut()
        with pytest.raises(Unavailable):
            await answer
        with pytest.raises(Unavailable):
            await producer.flush()
        await blocker.release()
        await eventually(lambda: _stored(tl, 1))
        await (await producer.send("b"))
    assert await values(tl) == [b"a", b"b"]


async def _stored(tl: Platform, n: int) -> None:
    assert len(await values(tl)) == n


async def test_a_server_that_stays_away_is_told_and_later_sends_are_stored(
    dsn: str, tl: Platform, proxy: Callable[[str], Proxy]
) -> None:
    wire = proxy(dsn)
    async with trunkline.connect(wire.dsn, connect_timeout=0.3) as far:
        far.db._patience = 0.3
        producer = far.log.producer("orders")
        await (await producer.send("a"))
        wire.refuse()
        lost = await producer.send("b")
        with pytest.raises(Unavailable):
            await lost
        with pytest.raises(Unavailable):
            await producer.flush()
        wire.resume()
        far.db._patience = 30
        assert (await (await producer.send("c"))).first_offset == 2
    assert await values(tl) == [b"a", b"c"]


async def test_early_release_is_durable_when_it_is_acknowledged(tl: Platform) -> None:
    await tl.log.create("fast", early_release=True)
    async with tl.db.connection() as connection:
        for number in range(10):  # now and then the server flushes by itself
            before = await lsn(connection, "pg_current_wal_insert_lsn()")
            await tl.log.append("fast", str(number))
            assert await lsn(connection, "pg_current_wal_flush_lsn()") > before
    assert await values(tl, "fast") == numbered(10)


async def lsn(connection: psycopg.AsyncConnection[Any], which: str) -> int:
    found = await connection.execute(f"select ({which} - '0/0')::bigint")
    ((position,),) = await found.fetchall()
    return int(position)


@pytest.fixture
def writer(dsn: str) -> Iterator[str]:
    """A role that may append, and no more."""
    name = f"writer_{uuid4().hex}"
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute(f"create role {name} login in role trunkline_writer".encode())
        yield make_conninfo(dsn, user=name)
        session.execute(f"drop role {name}".encode())


@pytest.mark.parametrize(
    "trouble",
    ["drop function trunkline.{}", "revoke all on function trunkline.{} from trunkline_writer"],
    ids=["missing", "forbidden"],
)
async def test_a_partition_whose_own_function_cannot_be_called_is_appended_to_all_the_same(
    dsn: str, writer: str, tl: Platform, trouble: str
) -> None:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as session:
        found = await session.execute("select name from trunkline._log_appends()")
        ((own,),) = await found.fetchall()
        await session.execute(trouble.format(own).encode())
    async with trunkline.connect(writer) as theirs:
        sent = [await theirs.log.append("orders", b"%d" % number) for number in range(20)]
    assert [first.first_offset for (first,) in sent] == [*range(1, 21)]


async def test_a_topic_that_was_made_anew_is_appended_to_by_the_function_of_the_new_one(
    dsn: str, tl: Platform
) -> None:
    for _ in range(20):
        await tl.log.append("orders", b"a")
    await tl.log.delete("orders")
    await tl.log.create("orders")
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as session:
        await session.execute("call trunkline.maintain()")
    sent = [await tl.log.append("orders", b"b") for _ in range(3)]
    assert [first.first_offset for (first,) in sent] == [1, 2, 3]


async def test_a_partition_that_is_busy_is_appended_to_by_its_own_function(
    dsn: str, tl: Platform
) -> None:
    for _ in range(20):
        await tl.log.append("orders", b"a")
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as session:
        await session.execute("alter function trunkline.log_append_batch rename to hidden")
        try:
            await tl.log.append("orders", b"b")
            await tl.log.create("others")
            with pytest.raises(trunkline.SchemaMismatch):
                await tl.log.append("others", b"c")
        finally:
            await session.execute("alter function trunkline.hidden rename to log_append_batch")


async def test_a_producer_of_many_partitions_has_own_functions_for_some_of_them(
    dsn: str, tl: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "_BUSY_MOST", 2)
    await tl.log.create("wide", partitions=4)
    for partition in [*range(4)] * 12:
        await tl.log.append("wide", b"a", partition=partition)
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as session:
        await session.execute("alter function trunkline.log_append_batch rename to hidden")
        try:
            for partition in range(2):
                await tl.log.append("wide", b"b", partition=partition)
            for partition in range(2, 4):
                with pytest.raises(trunkline.SchemaMismatch):
                    await tl.log.append("wide", b"b", partition=partition)
        finally:
            await session.execute("alter function trunkline.hidden rename to log_append_batch")


async def test_messages_without_a_key_pass_by_a_partition_that_an_open_transaction_holds(
    dsn: str, tl: Platform
) -> None:
    await tl.log.create("shared", partitions=2)
    async with await psycopg.AsyncConnection.connect(dsn) as holder:
        await holder.execute("select trunkline.log_append('shared', 0, array['x'::bytea])")
        stuck = [asyncio.create_task(tl.log.append("shared", b"first")) for _ in range(2)]
        await asyncio.sleep(0.5)
        assert sorted(task.done() for task in stuck) == [False, True]
        for _ in range(4):
            async with asyncio.timeout(5):
                (at,) = await tl.log.append("shared", b"next")
            assert at.partition == 1
        await holder.rollback()
        await asyncio.gather(*stuck)
