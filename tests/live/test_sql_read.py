"""Reading: what subscriptions of a process, or one, are told, from any place in the history."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tests.broker.steps import head, tick
from tests.broker.test_reading import age, rotate
from tests.fixtures.asking import ask, call, called, refused, writing_nothing
from tests.live.steps import Reading, contacts, lease, subscribe

if TYPE_CHECKING:
    from tests.fixtures.asking import Session


def test_entering_and_leaving_a_condition_can_be_told_from_an_update(session: Session) -> None:
    contacts(session)
    reading = Reading(session, subscribe(session, {"org_id": 7}))
    for statement in (
        "insert into contacts values (1, 7), (2, 8)",
        "update contacts set name = 'x'",
        "update contacts set org_id = 15 - org_id",
        "delete from contacts",
        "truncate contacts",
    ):
        session.execute(statement)
    assert reading.new() == [
        ("insert", False, True),
        ("update", True, True),
        ("update", True, False),
        ("update", False, True),
        ("delete", True, False),
        ("truncate", False, False),
    ]


def test_one_read_serves_all_subscriptions_of_a_process(session: Session) -> None:
    contacts(session)
    process, other = lease(session), lease(session)
    numbers = [subscribe(session, {"org_id": org}, process=process) for org in (7, 8, 8)]
    subscribe(session, {"org_id": 8}, process=other)
    tick(session)
    before = head(session)
    session.execute("insert into contacts values (1, 7), (2, 8), (3, 9)")
    tick(session)
    rows = called(session, "live_read", after=before, process=process).fetchall()
    assert [(row["up_to"], sorted(row["subscriptions"] or [])) for row in rows] == [
        (before + 1, numbers[:1]),
        (before + 2, numbers[1:]),
        (before + 3, []),
    ]


def test_only_the_changes_that_were_asked_for_come(session: Session) -> None:
    contacts(session)
    reading = Reading(session, subscribe(session, changes=["deleted"]))
    session.execute("insert into contacts values (1, 7); update contacts set org_id = 8")
    session.execute("delete from contacts")
    assert reading.new() == [("delete", True, False)]


def test_reading_writes_nothing(session: Session) -> None:
    contacts(session)
    reading = Reading(session, subscribe(session))
    session.execute("insert into contacts values (1, 7)")
    tick(session)
    with writing_nothing(session):
        assert len(call(session, "live_read", after=0, subscription=reading.subscription)) > 0


def test_a_read_goes_on_where_the_last_one_ended(session: Session) -> None:
    contacts(session)
    number = subscribe(session, {"org_id": 7})
    session.execute("insert into contacts select n, 7 from generate_series(1, 25) n")
    session.execute("insert into contacts select n, 8 from generate_series(26, 50) n")
    tick(session)
    seen: list[int] = []
    place, reads = 0, 0
    while rows := called(
        session, "live_read", after=place, subscription=number, max_events=7
    ).fetchall():
        seen += [row["new_row"]["id"] for row in rows if row["operation"]]
        place, reads = rows[-1]["up_to"], reads + 1
    assert seen == list(range(1, 26))
    assert (place, reads) == (head(session), 8)


def test_a_process_whose_lease_ran_out_is_told_that_its_subscriptions_ended(
    session: Session,
) -> None:
    contacts(session)
    process = lease(session)
    generation = ask(session, "select trunkline.live_enter(%s)", [process])
    subscribe(session, process=process)
    asked: dict[str, Any] = {"after": 0, "process": process, "generation": generation}
    call(session, "live_read", **asked)
    session.execute("update trunkline.lease set expires = now() - interval '1 minute'")
    session.execute("call trunkline.maintain()")
    with refused("TL423"):
        call(session, "live_read", **asked)
    with refused("TL423"):
        subscribe(session, process=process)
    session.execute("select trunkline.lease_renew(%s, '')", [process])
    with refused("TL423"):
        call(session, "live_read", **asked)
    subscribe(session, process=process)
    assert ask(session, "select trunkline.live_enter(%s)", [process]) > generation


def test_leaving_ends_all_subscriptions_of_a_process(session: Session) -> None:
    contacts(session)
    process = lease(session)
    for _ in range(3):
        subscribe(session, process=process)
    subscribe(session)
    assert ask(session, "select trunkline.live_leave(%s)", [process]) == 3
    assert len(call(session, "live_subscriptions")) == 1


def test_a_position_of_another_life_or_beyond_the_end_is_refused(session: Session) -> None:
    contacts(session)
    number = subscribe(session)
    life = ask(session, "select trunkline.incarnation()")
    for place in ({"after": head(session) + 1}, {"after": 0, "incarnation": life + 1}):
        with refused("TL410"):
            call(session, "live_read", subscription=number, **place)


def test_where_events_have_left_reading_is_refused_with_the_first_that_is_there(
    session: Session,
) -> None:
    contacts(session)
    number = subscribe(session)
    session.execute("insert into contacts values (1, 7)")
    tick(session)
    call(session, "broker_match")
    age(session, timedelta(hours=5))
    rotate(session)
    with refused("TL410"):
        call(session, "live_read", after=0, subscription=number)


def test_a_condition_that_fails_harms_only_its_own_subscriptions(session: Session) -> None:
    contacts(session)
    process = lease(session)
    bad = subscribe(session, {"org_id": {"gt": 5}}, process=process)
    good = subscribe(session, {"name": "x"}, process=process)
    session.execute("alter table contacts alter org_id type text using org_id::text")
    tick(session)
    before = head(session)
    session.execute("insert into contacts values (1, 'seven', 'x')")
    tick(session)
    rows = called(session, "live_read", after=before, process=process).fetchall()
    assert [
        (row["error"] is None, row["subscriptions"]) for row in rows if row["subscriptions"]
    ] == [
        (False, [bad]),
        (True, [good]),
    ]


def test_bad_input_is_refused(session: Session) -> None:
    for bad in ({"after": -1}, {"after": None}, {"after": 0, "max_events": 0}):
        with refused("TL422"):
            call(session, "live_read", **bad)
