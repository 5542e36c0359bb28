"""The matcher as a service: time limits, history, wake-ups."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.broker.groups import match, quarantined, read, subscribe
from tests.broker.steps import publish, tick
from tests.broker.test_matching import ENDLESS, SLOW
from tests.fixtures.asking import call

from trunkline import connect
from trunkline.broker.matcher import BrokerMatcher
from trunkline.core.service import Loop
from trunkline.testing import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.fixtures.asking import Session

    from trunkline.platform import Platform


@pytest.fixture
async def platform(clean_dsn: str) -> AsyncIterator[Platform]:
    async with connect(clean_dsn) as opened:
        yield opened


@pytest.fixture
async def matcher(platform: Platform) -> AsyncIterator[BrokerMatcher]:
    (service,) = [one for one in platform.broker.services() if isinstance(one, BrokerMatcher)]
    yield service
    await service.close()


def limit(session: Session, time: str) -> None:
    call(session, "config_set", name="broker.condition_timeout", value=time)


async def drain(matcher: BrokerMatcher) -> None:
    while await matcher.run_once():
        pass


async def test_a_condition_that_sleeps_in_a_regular_expression_harms_only_itself(
    session: Session, matcher: BrokerMatcher
) -> None:
    limit(session, "200 milliseconds")
    slow = [subscribe(session, f"slow {number}", SLOW) for number in range(2)]
    subscribe(session, "quick")
    for text in ("short", ENDLESS, "short"):
        publish(session, "order", {"text": text})
    tick(session)
    told = matcher.quarantined.wait()

    await drain(matcher)

    assert await told == 2
    assert len(read(session, "quick")) == 3
    for number in slow:
        error, _ = quarantined(session, number) or ("", 0)
        assert "broker.condition_timeout" in error


async def test_a_slow_condition_over_the_history_harms_only_itself(
    session: Session, matcher: BrokerMatcher
) -> None:
    limit(session, "200 milliseconds")
    subscribe(session, "quick")
    publish(session, "order", {"text": ENDLESS})
    match(session)
    slow = subscribe(session, "slow", SLOW, from_position=1)
    late = subscribe(session, "late", from_position=1)

    await drain(matcher)

    assert quarantined(session, slow) is not None
    assert quarantined(session, late) is None
    assert len(read(session, "late")) == 1


async def test_a_round_that_takes_too_long_for_its_size_is_done_in_smaller_ones(
    session: Session, matcher: BrokerMatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trunkline.broker.matcher._FEW", 1)
    limit(session, "1 second")
    tedious = r"e.payload ->> 'text' !~ '^(.*)(.*)\1\2$'"  # far less than a second for each
    number = subscribe(session, "tedious", tedious)
    for _ in range(15):
        publish(session, "order", {"text": "x" * 201})
    tick(session)

    await drain(matcher)

    assert quarantined(session, number) is None
    assert len(read(session, "tedious")) == 15


async def test_conditions_that_take_long_only_together_are_all_served(
    session: Session, matcher: BrokerMatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trunkline.broker.matcher._FEW", 1)
    limit(session, "300 milliseconds")
    tedious = r"e.payload ->> 'text' !~ '^(.*)(.*)\1\2$'"
    groups = [f"tedious {number}" for number in range(12)]
    for group in groups:
        subscribe(session, group, f"{tedious} or e.topic = '{group}'")
    publish(session, "order", {"text": "x" * 201})
    tick(session)

    await drain(matcher)

    assert [len(read(session, group)) for group in groups] == [1] * len(groups)


@pytest.mark.parametrize("late", [False, True])
async def test_no_condition_is_blamed_for_events_that_take_long_to_read(
    session: Session, matcher: BrokerMatcher, late: bool
) -> None:
    limit(session, "150 milliseconds")
    if not late:
        number = subscribe(session, "innocent", "e.payload ->> 'text' <> 'x'")
        slow = subscribe(session, "slow", SLOW)
    session.execute(
        "insert into trunkline.event (topic, payload)"
        " select 'order', jsonb_build_object('text', repeat('xy', 1000000))"
        " from generate_series(1, 100)"
    )
    publish(session, "order", {"text": ENDLESS})
    tick(session)
    if late:
        match(session)
        number = subscribe(session, "innocent", "e.payload ->> 'text' <> 'x'", from_position=1)
        slow = subscribe(session, "slow", SLOW, from_position=101)

    await drain(matcher)

    assert quarantined(session, number) is None
    assert quarantined(session, slow) is not None
    assert len(read(session, "innocent")) == 101


async def test_after_few_events_the_matcher_waits_for_a_tick_and_after_many_it_goes_on(
    session: Session, matcher: BrokerMatcher
) -> None:
    subscribe(session)
    for number, waits in ((1, True), (1_000, False), (2, True)):
        session.execute(
            "select trunkline.broker_publish('order', '1') from generate_series(1, %s)", [number]
        )
        tick(session)
        assert await matcher.run_once() == number
        assert (matcher.pause > 0) is waits


async def test_a_tick_wakes_the_matcher(session: Session, matcher: BrokerMatcher) -> None:
    matcher.interval = 60
    subscribe(session)
    stop = asyncio.Event()
    loop = Loop(matcher)
    running = asyncio.create_task(loop.run(stop))
    for _ in range(9):  # until it waits for long
        await loop.ran.wait()
        matcher.wake.set()

    publish(session, "order", "woken")
    tick(session)

    await eventually(lambda: len(read(session)) == 1)
    stop.set()
    matcher.wake.set()
    await running


@pytest.mark.soak
def test_an_event_that_postgres_cannot_write_as_json_keeps_no_slow_condition_from_being_found(
    session: Session,
) -> None:
    session.execute(  # 130 kB in the table, 1 GB as text
        "insert into trunkline.event (topic, payload)"
        " select 'order', jsonb_agg('1e131071'::jsonb) from generate_series(1, 8200)"
    )
    tick(session)

    session.execute("select trunkline._match_weigh(100, false)")
