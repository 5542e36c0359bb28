"""How long events stay: until everybody has seen them, and no longer than somebody may ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.broker.steps import events, head, payloads, publish, tick
from tests.fixtures.asking import ask, refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.asking import Session


@pytest.fixture
def ring(session: Session) -> Session:
    """Whatever nobody needs leaves with the next maintenance."""
    for name, value in (
        ("ring.event.rotate_every", "1 millisecond"),
        ("ring.tick.rotate_every", "1 millisecond"),
        ("ring.cursor.rotate_every", "1 millisecond"),
        ("maintain.settle", "0"),
        ("broker.retention", "0"),
        ("broker.hold", "0"),
    ):
        session.execute("select trunkline.config_set(%s, %s)", [name, value])
    return session


def maintain(session: Session) -> None:
    for _ in range(3):
        session.execute("call trunkline.maintain()")


def matched(session: Session, up_to: int) -> None:
    """As if the matcher had seen everything up to a position."""
    session.execute(
        "select trunkline._cursor_write(cursor_id, %s, '{\"deliveries\": 0}')"
        " from trunkline.cursor_key where resource = 'broker:matcher'",
        [up_to],
    )


def stored(session: Session) -> int:
    return int(ask(session, "select count(*) from trunkline.event"))


def age(session: Session, much: str) -> None:
    """As if all that is there were older."""
    session.execute(f"update trunkline.tick set at = at - interval '{much}'")


def test_what_is_not_numbered_stays_even_when_nobody_numbers(ring: Session) -> None:
    publish(ring, "a", 1)
    maintain(ring)
    assert payloads(ring) == [1]


def test_what_the_matcher_has_not_seen_stays_without_limit(ring: Session) -> None:
    for number in range(4):
        publish(ring, "a", number)
        tick(ring)
        maintain(ring)
    age(ring, "10 years")
    maintain(ring)
    assert payloads(ring) == [0, 1, 2, 3]
    matched(ring, 2)
    maintain(ring)
    assert payloads(ring, 3) == [2, 3]
    assert stored(ring) == 2


def test_what_a_forwarder_has_not_seen_stays_without_limit(ring: Session) -> None:
    ring.execute("select trunkline._cursor_write(trunkline._cursor_ensure('broker:forward:7'), 1)")
    for number in range(3):
        publish(ring, "a", number)
        tick(ring)
        maintain(ring)
    matched(ring, 3)
    age(ring, "10 years")
    maintain(ring)
    assert payloads(ring, 2) == [1, 2]


def test_a_topic_of_the_log_for_which_nothing_comes_keeps_no_event_of_others(
    ring: Session,
) -> None:
    ring.execute("select trunkline.log_create('rare')")
    publish(ring, "order", 1)
    tick(ring)
    matched(ring, 1)

    maintain(ring)

    assert stored(ring) == 0


def test_what_everybody_has_seen_leaves_after_the_retention(ring: Session) -> None:
    ring.execute("select trunkline.config_set('broker.retention', '1 hour')")
    for number in range(3):
        publish(ring, "a", number)
        tick(ring)
        maintain(ring)
    matched(ring, 3)
    age(ring, "50 minutes")
    maintain(ring)
    assert payloads(ring) == [0, 1, 2]
    age(ring, "20 minutes")
    publish(ring, "a", "young")
    tick(ring)
    matched(ring, 4)
    maintain(ring)
    assert payloads(ring, 4) == ["young"]
    assert stored(ring) == 1


def test_a_position_that_has_left_is_refused_with_the_first_one_there_is(ring: Session) -> None:
    for number in range(5):
        publish(ring, "a", number)
        tick(ring)
        maintain(ring)
    matched(ring, 3)
    maintain(ring)
    with refused("TL410") as caught:
        events(ring, 2)
    assert "from 4 on all are there" in str(caught.value)
    assert [event.payload for event in events(ring, 4)] == [3, 4]
    assert head(ring) == 5


def test_ticks_that_have_left_are_noticed_also_when_no_event_of_the_topic_was_there(
    ring: Session,
) -> None:
    publish(ring, "other", 1)
    tick(ring)
    matched(ring, 1)
    maintain(ring)
    publish(ring, "wanted", 2)
    tick(ring)
    matched(ring, 2)
    maintain(ring)
    with refused("TL410"):
        events(ring, 1, topics=["wanted"])


def test_the_first_tick_since_a_time_is_found_by_halves(session: Session) -> None:
    for number in range(9):
        publish(session, "a", number)
        publish(session, "a", number)
        tick(session)
    session.execute(
        "update trunkline.tick set at = '2026-01-01'::timestamptz + tick * interval '1 minute'"
    )
    session.execute("delete from trunkline.tick where sequence = 'event' and tick in (4, 5)")
    found = session.execute(
        "select m, trunkline._tick_first_since('event',"
        " '2026-01-01'::timestamptz + m * interval '1 minute') from generate_series(0, 10) m"
    ).fetchall()
    firsts = [1, 1, 3, 5, 11, 11, 11, 13, 15, 17, None]
    assert found == list(enumerate(firsts))
    assert ask(session, "select trunkline._tick_first_since('nothing', now())") is None


def test_a_reader_is_not_led_past_events_that_leave_under_it(
    ring: Session, connect: Callable[..., Any]
) -> None:
    """Whoever is within the range either gets all of it or is told."""
    for number in range(4):
        publish(ring, "a" if number % 2 else "b", number)
        tick(ring)
        maintain(ring)
    matched(ring, 2)
    maintain(ring)
    with refused("TL410"):
        events(ring, 1, topics=["a"])
    assert [event.payload for event in events(ring, 3, topics=["a"])] == [3]
