"""What leaves before a group has read it: noted with the group, and told to everybody who asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from tests.broker.groups import Member, last_delivery, match, read, received, subscribe
from tests.broker.steps import publish, tick
from tests.fixtures.asking import ask, call, refused

if TYPE_CHECKING:
    from datetime import datetime

    from tests.fixtures.asking import Session

TRIMMED = "trunkline.group.trimmed"


class Losses(NamedTuple):
    """What `broker_groups` says about what a group has lost."""

    lost: int
    first: int | None
    last: int | None
    at: datetime | None


@pytest.fixture
def brief(session: Session) -> Session:
    """Nothing is kept for anybody: what is matched leaves when the rings move on."""
    for name in ("event", "delivery", "tick", "cursor"):
        configure(session, f"ring.{name}.rotate_every", "1 millisecond")
    configure(session, "maintain.settle", "0")
    configure(session, "broker.retention", "0")
    configure(session, "broker.hold", "0")
    return session


def configure(session: Session, name: str, value: str) -> None:
    call(session, "config_set", name=name, value=value)


def rotate(session: Session) -> None:
    """Let the rings move on, and what nobody needs leave."""
    for _ in range(2):
        while ask(session, "select trunkline.rings_rotate()"):
            pass


def spend(session: Session, *payloads: Any, topic: str = "order") -> None:
    """Publish and match events, and let them leave."""
    for number, payload in enumerate(payloads):
        publish(session, topic, payload, key=f"k{number}")
    match(session)
    rotate(session)


def losses(session: Session, group: str = "billing") -> Losses:
    (row,) = session.execute(
        "select lost, lost_first, lost_last, lost_at from trunkline.broker_groups()"
        " where group_name = %s",
        [group],
    )
    return Losses(*row)


def told(session: Session) -> list[Any]:
    """What the events say that were published about losses and are still there."""
    rows = session.execute(
        "select payload from trunkline.event where topic = %s order by seq", [TRIMMED]
    )
    return [row[0] for row in rows]


def test_the_first_reader_of_a_group_is_told_what_left_before_it_came(brief: Session) -> None:
    subscribe(brief, condition={"topic": "order"})
    spend(brief, 1, 2, 3)

    for given in ({}, {"handler": "new"}, {"peek": True}):
        with refused("TL410") as caught:
            read(brief, **given)
        assert "deliveries 1 to 3" in str(caught.value)
        assert '"first": 4' in str(caught.value.diag.message_detail)
        assert str(caught.value.diag.message_hint).endswith("from_position => 4.")
    assert ask(brief, "select count(*) from trunkline.broker_handler") == 0

    configure(brief, "broker.hold", "1 day")
    publish(brief, "order", "new")
    assert received(brief, from_position=4) == ["new"]
    assert received(brief) == received(brief, handler="another") == ["new"]


def test_a_member_that_joins_late_stands_before_what_left_and_is_told(brief: Session) -> None:
    subscribe(brief)
    spend(brief, 1)
    spend(brief, 2)
    lanes = Member(brief).join()

    assert {share.up_to for share in lanes} == {0}
    with refused("TL410") as caught:
        call(brief, "broker_fetch", group_name="billing", handler="", lanes=[0], after=[0])
    first = ask(brief, "select trimmed_to from trunkline.broker_groups()") + 1
    assert f'"first": {first}' in str(caught.value.diag.message_detail)

    call(brief, "broker_seek", group_name="billing", up_to=first - 1)
    another = Member(brief, handler="another").join()
    assert {share.up_to for share in another} == {first - 1}


def test_who_joins_when_nothing_of_the_group_has_left_is_told_nothing(brief: Session) -> None:
    subscribe(brief, "others")
    spend(brief, 1, 2)
    subscribe(brief, "late", {"topic": "rare"})
    subscribe(brief, "diligent", {"topic": "order"}, handler="all")
    publish(brief, "order", 3)
    match(brief)
    Member(brief, "diligent", "all").commit_all()
    rotate(brief)

    assert losses(brief, "others").lost > 2
    for group in ("late", "diligent"):
        assert losses(brief, group) == (0, None, None, None)
        assert read(brief, group, handler="new") == []


def test_what_a_group_has_not_read_is_counted_handler_by_handler(brief: Session) -> None:
    call(brief, "broker_group", group_name="billing", lanes=1)
    subscribe(brief, condition={"topic": "order"}, handler="orders")
    subscribe(brief, condition={"topic": "visit"}, handler="visits")
    for topic in ("order", "visit", "visit", "order", "visit", "neither"):
        publish(brief, topic)
    match(brief)
    Member(brief, handler="orders").commit_all()
    orders = ask(brief, "select max(up_to) from trunkline.broker_lag() where handler = 'orders'")
    (share,) = (visits := Member(brief, handler="visits")).join()
    visits.commit(share.lane, share.epoch, read(brief, handler="visits")[0].up_to)
    rotate(brief)

    found = losses(brief)

    assert (found.lost, found.first, found.last) == (2, 3, 5)
    assert call(brief, "broker_lost") == [("billing", 2)]
    assert orders == 4
    assert told(brief) == [
        {"group": "billing", "lasting": True, "lost": 2, "first": "3", "last": "5"}
    ]


def test_an_event_tells_of_a_loss_once_however_often_the_slot_is_looked_at(brief: Session) -> None:
    configure(brief, "maintain.settle", "1 hour")
    subscribe(brief, condition={"topic": "order"})
    subscribe(brief, "watch", {"topic": TRIMMED}, handler="ops")
    spend(brief, 1, 2)
    before = losses(brief)
    rotate(brief)
    configure(brief, "maintain.settle", "0")
    rotate(brief)

    assert losses(brief) == before
    assert before.lost == 2
    configure(brief, "broker.hold", "1 day")
    (note,) = received(brief, "watch", handler="ops")
    assert (note["group"], note["lost"]) == ("billing", 2)

    configure(brief, "broker.hold", "0")
    spend(brief, 3)
    after = losses(brief)
    assert after.lost == 3
    assert (after.first, after.last) == (last_delivery(brief), last_delivery(brief))


def test_events_about_losses_that_are_lost_are_not_told_of_for_ever(brief: Session) -> None:
    subscribe(brief, "all")
    subscribe(brief, "too")
    spend(brief, 1)
    for _ in range(5):
        match(brief)
        rotate(brief)

    assert ask(brief, "select last_value from trunkline.event_seq") == 3
    assert losses(brief, "all").lost == losses(brief, "too").lost == 3
    assert ask(brief, "select count(*) from trunkline.event") == 0


def test_events_stay_as_long_as_deliveries_that_wait_for_a_lasting_group(brief: Session) -> None:
    configure(brief, "ring.delivery.rotate_every", "1 day")
    subscribe(brief, handler="slow")
    spend(brief, 1, 2, 3)
    assert sorted(received(brief, handler="slow")) == [1, 2, 3]
    assert losses(brief).lost == 0


def test_a_subscription_that_stood_still_too_long_goes_on_and_an_event_tells_what_it_missed(
    brief: Session,
) -> None:
    subscribe(brief, "audit", {"topic": "trunkline.subscription.trimmed"})
    for payload in (1, 2, 3):
        publish(brief, "order", payload)
    tick(brief)
    late = subscribe(brief, condition={"topic": "order"}, from_position=2)
    call(brief, "broker_match")
    rotate(brief)
    assert ask(brief, "select count(*) from trunkline.event where topic = 'order'") == 0

    configure(brief, "broker.hold", "1 day")
    publish(brief, "order", "new")
    assert received(brief) == ["new"]
    expected = {"group": "billing", "subscription": str(late), "first": "2", "last": "3"}
    assert received(brief, "audit") == [expected]
