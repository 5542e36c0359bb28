"""How long what a lasting group has not read stays, and what its waiting costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.broker.groups import Member, match, read, received, subscribe
from tests.broker.steps import publish, tick
from tests.fixtures.asking import ask, call, refused

from trunkline.broker.held import Held

if TYPE_CHECKING:
    from tests.fixtures.asking import Session


@pytest.fixture
def quick(session: Session) -> Session:
    """Rings move on with every round, and what is read leaves at once."""
    for name in ("event", "delivery", "tick", "cursor"):
        configure(session, f"ring.{name}.rotate_every", "1 millisecond")
    configure(session, "maintain.settle", "0")
    configure(session, "broker.retention", "0")
    return session


def configure(session: Session, name: str, value: str) -> None:
    call(session, "config_set", name=name, value=value)


def rotate(session: Session) -> None:
    """Let the rings move on, and what is not needed leave."""
    for _ in range(2):
        while ask(session, "select trunkline.rings_rotate()"):
            pass


def spend(session: Session, *payloads: Any) -> None:
    for payload in payloads:
        publish(session, "order", payload, key="k")
        match(session)
        rotate(session)


def age(session: Session, much: str) -> None:
    """As if all that is there were older."""
    for table in ("delivery", "tick"):
        session.execute(f"update trunkline.{table} set at = at - %s::interval", [much])
    session.execute("update trunkline.ring_slot set left_at = left_at - %s::interval", [much])


def lowest_unread(session: Session) -> Any:
    """The lowest position that a lasting group has not read, from all deliveries."""
    return ask(
        session,
        "select min(d.lowest) from trunkline.delivery d join trunkline.broker_group g"
        " using (group_id) where g.lasting and d.first + d.n - 1 > coalesce((select"
        " min(trunkline._broker_position(h.group_id, h.handler, d.lane)) from"
        " trunkline.broker_handler h where h.group_id = g.group_id), g.begins_after)",
    )


def kept(session: Session) -> Any:
    return ask(session, "select trunkline._delivery_keep_position()")


def test_a_lasting_group_misses_nothing_however_long_it_is_away(quick: Session) -> None:
    subscribe(quick)
    spend(quick, *range(30))
    age(quick, "10 years")
    rotate(quick)
    spend(quick, 30)

    assert received(quick, max_events=100) == list(range(31))


def test_a_group_without_a_reader_is_kept(quick: Session) -> None:
    subscribe(quick)
    quick.execute("update trunkline.broker_group set idle_since = now() - interval '10 years'")
    quick.execute("select trunkline.broker_expire()")
    assert ask(quick, "select count(*) from trunkline.broker_groups()") == 1


def test_what_leaves_once_it_is_read_gives_its_space_back(quick: Session) -> None:
    subscribe(quick)
    spend(quick, *range(40))
    Member(quick).commit_all()
    rotate(quick)
    spend(quick, "more")
    Member(quick).commit_all()
    rotate(quick)

    for ring in ("event", "delivery"):
        assert ask(quick, f"select count(*) from trunkline.{ring}") <= 1
        current = "select current < 16 from trunkline.ring where ring = %s"
        assert ask(quick, current, [ring])


def test_over_the_limit_the_oldest_leave_and_the_group_is_told(quick: Session) -> None:
    subscribe(quick)
    Member(quick).join()
    big = "".join(str(number) for number in range(20_000))
    spend(quick, *range(5), *[big + str(n) for n in range(6)], *range(5, 10))
    before = ask(quick, "select bytes from trunkline.broker_held()")
    configure(quick, "broker.hold_bytes", str(before - 100_000))
    rotate(quick)

    with refused("TL410") as caught:
        read(quick)
    assert "held more than broker.hold_bytes" in str(caught.value)
    call(quick, "broker_seek", group_name="billing", up_to=0)
    left = [payload for payload in received(quick, max_events=100) if isinstance(payload, int)]
    assert left[-5:] == list(range(5, 10))
    assert 0 not in left
    assert ask(quick, "select bytes <= most from trunkline.broker_held()")


def test_over_the_limit_a_subscription_that_stands_still_does_not_hold(quick: Session) -> None:
    subscribe(quick, "bad", "1 / (e.payload ->> 'n')::int > 0")
    publish(quick, "order", {"n": 0})
    match(quick)
    spend(quick, *["x" * 50_000 for _ in range(10)])
    rotate(quick)
    assert ask(quick, "select count(*) from trunkline.event") == 11

    configure(quick, "broker.hold_bytes", "1000")
    rotate(quick)
    assert ask(quick, "select count(*) from trunkline.event") <= 1


def test_the_lowest_unread_position_counts_deliveries_of_the_history(quick: Session) -> None:
    subscribe(quick, "a")
    spend(quick, *range(6))
    Member(quick, "a").commit_all()
    for number in range(6, 12):
        publish(quick, "order", number, key=f"k{number}")
    match(quick)
    assert kept(quick) == lowest_unread(quick) == 7

    configure(quick, "broker.retention", "1 day")
    publish(quick, "order", "last", key="k6")
    subscribe(quick, "a", {"topic": "order", "not": {"key": "x"}}, from_position=8)
    match(quick)
    assert kept(quick) == lowest_unread(quick) == 7
    for share in Member(quick, "a").join():
        number = ask(
            quick,
            "select first + n - 1 from trunkline.delivery where lane = %s order by first limit 1",
            [share.lane],
        )
        call(
            quick, "broker_seek", group_name="a", lane=share.lane, up_to=number
        ) if number else None
    assert kept(quick) == lowest_unread(quick)


def test_a_group_that_does_not_read_for_long_costs_no_more(session: Session) -> None:
    subscribe(session, "stopped")
    costs = []
    for size in (50, 1_000):
        for number in range(size):
            publish(session, "order", number, key=f"k{number % 8}")
            if number % 5 == 0:
                tick(session)
                call(session, "broker_match")
        session.execute("analyze trunkline.delivery")
        costs.append(pages(session, "select trunkline._event_keep_from()"))
    assert costs[1] <= costs[0] * 1.5 + 20
    read(session, "stopped", max_events=1)  # makes a handler
    rows = ask(session, "select count(*) from trunkline.delivery")
    lag = pages(session, "select count(*) from trunkline.broker_lag()")
    assert lag < rows + 500  # the position of a lane is not looked up for each delivery


def pages(session: Session, query: str) -> int:
    """How many pages a query touches."""
    session.execute(query)
    plan = ask(session, f"explain (analyze, buffers, timing off, format json) {query}")
    return sum(plan[0]["Plan"][f"Shared {kind} Blocks"] for kind in ("Hit", "Read"))


def test_what_waits_is_told_with_its_group_and_its_size(session: Session) -> None:
    def held() -> Held:
        (row,) = session.execute("select * from trunkline.broker_held()")
        return Held(*row)

    assert held().group_name is None
    assert held().warning is None
    subscribe(session, condition={"topic": "order"}, handler="h")
    publish(session, "order", 1)
    match(session)
    assert (held().group_name, held().handler, held().most) == ("billing", "h", None)
    assert held().warning is None
    assert ask(session, "select waiting_since is not null from trunkline.broker_groups()")

    session.execute("update trunkline.delivery set at = at - interval '2 days'")
    assert 'handler "h" of group billing has not read since' in str(held().warning)
    configure(session, "broker.hold_bytes", str(held().bytes + 1))
    assert held().is_nearly_full
    assert "(broker.hold_bytes)" in str(held().warning)
