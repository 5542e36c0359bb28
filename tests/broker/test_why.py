"""What became of an event, hop by hop."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tests.broker.groups import Member, match, read, subscribe
from tests.broker.steps import publish, tick
from tests.fixtures.asking import ask, call, refused, writing_nothing
from tests.log.archiving import add, drop_archived
from tests.log.steps import TOPIC, seal, segments

if TYPE_CHECKING:
    from tests.fixtures.asking import Session


def why(session: Session, event: int) -> list[tuple[str, str]]:
    return [(hop, state) for hop, state, _, _ in call(session, "broker_why", event_id=event)]


def test_each_hop_of_an_event_is_told_as_it_happens(session: Session) -> None:
    subscribe(session, condition={"topic": "orders"})
    member = Member(session, handler="bill")
    member.join()
    event = publish(session, "orders", 1, key="k")
    assert why(session, event) == [("published", "done"), ("numbered", "waits")]
    tick(session)
    before = [("published", "done"), ("numbered", "done")]
    assert why(session, event) == [*before, ("matched", "waits")]
    match(session)
    assert why(session, event) == [*before, ("matched", "done"), ("handled", "waits")]
    member.commit_all()
    with writing_nothing(session):
        assert why(session, event) == [*before, ("matched", "done"), ("handled", "done")]


def test_an_event_that_nobody_asked_for_is_told_as_matched_to_none(session: Session) -> None:
    event = publish(session, "orders", 1)
    match(session)
    hops = call(session, "broker_why", event_id=event)
    assert hops[-1][:2] == ("matched", "done")
    assert hops[-1][3] == "to 0 subscriptions"


def test_one_that_waits_for_its_time_says_until_when(session: Session) -> None:
    due = datetime.now(UTC) + timedelta(hours=1)
    event = publish(session, "orders", 1, deliver_at=due)
    ((hop, state, at, _),) = call(session, "broker_why", event_id=event)
    assert (hop, state, at) == ("published", "waits", due)


def test_where_it_failed_is_told_with_the_error(session: Session) -> None:
    subscribe(session, condition={"topic": "orders"})
    member = Member(session, handler="bill")
    shares = {share.lane: share.epoch for share in member.join()}
    event = publish(session, "orders", 1, key="k")
    match(session)
    (waiting,) = read(session, handler="bill")
    call(
        session,
        "broker_fail",
        group_name="billing",
        handler="bill",
        lane=waiting.lane,
        epoch=shares[waiting.lane],
        deliveries=[waiting.up_to],
        error="no such customer",
    )
    hops = call(session, "broker_why", event_id=event)
    assert hops[-1][:2] == ("handled", "dead")
    assert "no such customer" in hops[-1][3]


def test_forwarding_into_the_log_and_who_consumed_it_there_is_told(session: Session) -> None:
    call(session, "log_create", topic="orders", partitions=3)
    partition = ask(session, "select trunkline.log_partition_of('k', 3)")
    publish(session, "orders", 0, key="k")
    event = publish(session, "orders", 1, key="k")
    tick(session)
    assert ("forwarded", "waits") in why(session, event)
    call(session, "broker_forward", topic="orders")
    hops = call(session, "broker_why", event_id=event)
    assert hops[-1][:2] == ("forwarded", "done")
    assert hops[-1][3].endswith(f"partition {partition}, offset 2")
    claim = {"topic": "orders", "group_name": "lake", "partition": partition, "max_messages": 1}
    for state in ("waits", "done"):
        call(session, "log_claim", **claim)
        assert why(session, event)[-1] == ("consumed", state)


def test_an_event_whose_message_is_archived_is_told_as_forwarded(session: Session) -> None:
    call(session, "log_create", topic=TOPIC, archive=True)
    event = publish(session, TOPIC, 1, key="k")
    tick(session)
    call(session, "broker_forward", topic=TOPIC)
    seal(session)
    add(session, 1, 1)
    drop_archived(session)
    assert segments(session) == [(2, None)]
    assert ("forwarded", "done") in why(session, event)


def test_an_event_that_nothing_is_known_of_is_refused(session: Session) -> None:
    for event in (99, None):
        with refused("TL404"):
            call(session, "broker_why", event_id=event)


def test_one_whose_transaction_is_open_is_not_known_yet(session: Session, other: Session) -> None:
    event = publish(other, "orders", json.dumps("x"))
    with refused("TL404"):
        why(session, event)
    other.commit()
    assert why(session, event)[0] == ("published", "done")
