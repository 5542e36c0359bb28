"""Streams: history, then what comes, by a token that works anywhere."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.conninfo import make_conninfo
from tests.broker.steps import publish, tick
from tests.broker.test_reading import age, rotate
from tests.fixtures.asking import ask, call, refused, writing_nothing

from trunkline import DatabaseError, Invalid, PositionTrimmed, connect
from trunkline.broker.stream import EventStream, Heartbeat, Place, Reset, StreamEvent
from trunkline.testing import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.fixtures.asking import Session
    from tests.fixtures.proxy import Proxy

    from trunkline.core.calls import Call
    from trunkline.platform import Platform


@pytest.fixture
async def platform(clean_dsn: str) -> AsyncIterator[Platform]:
    async with connect(clean_dsn) as opened:
        yield opened


async def take(stream: EventStream, number: int) -> list[StreamEvent]:
    """The next events."""
    seen = []
    async with asyncio.timeout(10):
        async for event in stream:
            seen.append(event)
            if len(seen) == number:
                break
    return seen


def start(session: Session) -> str:
    """The token before the first event."""
    return Place(ask(session, "select trunkline.incarnation()"), 0).token


def fill(session: Session, first: int, last: int, topic: str = "order") -> None:
    for number in range(first, last + 1):
        publish(session, topic, number)
    tick(session)


async def test_a_stream_begins_with_what_comes_now(platform: Platform, session: Session) -> None:
    fill(session, 1, 3)
    async with platform.broker.stream("order") as stream:
        fill(session, 4, 5)

        assert [event.payload for event in await take(stream, 2)] == [4, 5]


async def test_a_stream_goes_on_after_a_token_on_any_node(
    platform: Platform, session: Session, clean_dsn: str
) -> None:
    fill(session, 1, 10)
    seen = await take(platform.broker.stream("order", after=start(session)), 4)
    fill(session, 11, 12)

    async with connect(clean_dsn) as elsewhere:
        rest = await take(elsewhere.broker.stream("order", after=seen[-1].token), 8)

    assert [event.payload for event in seen + rest] == list(range(1, 13))


async def test_only_what_meets_the_condition_is_told(platform: Platform, session: Session) -> None:
    fill(session, 1, 3, topic="visit")
    fill(session, 4, 6)
    stream = platform.broker.stream(
        "order",
        condition="(e.payload)::int % (s.params ->> 'by')::int = 0",
        params={"by": 2},
        after=start(session),
    )

    assert [event.payload for event in await take(stream, 2)] == [4, 6]


async def test_many_events_that_do_not_match_are_passed_over(
    platform: Platform, session: Session
) -> None:
    session.execute("select trunkline.broker_publish('visit', '1') from generate_series(1, 2500)")
    fill(session, 1, 1)

    (event,) = await take(platform.broker.stream("order", after=start(session)), 1)

    assert event.payload == 1


async def test_an_event_that_commits_late_is_not_missed_by_whoever_resumes(
    platform: Platform, session: Session, other: Session
) -> None:
    publish(other, "order", "late")
    fill(session, 1, 1)
    (event,) = await take(platform.broker.stream("order", after=start(session)), 1)
    other.commit()
    tick(session)

    (rest,) = await take(platform.broker.stream("order", after=event.token), 1)

    assert (event.payload, rest.payload) == (1, "late")


async def test_who_stops_in_the_middle_of_a_page_goes_on_there(
    platform: Platform, session: Session
) -> None:
    stream = platform.broker.stream("order", after=start(session))
    fill(session, 1, 5)
    for number in (1, 2, 3):
        async for event in stream:
            assert event.payload == number
            assert stream.token == event.token
            break


async def test_a_quiet_stream_beats_and_its_token_stays_fresh(
    platform: Platform, session: Session
) -> None:
    stream = platform.broker.stream("order", heartbeat=0.05)
    items = stream.items()
    first = await anext(items)
    fill(session, 1, 3, topic="visit")

    async with asyncio.timeout(10):
        async for item in items:
            assert isinstance(item, Heartbeat)
            if item != first:
                break

    assert isinstance(first, Heartbeat)
    assert stream.token == Place(ask(session, "select trunkline.incarnation()"), 3).token


async def test_a_stream_whose_history_is_gone_says_so(platform: Platform, session: Session) -> None:
    from datetime import timedelta

    token = start(session)
    fill(session, 1, 3)
    call(session, "broker_match")
    age(session, timedelta(hours=5))
    rotate(session)
    assert ask(session, "select count(*) from trunkline.event") == 0
    fill(session, 4, 4)

    with pytest.raises(PositionTrimmed, match="left"):
        await take(platform.broker.stream("order", after=token), 1)
    items = platform.broker.stream("order", after=token).items()
    reset = await anext(items)
    fill(session, 5, 5)
    event = await anext(items)

    assert isinstance(reset, Reset)
    assert isinstance(event, StreamEvent)
    assert event.payload == 5


async def test_a_token_of_another_life_of_the_server_is_refused(
    platform: Platform, session: Session
) -> None:
    fill(session, 1, 3)
    token = Place(ask(session, "select trunkline.incarnation()") + 7, 1).token

    with pytest.raises(PositionTrimmed, match="another life"):
        await take(platform.broker.stream("order", after=token), 1)
    with pytest.raises(PositionTrimmed, match="another life"):
        future = Place(ask(session, "select trunkline.incarnation()"), 99).token
        await take(platform.broker.stream("order", after=future), 1)


async def test_a_failover_while_a_stream_begins_skips_nothing(
    platform: Platform, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A position of the server that is gone is no place in the life of the next one."""
    run, of_the_old_one = platform.db.run, 5

    async def failing_over(call: Call[Any], **given: Any) -> Any:
        rows = await run(call, **given)
        if call.function == "broker_scan" and call.arguments["after"] is None:
            rows = [replace(row, up_to=of_the_old_one) for row in rows]
        return rows

    fill(session, 1, 3)
    monkeypatch.setattr(platform.db, "run", failing_over)
    async with platform.broker.stream("order") as stream:
        fill(session, 4, 9)
        assert [event.payload for event in await take(stream, 6)] == [4, 5, 6, 7, 8, 9]


async def test_a_stream_without_a_token_says_at_once_where_it_began(
    platform: Platform, session: Session, clean_dsn: str
) -> None:
    """Whoever is cut off before the first event must not miss what comes meanwhile."""
    fill(session, 1, 3)
    items = platform.broker.stream("order").items()
    async with asyncio.timeout(5):
        began = await anext(items)
    await items.aclose()
    fill(session, 4, 4)
    assert isinstance(began, Heartbeat)
    async with connect(clean_dsn) as elsewhere:
        (event,) = await take(elsewhere.broker.stream("order", after=began.token), 1)
    assert event.payload == 4


async def test_a_stream_that_its_reader_leaves_listens_no_more(
    platform: Platform, session: Session
) -> None:
    async def follow() -> None:
        async for _ in platform.broker.stream("order"):
            pass

    following = asyncio.create_task(follow())
    await eventually(lambda: "broker:tick" in platform._listener._subscriptions)
    following.cancel()
    await asyncio.wait({following}, timeout=0.1)
    assert following.cancelled()
    assert "broker:tick" not in platform._listener._subscriptions


async def test_a_stream_ends_with_its_connection(clean_dsn: str) -> None:
    async with connect(clean_dsn) as platform:
        stream = platform.broker.stream("order")
        await stream.open()
        reading = asyncio.create_task(take(stream, 1))
        await eventually(lambda: "broker:tick" in platform._listener._subscriptions)
    done, _ = await asyncio.wait({reading}, timeout=3)
    assert done, "it waits for a server that nobody asks any more"
    assert reading.result() == []


async def test_a_stream_reads_a_page_only_when_the_one_before_is_used_up(
    platform: Platform, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, scans = platform.db.run, 0

    async def counting(call: Call[Any], **given: Any) -> Any:
        nonlocal scans
        scans += call.function == "broker_scan"
        return await run(call, **given)

    fill(session, 1, 9)
    stream = platform.broker.stream("order", after=start(session))
    stream._page = 3
    monkeypatch.setattr(platform.db, "run", counting)
    seen = []
    async for event in stream:
        seen.append((event.payload, scans))
        if event.payload == 9:
            break
    assert seen == [(number, (number + 2) // 3) for number in range(1, 10)]


@pytest.mark.parametrize(
    "token",
    [
        "",
        "rubbish",
        "MS4x!",
        "\u00e9",
        "MS4yLjM",
        "1.1",
        *(Place(*place).token for place in ((1, -5), (1, 2**63), (0, 1), (2**31, 1))),
    ],
)
async def test_a_token_that_is_rubbish_is_refused(platform: Platform, token: str) -> None:
    with pytest.raises(Invalid, match="not a token"):
        platform.broker.stream("order", after=token)


async def test_a_condition_that_fails_ends_the_stream_with_the_event(
    platform: Platform, session: Session
) -> None:
    fill(session, 0, 2)
    stream = platform.broker.stream(condition="1 / (e.payload)::int > 0", after=start(session))

    with pytest.raises(Invalid, match="position 1"):
        await take(stream, 1)


def test_a_scan_leaves_no_trace_and_refuses_rubbish(session: Session) -> None:
    fill(session, 1, 3)

    rows = call(session, "broker_scan", condition='{"topic": "order"}', after=1, max_events=1)

    assert [row[4] for row in rows] == [2]
    assert call(session, "broker_scan", after=3) == []
    assert [row[0] for row in call(session, "broker_scan")] == [3]
    assert ask(session, "select count(*) from trunkline.broker_subscription") == 0
    for given in ({"after": -1}, {"after": 1, "max_events": 0}, {"condition": "e.nothing"}):
        with refused("TL422"):
            call(session, "broker_scan", **given)


@pytest.mark.parametrize("condition", [None, '{"topic": "order"}', "e.topic = 'order'"])
def test_a_scan_that_finds_nothing_new_writes_nothing(
    session: Session, condition: str | None
) -> None:
    publish(session, "order", 1)
    tick(session)
    asked = {"condition": condition, "after": 1}
    assert call(session, "broker_scan", **asked) == []

    with writing_nothing(session):
        assert call(session, "broker_scan", **asked) == []


@pytest.mark.parametrize("condition", [None, '{"topic": "order"}', "e.topic = 'order'"])
def test_a_scan_waits_for_nobody_who_subscribes_with_its_condition(
    session: Session, other: Session, condition: str | None
) -> None:
    publish(session, "order", 1)
    tick(session)
    call(other, "broker_subscribe", group_name="billing", condition=condition)
    session.execute("set statement_timeout = '10s'")

    assert [row[4] for row in call(session, "broker_scan", condition=condition, after=0)] == [1]


async def test_a_stream_that_is_cut_at_random_misses_nothing_and_repeats_nothing(
    session: Session, clean_dsn: str, proxy: Callable[[str], Proxy]
) -> None:
    chance = random.Random(5)
    between = proxy(clean_dsn)
    seen: list[Any] = []
    connected = asyncio.Event()

    @asynccontextmanager
    async def looking() -> AsyncIterator[None]:
        async def look() -> None:
            async with connect(between.dsn) as platform:
                connected.set()
                async for event in platform.broker.stream("order", after=start(session)):
                    seen.append(event.payload)  # noqa: PERF401 - one by one, as they come

        task = asyncio.create_task(look())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    async with looking(), asyncio.timeout(30):
        await connected.wait()
        for number in range(60):
            fill(session, number, number)
            if chance.random() < 0.2:
                await asyncio.to_thread(between.cut)
            await asyncio.sleep(0)
        await eventually(lambda: len(seen) >= 60)

    assert seen == list(range(60))


async def test_a_stream_that_looks_at_much_and_gives_nothing_has_heartbeats(
    platform: Platform, session: Session
) -> None:
    fill(session, 1, 20)
    stream = platform.broker.stream("other", after=start(session), heartbeat=0.0)
    stream._page = 1
    item = await anext(stream.items())
    assert isinstance(item, Heartbeat)
    assert Place.parse(item.token).position == 1


async def test_where_nothing_can_be_written_a_stream_is_refused_before_the_first_event(
    session: Session, clean_dsn: str
) -> None:
    begin = start(session)
    only_reads = make_conninfo(clean_dsn, options="-c default_transaction_read_only=on")
    async with connect(only_reads) as tl:
        with pytest.raises(DatabaseError, match=r"takes only reads\. Name the primary"):
            async with tl.broker.stream():
                pass
        with pytest.raises(DatabaseError, match=r"takes only reads\. Name the primary"):
            await take(tl.broker.stream(after=begin), 1)
