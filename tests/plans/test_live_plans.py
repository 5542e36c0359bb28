"""Watched and live tables: what is done for a row does not grow with the rows beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.broker.steps import head, tick
from tests.live.steps import contacts, lease, subscribe
from tests.plans.explaining import Plans, nodes

if TYPE_CHECKING:
    from tests.fixtures.asking import Session

MANY = 500


@pytest.fixture
def session(explaining: Session) -> Session:
    contacts(explaining)
    return explaining


def handled(plans: Plans) -> float:
    """The rows that all nodes of all plans gave, or looked at in vain."""
    return sum(_rows(node) for plan in plans.found for node in nodes(plan["Plan"]))


def _rows(node: dict[str, Any]) -> float:
    removed = sum(value for name, value in node.items() if name.startswith("Rows Removed"))
    return float((node.get("Actual Rows", 0) + removed) * node.get("Actual Loops", 1))


def test_a_session_that_has_updated_single_rows_updates_many_without_comparing_each_with_each(
    session: Session,
) -> None:
    session.execute("insert into contacts select n, 7 from generate_series(1, %s) n", [MANY])
    for _ in range(8):  # until plans are kept
        session.execute("update contacts set org_id = org_id + 1 where id = 1")
    with Plans(session) as plans:
        session.execute("update contacts set org_id = org_id + 1")
    assert handled(plans) < MANY * 60


@pytest.mark.parametrize("before", [0, 8])
def test_a_read_looks_at_each_event_and_each_subscription_that_it_fits_once(
    session: Session, before: int
) -> None:
    """Also in a session that has planned for hardly any."""
    process = lease(session)
    subscribe(session, {"org_id": 0}, process=process)
    read = "select * from trunkline.live_read(%s, process => %s)"
    for number in range(before):
        session.execute(f"insert into contacts values ({-1 - number}, 0)")
        tick(session)
        session.execute(read, [head(session) - 1, process])
    for org in range(1, MANY):
        subscribe(session, {"org_id": org}, process=process)
    after = head(session)
    session.execute("insert into contacts select n, n from generate_series(1, %s) n", [MANY])
    tick(session)
    with Plans(session) as plans:
        found = session.execute(read, [after, process]).fetchall()
    assert len(found) == MANY
    assert handled(plans) < MANY * 60
