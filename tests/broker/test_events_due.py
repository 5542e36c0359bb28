"""Events that wait for their time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from tests.broker.steps import events, payloads, publish, tick
from tests.fixtures.asking import ask, call, column, refused

from trunkline.broker import services
from trunkline.broker.services import BrokerSequencer
from trunkline.core.db import AsyncDb
from trunkline.core.service import Loop

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest
    from tests.fixtures.asking import Session

    from trunkline.core.calls import Call

T = TypeVar("T")


def release(session: Session, **given: int) -> int:
    return int(call(session, "broker_release", **given)[0][0])


def pass_time(session: Session, much: str) -> None:
    """As if it had passed."""
    session.execute(f"update trunkline.event_due set deliver_at = deliver_at - interval '{much}'")


def test_an_event_is_not_there_before_its_time_and_keeps_its_id(session: Session) -> None:
    at = datetime.now(UTC) + timedelta(hours=1)
    due = publish(session, "a", "due", deliver_at=at, key="k", metadata={"m": 1})
    now = publish(session, "a", "now")
    assert release(session) == 0
    assert payloads(session) == ["now"]
    assert call(session, "broker_next_due") == [(at,)]
    pass_time(session, "1 hour")
    assert release(session) == 1
    tick(session)
    first, second = events(session)
    assert (first.event_id, second.event_id) == (now, due)
    assert (second.payload, second.key, second.metadata) == ("due", "k", {"m": 1})
    assert call(session, "broker_next_due") == [(None,)]


def test_a_time_that_has_passed_means_now(session: Session) -> None:
    publish(session, "a", "long ago", deliver_at="1999-12-31")
    publish(session, "a", "never began", deliver_at="-infinity")
    assert payloads(session) == ["long ago", "never began"]


def publish_due(session: Session, topic: str, *keys: str) -> None:
    """Publish events of keys, with the key as payload, whose time has come since."""
    for key in keys:
        publish(session, topic, key, key=key, deliver_at=datetime.now(UTC) + timedelta(hours=1))
    pass_time(session, "1 hour")


def test_a_due_event_of_a_locked_key_comes_after_who_published_before_it(
    session: Session, other: Session
) -> None:
    session.execute("set lock_timeout = '5s'")
    call(session, "broker_topic", topic="account", key_order="locked")
    publish_due(session, "account", "alice", "bob")
    publish_due(session, "a", "alice")
    publish(other, "account", "before", key="alice")

    assert release(session) == 2
    assert payloads(session) == ["bob", "alice"]

    other.commit()
    publish(session, "account", "after", key="bob")
    assert release(session) == 1
    assert payloads(session)[2:] == ["before", "after", "alice"]


def test_of_two_who_release_events_of_a_locked_key_one_works(
    session: Session, other: Session
) -> None:
    session.execute("set lock_timeout = '5s'")
    call(session, "broker_topic", topic="account", key_order="locked")
    for payload in ("first", "second"):
        later = datetime.now(UTC) + timedelta(hours=1)
        publish(session, "account", payload, key="k", deliver_at=later)
    pass_time(session, "1 hour")

    assert release(other, max_events=1) == 1
    assert release(session) == 0

    other.commit()
    assert release(session) == 1
    assert payloads(session) == ["first", "second"]


def test_events_of_very_many_locked_keys_are_released_in_parts(session: Session) -> None:
    call(session, "broker_topic", topic="account", key_order="locked")
    publish_due(session, "account", *(f"k{number}" for number in range(1200)))

    assert [release(session) for _ in range(3)] == [1000, 200, 0]


def test_due_events_of_locked_keys_come_after_a_large_batch_that_is_open(
    session: Session, other: Session
) -> None:
    session.execute("set lock_timeout = '5s'")
    call(session, "broker_topic", topic="account", key_order="locked")
    publish_due(session, "account", "1", "2")
    other.execute(
        "select trunkline.broker_publish_many(array_agg('account'::text),"
        " array_agg(to_jsonb(n)), array_agg(n::text)) from generate_series(1, 2000) n"
    )
    assert release(session) == 0

    other.commit()
    assert release(session) == 2
    assert payloads(session)[1999:] == [2000, "1", "2"]


def test_an_event_may_wait_for_ten_years(session: Session) -> None:
    at = datetime.now(UTC) + timedelta(days=3650)
    publish(session, "a", "later", deliver_at=at)
    assert release(session) == 0
    pass_time(session, "3650 days")
    assert release(session) == 1
    assert payloads(session) == ["later"]


def test_no_event_waits_for_ever(session: Session) -> None:
    with refused("TL422") as caught:
        publish(session, "a", deliver_at="infinity")
    assert "infinity" in str(caught.value)


def test_a_batch_mixes_events_of_now_and_later(session: Session) -> None:
    (ids,) = call(
        session,
        "broker_publish_many",
        topics=["a"] * 4,
        payloads=["0", "1", "2", "3"],
        deliver_ats=[
            None,
            datetime(2100, 1, 1, tzinfo=UTC),
            None,
            datetime(1999, 1, 1, tzinfo=UTC),
        ],
    )[0]
    tick(session)
    assert [(event.event_id, event.payload) for event in events(session)] == [
        (ids[0], 0),
        (ids[2], 2),
        (ids[3], 3),
    ]
    assert column(session, "select event_id from trunkline.event_due") == [ids[1]]


def test_due_events_come_in_the_order_of_their_times(session: Session) -> None:
    for number, hours in enumerate([3, 1, 2, 1]):
        at = datetime(2100, 1, 1, hours, tzinfo=UTC)
        publish(session, "a", number, deliver_at=at)
    pass_time(session, "200 years")
    assert release(session, max_events=1) == 1
    assert release(session) == 3
    assert payloads(session) == [1, 3, 2, 0]


def test_due_events_are_released_once_by_any_number(
    session: Session, connect: Callable[..., Session]
) -> None:
    for number in range(10):
        publish(session, "a", number, deliver_at="2100-01-01")
    pass_time(session, "200 years")
    first, second = connect(autocommit=False), connect()
    assert release(first, max_events=4) == 4
    second.execute("set lock_timeout = '1ms'")
    assert release(second) == 6
    first.rollback()
    assert release(second) == 4
    assert sorted(payloads(session)) == list(range(10))


async def test_the_sequencer_releases_on_time_and_numbers_what_is_there(
    clean_dsn: str, session: Session
) -> None:
    db = AsyncDb(clean_dsn)
    service = BrokerSequencer(db)
    loop, stop = Loop(service), asyncio.Event()
    assert (service.interval, service.pause) <= (0.05, 0.005)
    at = datetime.now(UTC) + timedelta(seconds=0.3)
    publish(session, "a", "due", deliver_at=at)
    publish(session, "a", "now")
    worked = loop.ran.wait(lambda done: done == 1)
    running = asyncio.create_task(loop.run(stop))
    await worked
    assert [event.payload for event in events(session)] == ["now"]
    await loop.ran.wait(lambda done: done == 2)
    now = ask(session, "select clock_timestamp()")
    stop.set()
    await running
    await db.close()
    assert [event.payload for event in events(session)] == ["now", "due"]
    assert timedelta(0) <= now - at < timedelta(seconds=2)


async def test_the_sequencer_numbers_at_once_what_is_little_and_less_often_what_is_much(
    clean_dsn: str, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "_REST", 0.0)
    pauses = await _pauses(AsyncDb(clean_dsn), session, 1, 10, 1_000)
    assert 0 < pauses[0] < pauses[1] < pauses[2] < 0.05


class SlowDb(AsyncDb):
    """A server that is short of cores."""

    async def run(self, call: Call[T], **options: Any) -> T:
        await asyncio.sleep(0.008)
        return await super().run(call, **options)


async def test_the_sequencer_rests_for_longer_where_a_tick_takes_long(
    clean_dsn: str, session: Session
) -> None:
    (pause,) = await _pauses(SlowDb(clean_dsn), session, 1)
    assert 0.016 <= pause < 0.05


async def _pauses(db: AsyncDb, session: Session, *numbers: int) -> list[float]:
    service = BrokerSequencer(db)
    pauses = []
    for number in numbers:
        session.execute(
            "select trunkline.broker_publish('a', '1') from generate_series(1, %s)", [number]
        )
        assert await service.run_once() == number
        pauses.append(service.pause)
    await db.close()
    return pauses
