"""A reader that keeps its position elsewhere says where it is."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.broker.groups import Member, last_delivery, match, received, subscribe
from tests.broker.steps import publish
from tests.fixtures.asking import ask, call, called, refused, writing_nothing

if TYPE_CHECKING:
    from tests.fixtures.asking import Session

READER = {"group_name": "lake", "handler": "spark"}


@pytest.fixture
def lake(session: Session) -> Session:
    """A group with a reader of its own, for whom three events wait in two lanes."""
    subscribe(session, "lake", handler="spark", lanes=2)
    for key in ("a", "b", "c"):
        publish(session, "order", key, key=key)
    match(session)
    return session


def progress(session: Session, up_to: int | None) -> None:
    call(session, "broker_progress", **READER, up_to=up_to)


def waiting(session: Session) -> int:
    return sum(row["waiting"] for row in called(session, "broker_lag", group_name="lake"))


def test_a_reader_that_is_elsewhere_is_seen_and_may_go_back(lake: Session) -> None:
    assert waiting(lake) == 3
    progress(lake, 2)
    assert waiting(lake) == 1
    with writing_nothing(lake):
        progress(lake, 2)
    progress(lake, 0)
    assert sorted(received(lake, "lake", handler="spark")) == ["a", "b", "c"]


def test_what_it_has_not_read_stays_until_it_has(lake: Session) -> None:
    for name, value in (("maintain.settle", "0"), ("broker.retention", "0")):
        call(lake, "config_set", name=name, value=value)
    lake.execute("update trunkline.config set value = '1 ms' where name like 'ring.%.rotate_every'")
    left = "select count(*) from trunkline.event"
    for reached, there in ((2, 3), (3, 0)):
        progress(lake, reached)
        for _ in range(3):
            lake.execute("call trunkline.maintain()")
        assert ask(lake, left) == there


def test_a_group_whose_reader_is_elsewhere_is_not_abandoned(lake: Session) -> None:
    call(lake, "config_set", name="broker.abandoned_after", value="30 days")
    for away, kept in ((timedelta(days=2), True), (timedelta(days=4), False)):
        lake.execute(
            "update trunkline.broker_group set idle_since = clock_timestamp() - %s", [away]
        )
        progress(lake, 1)
        assert ask(lake, "select idle_since is not null from trunkline.broker_group") is kept


def test_what_makes_no_sense_is_refused(lake: Session) -> None:
    assert last_delivery(lake) == 3
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"group_name": "nobody"}, "TL404"),
        ({"handler": "nobody"}, "TL404"),
        ({"handler": None}, "TL404"),
        ({"up_to": None}, "TL422"),
        ({"up_to": -1}, "TL422"),
        ({"up_to": 4}, "TL422"),
        ({"up_to": 2**63 - 1}, "TL422"),
    ]
    for given, state in wrong:
        with refused(state):
            call(lake, "broker_progress", **{**READER, "up_to": 1, **given})


def test_a_handler_that_somebody_works_on_is_not_moved(lake: Session) -> None:
    Member(lake, "lake", "spark").join()
    with refused("TL409") as caught:
        progress(lake, 1)
    assert "has a living member" in str(caught.value)
