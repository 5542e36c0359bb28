"""Publishing: an event is part of its transaction, whatever becomes of that."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.broker.steps import events, head, payloads, publish, tick
from tests.fixtures.asking import ask, call, refused

if TYPE_CHECKING:
    from tests.fixtures.asking import Session


def test_a_published_event_is_read_as_it_was_given(session: Session) -> None:
    event_id = publish(session, "orders.made", {"total": 5}, key="k", metadata={"by": "me"})
    assert tick(session) == 1
    (event,) = events(session)
    assert (event.position, event.event_id) == (1, event_id)
    assert (event.topic, event.key) == ("orders.made", "k")
    assert (event.payload, event.metadata) == ({"total": 5}, {"by": "me"})
    assert event.subscription is None


def test_what_is_rolled_back_leaves_no_trace(session: Session, other: Session) -> None:
    publish(other, "a", "undone")
    publish(other, "a", "later", deliver_at="2100-01-01")
    other.rollback()
    publish(session, "a", "kept")
    assert payloads(session) == ["kept"]
    assert ask(session, "select count(*) from trunkline.event_due") == 0


def test_a_batch_keeps_its_order_and_returns_its_ids(session: Session) -> None:
    topics = ["b", "a", "b", "c"]
    rows = call(
        session,
        "broker_publish_many",
        topics=topics,
        payloads=[json.dumps(n) for n in range(4)],
        keys=["x", None, "y", "x"],
    )
    tick(session)
    found = events(session)
    assert [event.event_id for event in found] == rows[0][0] == sorted(rows[0][0])
    assert [event.topic for event in found] == topics
    assert [event.payload for event in found] == [0, 1, 2, 3]
    assert [event.key for event in found] == ["x", None, "y", "x"]


@pytest.mark.parametrize("payload", [[1, [2]], "text", 1.5, None, True, {}, {"a": {"b": None}}])
def test_a_payload_is_any_json(session: Session, payload: Any) -> None:
    publish(session, "a", payload)
    assert payloads(session) == [payload]


def test_events_of_some_topics_are_read_by_position(session: Session) -> None:
    for number in range(10):
        publish(session, f"topic{number % 3}", number)
    tick(session)
    assert [event.payload for event in events(session, topics=["topic1"])] == [1, 4, 7]
    chosen = events(session, 5, topics=["topic0", "topic2", "none"], max_events=3)
    assert [(event.position, event.payload) for event in chosen] == [(6, 5), (7, 6), (9, 8)]
    assert [event.payload for event in events(session, 3, to_position=4)] == [2, 3]
    assert events(session, topics=[]) == events(session, head(session) + 1) == []


def test_a_topic_whose_tag_is_that_of_another_is_told_from_it(session: Session) -> None:
    publish(session, "wanted", 1)
    publish(session, "other", 2)
    publish(session, "wanted", 3)
    tick(session)
    same = "array_fill(hashtextextended('wanted', 0), array[3])"
    session.execute(f"update trunkline.tick set tags = {same} where sequence = 'event' and n = 3")
    found = events(session, topics=["wanted"], max_events=2)
    assert [event.payload for event in found] == [1, 3]


def test_events_are_found_in_every_slot_of_the_ring(session: Session) -> None:
    session.execute("select trunkline.config_set('ring.event.rotate_every', '1 millisecond')")
    for number in range(6):
        publish(session, "a", number)
        if number % 2:
            tick(session)
        session.execute("call trunkline.maintain()")
    slots = "select count(distinct slot) from trunkline.event"
    assert ask(session, slots) > 3
    assert payloads(session) == list(range(6))
    assert payloads(session, 4, to_position=5) == [3, 4]


def test_positions_far_apart_are_found_in_their_ticks(session: Session) -> None:
    for number in range(5):
        call(
            session,
            "broker_publish_many",
            topics=["rare", *["often"] * 150],
            payloads=[str(number)] * 151,
        )
        tick(session)
    assert [event.payload for event in events(session, topics=["rare"])] == list(range(5))


@pytest.mark.parametrize("topic", ["a\nb", "", "x" * 256, "tab\there", None])
def test_a_topic_that_cannot_be_is_refused_in_words(session: Session, topic: str | None) -> None:
    for statement in (
        "select trunkline.broker_publish(%s, '1')",
        "select trunkline.broker_publish_many(array[%s], array['1'::jsonb])",
    ):
        with refused("TL422") as caught:
            session.execute(statement, [topic])
        assert "topic" in str(caught.value)
    if topic is not None:
        with refused("TL422") as caught:
            session.execute(
                "insert into trunkline.event (topic, payload) values (%s, '1')", [topic]
            )
        assert "control character" in str(caught.value)
    assert payloads(session) == []


def test_what_cannot_be_published_is_refused_with_its_place_and_all_of_its_batch(
    session: Session,
) -> None:
    publish_many = "select trunkline.broker_publish_many({})"
    for state, words, given in (
        (
            "TL422",
            "event 2 of 2: a payload is JSON, got SQL NULL",
            "'{a,a}', array['1', null::jsonb]",
        ),
        ("TL422", "event 2 of 2: metadata", "'{a,a}', array['1', '2']::jsonb[], null, '{NULL,5}'"),
        ("TL422", "2 topics, 1 payloads", "'{a,a}', array['1']::jsonb[]"),
        ("TL422", "1 keys", "'{a,a}', array['1', '2']::jsonb[], '{k}'"),
        ("TL422", "0 topics", "null, null"),
        ("TL422", "1000 bytes", "'{a}', array['1']::jsonb[], array[repeat('k', 1001)]"),
        ("TL404", "subscription 7", "'{a}', array['1']::jsonb[], subscriptions => '{7}'"),
    ):
        with refused(state) as caught:
            session.execute(publish_many.format(given))
        assert words in str(caught.value)
    with refused("TL422") as caught:
        session.execute("select trunkline.broker_publish('a', null)")
    assert "SQL NULL" in str(caught.value)
    with refused("23502"):
        session.execute("insert into trunkline.event (topic, payload) values ('a', null)")
    assert payloads(session) == []
    assert call(session, "broker_publish_many", topics=[], payloads=[]) == [([],)]


def test_a_payload_over_the_limit_is_refused(session: Session) -> None:
    session.execute("select trunkline.config_set('broker.payload_bytes', '70000')")
    publish(session, "a", "x" * 69_900)
    with refused("TL413") as caught:
        publish(session, "a", "x" * 70_100)
    assert "70000 bytes" in str(caught.value)


def test_the_trace_of_the_caller_goes_into_metadata(session: Session, other: Session) -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    other.execute(f"set local trunkline.traceparent = '{trace}'")
    publish(other, "a")
    publish(other, "a", metadata={"by": "me"})
    publish(other, "a", metadata={"traceparent": "own"})
    other.commit()
    publish(other, "a")
    other.commit()
    tick(session)
    assert [event.metadata for event in events(session)] == [
        {"traceparent": trace},
        {"traceparent": trace, "by": "me"},
        {"traceparent": "own"},
        None,
    ]


def test_metadata_that_is_no_object_is_refused_as_it_was_given_also_with_a_trace(
    session: Session,
) -> None:
    session.execute("set trunkline.traceparent = '00-aa-bb-01'")
    for metadata in ("[1]", "5", "null"):
        with refused("TL422") as caught:
            call(session, "broker_publish", topic="a", payload="1", metadata=metadata)
        assert f"metadata is a JSON object, got {metadata}." in str(caught.value)


def test_ids_as_text_sort_by_time_and_number_and_tell_both(session: Session) -> None:
    made = session.execute(
        "select i, t, written, trunkline.event_time(written), trunkline.event_id(written)"
        " from unnest(array[1, 9, 10, 255, 9223372036854775807]) i,"
        " unnest(array['1970-01-01', '2026-11-16 12:34:56.789012', '3999-12-31 23:59:59.999999']"
        "::timestamptz[]) t, trunkline.event_id_text(i, t) written"
    ).fetchall()
    assert [row[2] for row in sorted(made, key=lambda row: (row[1], row[0]))] == sorted(
        row[2] for row in made
    )
    assert {len(row[2]) for row in made} == {32}
    assert all((row[0], row[1]) == (row[4], row[3]) for row in made)


@pytest.mark.parametrize(
    "statement",
    [
        "event_time('')",
        "event_time('pm0123')",
        "event_time('ev' || repeat('g', 30))",
        "event_time('ev' || repeat('f', 30))",
        "event_id('7')",
        "event_id('ev' || repeat('f', 30))",
        "event_id_text(0, now())",
        "event_id_text(1, '1969-12-31')",
        "event_id_text(1, 'infinity')",
    ],
)
def test_rubbish_is_not_taken_for_an_id(session: Session, statement: str) -> None:
    with refused("TL422"):
        session.execute(f"select trunkline.{statement}")


def test_the_first_event_that_no_tick_has_seen_waits_until_one_does(
    session: Session, other: Session
) -> None:
    def waits() -> bool:
        return bool(ask(session, "select trunkline.broker_unnumbered() > '0'"))

    assert not waits()
    publish(session, "a", 1)
    publish(other, "a", 2)
    assert waits()
    tick(session)
    assert not waits()  # what is not committed does not count
    other.commit()
    assert waits()
    tick(session)
    assert not waits()
    publish(session, "a", 3)
    assert waits()
