"""Events enqueued in the background: in order, together, and nobody is left without an answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from tests.broker.steps import events, payloads, tick
from tests.fixtures.asking import ask

import trunkline
from trunkline import NewEvent
from trunkline.broker.enqueue import Enqueuer
from trunkline.core.db import AsyncDb
from trunkline.core.errors import BadRequest, Invalid, NotFound, Unavailable
from trunkline.testing import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.fixtures.asking import Session
    from tests.fixtures.proxy import Proxy

HOUR = 3600.0  # a linger that no test waits for


def _nested(depth: int) -> Any:
    made: Any = None
    for _ in range(depth):
        made = [made]
    return made


@pytest.fixture
async def db(clean_dsn: str) -> AsyncIterator[AsyncDb]:
    opened = AsyncDb(clean_dsn)
    yield opened
    await opened.close()


def transactions(session: Session) -> int:
    return int(ask(session, "select count(distinct xid) from trunkline.event"))


async def test_a_full_batch_goes_out_at_once_as_one_transaction(
    db: AsyncDb, session: Session
) -> None:
    enqueuer = Enqueuer(db, batch_events=3, linger=HOUR)
    answers = [await enqueuer.enqueue(NewEvent("a", number)) for number in range(6)]
    ids = [await answer for answer in answers]
    assert transactions(session) == 2
    tick(session)
    assert [(event.event_id, event.payload) for event in events(session)] == list(
        zip(ids, range(6), strict=True)
    )


async def test_few_events_go_out_when_they_have_waited_long_enough(
    db: AsyncDb, session: Session
) -> None:
    enqueuer = Enqueuer(db, linger=0.01)
    first, second = [await enqueuer.enqueue(NewEvent("a", number)) for number in range(2)]
    assert await first < await second
    assert transactions(session) == 1


async def test_flush_sends_what_waits_and_close_refuses_more(db: AsyncDb, session: Session) -> None:
    enqueuer = Enqueuer(db, linger=HOUR)
    answer = await enqueuer.enqueue(NewEvent("a", 1))
    assert not answer.done()
    await enqueuer.flush()
    assert answer.done()
    await enqueuer.enqueue(NewEvent("a", 2))
    await enqueuer.close()
    await enqueuer.close()
    assert payloads(session) == [1, 2]
    with pytest.raises(BadRequest, match="closed"):
        await enqueuer.enqueue(NewEvent("a", 3))


async def test_the_end_of_a_connection_publishes_what_is_enqueued(
    clean_dsn: str, session: Session
) -> None:
    async with trunkline.connect(clean_dsn) as tl:
        for number in range(5):
            await tl.broker.enqueue("a", number, key="k")
    assert payloads(session) == list(range(5))


async def test_the_end_of_a_connection_in_a_scope_that_was_cancelled_publishes_what_is_enqueued(
    clean_dsn: str, session: Session
) -> None:
    with anyio.CancelScope() as scope:
        async with trunkline.connect(clean_dsn) as tl:
            await tl.broker.enqueue("a", 1)
            scope.cancel()
    await eventually(lambda: _equal(payloads(session), [1]))


def _equal(one: object, other: object) -> None:
    assert one == other


async def test_many_who_enqueue_share_transactions_and_each_keeps_its_order(
    db: AsyncDb, session: Session
) -> None:
    enqueuer = Enqueuer(db, batch_events=50, linger=0.005)

    async def one(who: int) -> None:
        for number in range(40):
            answer = await enqueuer.enqueue(NewEvent("a", [who, number]))
            if number % 10 == 0:
                await answer

    await asyncio.gather(*(one(who) for who in range(5)))
    await enqueuer.close()
    found = payloads(session)
    for who in range(5):
        assert [number for someone, number in found if someone == who] == list(range(40))
    assert transactions(session) < 100


async def test_no_more_than_so_many_are_in_flight(db: AsyncDb, session: Session) -> None:
    session.execute("begin; lock table trunkline.event in access exclusive mode")
    enqueuer = Enqueuer(db, batch_events=2, linger=0.001, in_flight=4)
    for number in range(4):
        await enqueuer.enqueue(NewEvent("a", number))
    fifth = asyncio.create_task(enqueuer.enqueue(NewEvent("a", 4)))
    waiting = "select count(*) from pg_locks where not granted"
    await eventually(lambda: ask(session, waiting) == 1)
    assert not fifth.done()
    session.execute("commit")
    await (await fifth)
    await enqueuer.close()
    assert payloads(session) == list(range(5))


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (NewEvent("a\nb", 1), Invalid),
        (NewEvent("a", 1, subscription=999), NotFound),
        (NewEvent("a", {"when": object()}), Invalid),
        (NewEvent("a", float("nan")), Invalid),
        (NewEvent("a", "\x00"), Invalid),
        (NewEvent("a", "\ud800"), Invalid),
        (NewEvent("a", _nested(100_000)), Invalid),
        (NewEvent("a", 1, deliver_at="soon"), Invalid),  # type: ignore[arg-type]
        (NewEvent("a", 1, subscription=2**70), Invalid),
    ],
)
async def test_a_refused_event_fails_alone_and_its_caller_is_told(
    db: AsyncDb, session: Session, bad: NewEvent, error: type[Exception]
) -> None:
    enqueuer = Enqueuer(db, linger=HOUR)
    answers = [await enqueuer.enqueue(event) for event in (NewEvent("a", 1), bad, NewEvent("a", 2))]
    with pytest.raises(error):
        await enqueuer.flush()
    await enqueuer.flush()  # told once
    with pytest.raises(error):
        await answers[1]
    assert await answers[0] < await answers[2]
    assert payloads(session) == [1, 2]


async def test_a_payload_that_breaks_while_it_is_written_down_keeps_nobody_waiting(
    db: AsyncDb,
) -> None:
    class Broken(dict[str, int]):
        def items(self) -> Any:
            raise KeyError("gone")

    enqueuer = Enqueuer(db, linger=HOUR, in_flight=1)
    for _ in range(2):
        answer = await asyncio.wait_for(enqueuer.enqueue(NewEvent("a", Broken(n=1))), 10)
        with pytest.raises(KeyError):
            await answer
    await asyncio.wait_for(enqueuer.enqueue(NewEvent("a", Broken(n=1))), 10)
    with pytest.raises(KeyError):
        await asyncio.wait_for(enqueuer.close(), 10)


@pytest.mark.parametrize("how", ["await", "gather", "wait", "timeout", "task"])
async def test_an_error_that_the_caller_has_seen_is_not_raised_again(db: AsyncDb, how: str) -> None:
    enqueuer = Enqueuer(db, linger=0.001)
    answer = await enqueuer.enqueue(NewEvent("a\nb", 1))
    match how:
        case "await":
            with pytest.raises(Invalid):
                await answer
        case "gather":
            (error,) = await asyncio.gather(answer, return_exceptions=True)
            assert isinstance(error, Invalid)
        case "wait":
            await asyncio.wait([answer])
            assert isinstance(answer.exception(), Invalid)
        case "timeout":
            with pytest.raises(Invalid):
                await asyncio.wait_for(answer, 10)
        case _:
            seen = asyncio.create_task(asyncio.wait_for(answer, 10))
            await enqueuer.close()
            with pytest.raises(Invalid):
                await seen
    await enqueuer.close()


async def test_of_several_errors_one_that_no_caller_has_seen_is_raised(db: AsyncDb) -> None:
    enqueuer = Enqueuer(db, linger=0.001)
    seen = await enqueuer.enqueue(NewEvent("a\nb", 1))
    await enqueuer.enqueue(NewEvent("a", 1, subscription=999))
    with pytest.raises(Invalid):
        await seen
    with pytest.raises(NotFound):
        await enqueuer.close()


async def test_a_caller_that_stops_waiting_leaves_the_error_to_flush(db: AsyncDb) -> None:
    enqueuer = Enqueuer(db, linger=0.2)
    answer = await enqueuer.enqueue(NewEvent("a\nb", 1))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(answer), 0.01)
    with pytest.raises(Invalid):
        await enqueuer.close()


async def test_an_event_is_published_as_it_was_when_it_was_enqueued(
    db: AsyncDb, session: Session
) -> None:
    enqueuer = Enqueuer(db, linger=HOUR)
    payload = {"n": 0}
    for number in range(3):
        payload["n"] = number
        await enqueuer.enqueue(NewEvent("a", payload))
    await enqueuer.close()
    assert payloads(session) == [{"n": 0}, {"n": 1}, {"n": 2}]


async def test_a_batch_is_no_longer_than_the_server_can_take(db: AsyncDb, session: Session) -> None:
    enqueuer = Enqueuer(db, linger=HOUR)
    for letter in "abcd":
        await enqueuer.enqueue(NewEvent("a", letter * 12_000_000))
    await enqueuer.close()
    assert transactions(session) == 2
    assert [payload[0] for payload in payloads(session)] == ["a", "b", "c", "d"]


async def test_who_may_have_few_in_flight_does_not_wait_for_a_full_batch(
    db: AsyncDb, session: Session
) -> None:
    enqueuer = Enqueuer(db, linger=HOUR, in_flight=2)
    async with asyncio.timeout(10):
        for number in range(4):
            await enqueuer.enqueue(NewEvent("a", number))
    await enqueuer.close()
    assert payloads(session) == [0, 1, 2, 3]


@pytest.mark.parametrize("moments", [0, 1])
async def test_whoever_waits_is_told_when_the_program_ends(
    db: AsyncDb, moments: int, caplog: pytest.LogCaptureFixture
) -> None:
    enqueuer = Enqueuer(db, linger=HOUR)
    answer = await enqueuer.enqueue(NewEvent("a", 1))
    for _ in range(moments):
        await asyncio.sleep(0)
    for task in asyncio.all_tasks():
        if task.get_name() == "enqueuer":
            task.cancel()
    with pytest.raises(Unavailable):
        await asyncio.wait_for(answer, 5)
    assert "the program ended before the event was published" in caplog.text


async def test_a_batch_is_published_when_the_server_is_back(
    clean_dsn: str, session: Session, proxy: Callable[[str], Proxy]
) -> None:
    between = proxy(clean_dsn)
    db = AsyncDb(between.dsn, connect_timeout=1)
    enqueuer = Enqueuer(db, linger=0.001)
    await (await enqueuer.enqueue(NewEvent("a", "before")))
    between.refuse()
    answer = await enqueuer.enqueue(NewEvent("a", "meanwhile"))
    await asyncio.sleep(0.05)
    assert not answer.done()
    between.resume()
    await answer
    await enqueuer.close()
    await db.close()
    assert payloads(session) == ["before", "meanwhile"]


async def test_who_waits_is_told_when_the_server_stays_away(
    clean_dsn: str, proxy: Callable[[str], Proxy]
) -> None:
    between = proxy(clean_dsn)
    between.refuse()
    db = AsyncDb(between.dsn, connect_timeout=0.2)
    enqueuer = Enqueuer(db, linger=0.001, patience=0.1)
    answer = await enqueuer.enqueue(NewEvent("a", "lost"))
    with pytest.raises(Unavailable):
        await answer
    await enqueuer.enqueue(NewEvent("a", "lost as well"))
    with pytest.raises(Unavailable):
        await enqueuer.close()
    await db.close()


async def test_an_answer_that_nobody_wants_any_more_is_not_published(
    db: AsyncDb, session: Session
) -> None:
    enqueuer = Enqueuer(db, linger=HOUR)
    given_up = await enqueuer.enqueue(NewEvent("a", 1))
    given_up.cancel()
    await enqueuer.enqueue(NewEvent("a", 2))
    await enqueuer.close()
    assert payloads(session) == [2]


@pytest.mark.parametrize(
    "given", [{"batch_events": 0}, {"in_flight": 0}, {"linger": -1}, {"patience": -1}]
)
async def test_settings_that_make_no_sense_are_refused(db: AsyncDb, given: dict[str, int]) -> None:
    with pytest.raises(Invalid):
        Enqueuer(db, **given)  # type: ignore[arg-type]


def test_blocking_code_enqueues_and_flushes(clean_dsn: str, session: Session) -> None:
    with trunkline.connect_sync(clean_dsn) as tl:
        tl.broker.enqueue("a", 1)
        tl.broker.flush()
        tl.broker.enqueue("a\nb", 2)
        with pytest.raises(Invalid):
            tl.broker.flush()
        tl.broker.enqueue("a", 3)
    assert payloads(session) == [1, 3]
