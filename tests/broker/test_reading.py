"""Groups share their work by lanes; every handler has positions of its own."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.types.json import Jsonb
from tests.broker.groups import Member, last_delivery, match, read, received, subscribe
from tests.broker.steps import publish, tick
from tests.fixtures.asking import ask, call, refused, writing_nothing
from tests.fixtures.postgres import open_two_sessions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures.asking import Session
    from tests.fixtures.postgres import TwoSessions

KEYS = [f"k{number}" for number in range(40)]

LANE = "select (hashtextextended(%s, 0) & 63) * 2 / 64"


@pytest.fixture
def two(clean_dsn: str) -> Iterator[TwoSessions]:
    with open_two_sessions(clean_dsn) as sessions:
        yield sessions


def fill(session: Session, rounds: int = 3) -> None:
    for number in range(rounds):
        for key in KEYS:
            publish(session, "order", number, key=key)
    match(session)


def test_a_commit_moves_a_lane_and_nothing_else(session: Session) -> None:
    subscribe(session)
    fill(session)
    member = Member(session)
    shares = member.join()
    waiting = read(session, lane=1)

    member.commit(1, shares[1].epoch, waiting[4].up_to)

    assert read(session, lane=1) == waiting[5:]
    assert len(read(session)) == 3 * len(KEYS) - 5


def test_events_of_a_key_stay_in_one_lane_and_in_order(session: Session) -> None:
    subscribe(session)
    fill(session)

    for key in KEYS:
        mine = [one for one in read(session) if one.key == key]
        assert len({one.lane for one in mine}) == 1
        assert [one.payload for one in mine] == [0, 1, 2]


def test_keys_are_spread_over_all_lanes(session: Session) -> None:
    call(session, "broker_group", group_name="wide", lanes=8)
    subscribe(session, "wide")
    fill(session)

    assert {one.lane for one in read(session, "wide")} == set(range(8))


def test_events_without_a_key_keep_the_order_of_their_topic(session: Session) -> None:
    subscribe(session)
    for number in range(30):
        publish(session, "order", number)
    match(session)

    assert len({one.lane for one in read(session)}) == 1


def test_a_commit_never_goes_back_and_never_beyond_what_exists(session: Session) -> None:
    subscribe(session)
    fill(session)
    member = Member(session)
    share = member.join()[0]
    last = read(session, lane=0)[-1].up_to
    member.commit(0, share.epoch, last)

    member.commit(0, share.epoch, 1)

    assert read(session, lane=0) == []
    with refused("TL422"):
        member.commit(0, share.epoch, last_delivery(session) + 1)


def test_a_commit_with_an_epoch_that_is_over_is_refused_and_changes_nothing(
    session: Session,
) -> None:
    subscribe(session)
    fill(session)
    member = Member(session)
    share = member.join()[0]
    member.leave()
    Member(session).join()
    waiting = read(session, lane=0)

    with refused("TL423"):
        member.commit(0, share.epoch, waiting[-1].up_to)

    assert read(session, lane=0) == waiting


def test_a_commit_in_the_transaction_of_the_effect_is_undone_with_it(
    session: Session, other: Session
) -> None:
    subscribe(session)
    fill(session)
    member = Member(session)
    share = member.join()[0]
    waiting = read(session, lane=0)

    Member(other, process=member.process).commit(0, share.epoch, waiting[-1].up_to)
    other.rollback()

    assert read(session, lane=0) == waiting


def test_members_share_the_lanes_and_a_dead_one_is_suspected(session: Session) -> None:
    subscribe(session)
    fill(session)
    first, second = Member(session), Member(session)
    assert len(first.join()) == 4
    second.join()
    given_back = [share.lane for share in first.join() if share.surplus]
    call(
        session,
        "broker_leave",
        group_name="billing",
        handler="",
        process=first.process,
        lanes=given_back,
    )
    assert [share.lane for share in second.join()] == given_back

    session.execute(
        "update trunkline.lease set expires = clock_timestamp() where process = %s", [first.process]
    )

    taken = second.join()
    assert len(taken) == 4
    assert [share.lane for share in taken if share.suspect] == [
        lane for lane in range(4) if lane not in given_back
    ]


def test_every_handler_of_a_group_reads_everything_by_itself(session: Session) -> None:
    subscribe(session)
    first = Member(session, handler="a")
    first.join()
    Member(session, handler="b").join()
    fill(session)

    first.commit_all()

    assert read(session, handler="a") == []
    assert len(read(session, handler="b")) == 3 * len(KEYS)


def test_a_handler_with_a_subscription_sees_only_that(session: Session) -> None:
    subscribe(session, condition={"topic": "order"}, handler="orders")
    subscribe(session, condition={"topic": "visit"}, handler="visits")
    publish(session, "order", "o", key="k")
    publish(session, "visit", "v", key="k")

    assert received(session, handler="orders") == ["o"]
    assert received(session, handler="visits") == ["v"]


@pytest.mark.parametrize("mended", ["(e.payload ->> 'n')::int > 1", {"topic": "#"}])
def test_a_handler_whose_condition_is_mended_misses_nothing_since_the_old_one_failed(
    session: Session, mended: Any
) -> None:
    failing = "10 / ((e.payload ->> 'n')::int - 3) <> 0"
    subscribe(session, condition=failing, handler="bill")
    for number in range(2, 6):
        publish(session, "order", {"n": number}, key="k")
    assert received(session, handler="bill") == []

    for _ in range(2):
        subscribe(session, condition=mended, handler="bill", replace=True)
    publish(session, "order", {"n": 6}, key="k")

    assert received(session, handler="bill") == [{"n": number} for number in range(2, 7)]


def test_a_handler_whose_condition_changes_while_it_reads_the_history_misses_nothing_of_it(
    session: Session,
) -> None:
    for number in range(3):
        publish(session, "order", number, key="k")
    match(session)
    subscribe(session, condition={"topic": "order"}, handler="bill", from_position=1)
    call(session, "broker_catch_up", max_events=1)

    subscribe(
        session,
        condition={"topic": ["order", "visit"]},
        handler="bill",
        from_position=1,
        replace=True,
    )
    publish(session, "order", 3, key="k")

    assert received(session, handler="bill") == [0, 1, 2, 3]


def test_a_subscription_that_others_read_too_gives_them_nothing_again(session: Session) -> None:
    subscribe(session, condition="10 / ((e.payload ->> 'n')::int - 3) <> 0", handler="bill")
    subscribe(session, condition={"topic": "order"}, handler="count")
    for number in range(2, 6):
        publish(session, "order", {"n": number}, key="k")
    match(session)

    subscribe(session, condition={"topic": "order"}, handler="bill", replace=True)

    assert received(session, handler="count") == [{"n": number} for number in range(2, 6)]


def test_a_fetch_says_how_far_it_looked_when_nothing_was_for_the_handler(
    session: Session,
) -> None:
    call(session, "broker_group", group_name="billing", lanes=1)
    subscribe(session, condition={"topic": "rare"}, handler="rare")
    subscribe(session, condition={"topic": "order"}, handler="orders")
    fill(session)
    given = {"group_name": "billing", "handler": "rare", "lanes": [0], "after": [0]}

    rows = call(session, "broker_fetch", **given)

    assert [(row[0], row[1], row[3]) for row in rows] == [(0, last_delivery(session), None)]
    assert call(session, "broker_fetch", **(given | {"after": [last_delivery(session)]})) == []


@pytest.mark.parametrize("most", [1, 7])
def test_a_fetch_in_small_parts_gives_every_event_once(session: Session, most: int) -> None:
    call(session, "broker_group", group_name="billing", lanes=2)
    subscribe(session, condition={"topic": "order"}, handler="orders")
    subscribe(session, condition={"topic": "#"}, handler="all")
    fill(session)
    after, seen = [0, 0], []

    while rows := call(
        session,
        "broker_fetch",
        group_name="billing",
        handler="orders",
        lanes=[0, 1],
        after=after,
        max_events=most,
    ):
        for row in rows:
            after[row[0]] = row[1]
            if row[3] is not None:
                seen.append(row[2])

    assert sorted(seen) == list(range(1, 3 * len(KEYS) + 1))


def turn(session: Session) -> None:
    """Let the rings that deliveries go through move on, once each."""
    for ring in ("event", "tick", "delivery"):
        turned = "select trunkline._ring_rotate(ring, rotated_at + '1 hour') from trunkline.ring"
        assert ask(session, f"{turned} where ring = %s", [ring])


def test_what_is_in_several_slots_is_fetched_by_those_behind_and_those_who_keep_up(
    session: Session,
) -> None:
    call(session, "broker_group", group_name="billing", lanes=2)
    subscribe(session, handler="orders")
    keys = [next(key for key in KEYS if ask(session, LANE, [key]) == lane) for lane in (0, 1)]

    def fetched(after: list[int]) -> list[tuple[int, int]]:
        rows = call(
            session,
            "broker_fetch",
            group_name="billing",
            handler="orders",
            lanes=[0, 1],
            after=after,
            max_events=100,
        )
        return [(row[0], row[6]) for row in rows if row[3] is not None]

    for number, lane in enumerate((0, 1, 0, 0)):
        publish(session, "order", number, key=keys[lane])
        match(session)
        turn(session)
    publish(session, "order", 4, key=keys[0])
    match(session)

    assert fetched([0, 0]) == [(0, 0), (0, 2), (0, 3), (0, 4), (1, 1)]
    assert fetched([3, 0]) == [(0, 3), (0, 4), (1, 1)]
    assert fetched([4, 0]) == [(0, 4), (1, 1)]
    assert fetched([4, 2]) == [(0, 4)]
    assert fetched([5, 2]) == []


def test_a_read_finds_what_lies_behind_a_thousand_deliveries_of_others(session: Session) -> None:
    call(session, "broker_group", group_name="billing", lanes=1)
    subscribe(session, condition={"topic": "rare"}, handler="rare")
    subscribe(session, condition={"topic": "order"}, handler="orders")
    session.execute("select trunkline.broker_publish('order', '1') from generate_series(1, 2500)")
    match(session)
    publish(session, "rare", "gold")
    match(session)

    assert [one.payload for one in read(session, handler="rare")] == ["gold"]


SLOW_FETCH = """
do $do$
declare
  source text := (select pg_get_functiondef(oid) from pg_proc
                   where oid = to_regproc('trunkline._broker_fetch'));
begin
  execute replace(source, '_broker_fetch(', '_broker_fetch_now(');
  execute regexp_replace(replace(source, ' STABLE', ' VOLATILE'), 'AS [$](.*)[$].*$', $as$AS $body$
    begin
      return query
        select * from trunkline._broker_fetch_now(present, reader, lanes, after, max_events);
      perform pg_advisory_xact_lock_shared(4711);
    end $body$ $as$);
end $do$
"""
"""Let every fetch wait for a lock after it has looked."""


def test_a_read_passes_over_nothing_that_is_matched_while_it_looks(
    two_sessions: TwoSessions,
) -> None:
    """The statements of a read see different moments: what came in between is not read yet."""
    reader, holder, publisher = two_sessions.a, two_sessions.b, two_sessions.watcher
    call(publisher, "broker_group", group_name="billing", lanes=1)
    subscribe(publisher)
    assert read(publisher) == []
    publisher.execute(SLOW_FETCH)
    holder.execute("select pg_advisory_lock(4711)")
    query = "select payload from trunkline.broker_read('billing', max_events => 1)"
    reading = two_sessions.later(reader, query)
    two_sessions.blocked_by(holder, reader)
    for number in range(3):
        publish(publisher, "t", number)
    match(publisher)
    holder.execute("select pg_advisory_unlock(4711)")
    assert reading.result(10).fetchall() == [(0,)]


def test_a_read_is_told_of_events_that_have_left_before_their_deliveries(
    session: Session,
) -> None:
    call(session, "broker_group", group_name="billing", lanes=1)
    subscribe(session)
    for number in range(5):
        publish(session, "order", number)
    match(session)
    Member(session).join()
    session.execute("delete from trunkline.event where payload in ('0', '1', '3')")

    for most in (1, 2, 10):
        with refused("TL410") as caught:
            read(session, max_events=most)
        assert f'"first": {min(most, 2) + 1}' in str(caught.value.diag.message_detail)
    call(session, "broker_seek", group_name="billing", up_to=2)
    assert [one.payload for one in read(session)] == [2]  # what lies behind the next gap waits
    with refused("TL410") as caught:
        read(session, from_position=4)
    assert '"first": 5' in str(caught.value.diag.message_detail)
    assert [one.payload for one in read(session, from_position=5)] == [4]


def test_a_first_read_that_finds_events_gone_is_told_a_way_that_works(session: Session) -> None:
    call(session, "broker_group", group_name="billing", lanes=1)
    subscribe(session)
    for number in range(3):
        publish(session, "order", number)
    match(session)
    session.execute("delete from trunkline.event where payload = '0'")

    with refused("TL410") as caught:
        read(session, handler="new", max_events=1)

    assert caught.value.diag.message_hint == "Begin after it: from_position => 2, lane => 0."
    there = read(session, handler="new", from_position=2, lane=0)
    assert [one.payload for one in there] == [1, 2]
    with refused("TL410") as caught:
        read(session, handler="new", max_events=1)
    assert "broker_seek() with up_to => 1, lane => 0" in str(caught.value.diag.message_hint)
    call(session, "broker_seek", group_name="billing", handler="new", up_to=1, lane=0)
    assert [one.payload for one in read(session, handler="new")] == [1, 2]


def test_events_that_have_left_hold_back_no_other_lane(session: Session) -> None:
    call(session, "broker_group", group_name="billing", lanes=2)
    subscribe(session)
    for key in KEYS:
        publish(session, "order", key, key=key)
    match(session)
    there = {one.lane: one.payload for one in read(session)}
    session.execute("delete from trunkline.event where payload = %s", [Jsonb(there[0])])

    assert {one.lane for one in read(session)} == {0, 1}
    session.execute(
        "delete from trunkline.event"
        " where key in (select key from trunkline.broker_read('billing', lane => 0))"
    )

    assert {one.lane for one in read(session)} == {1}


def test_a_peek_takes_nothing_and_a_first_read_registers_the_handler(session: Session) -> None:
    subscribe(session)
    fill(session)

    with writing_nothing(session):
        assert len(read(session, handler="new", peek=True)) == 3 * len(KEYS)
    read(session, handler="new")

    assert ask(session, "select count(*) from trunkline.broker_handler where handler = 'new'") == 1


def test_a_read_and_a_fetch_of_what_is_not_there_are_refused(session: Session) -> None:
    subscribe(session)
    with refused("TL404"):
        read(session, "nobody")
    with refused("TL422"):
        read(session, lane=4)
    with refused("TL422") as caught:
        read(session, max_events=0)
    assert "max_events is at least 1, got 0." in str(caught.value)
    for first in (0, -4, -(2**63)):
        with refused("TL422") as caught:
            read(session, from_position=first)
        assert f"deliveries begin at 1, got {first}." in str(caught.value)
    with refused("TL404") as caught:
        call(session, "broker_read", group_name=None)
    assert "there is no group NULL." in str(caught.value)
    with refused("TL404"):
        call(session, "broker_fetch", group_name="billing", handler="x", lanes=[0], after=[0])


@pytest.mark.parametrize(
    ("function", "given"),
    [
        ("broker_match", {"max_events": 0}),
        ("broker_catch_up", {"max_events": -1}),
        ("broker_retries", {"lane": 0, "epoch": 1, "max_batches": 0}),
        ("broker_retries", {"lane": 0, "epoch": 1, "max_batches": None}),
        ("broker_fetch", {"lanes": [0], "after": [None]}),
        ("broker_fetch", {"lanes": [0], "after": [0], "max_events": -(2**31)}),
        ("broker_match_try", {"condition_id": 1, "max_events": -(2**31)}),
        ("broker_match_try", {"condition_id": 1, "max_events": None}),
        ("broker_seek", {"up_to": 2**63 - 1}),
        ("broker_seek", {"at_position": 0}),
        ("broker_seek", {"at_position": 2**63 - 1}),
        ("broker_subscribe", {"from_position": 2**63 - 1}),
    ],
)
def test_numbers_that_make_no_sense_are_refused(
    session: Session, function: str, given: dict[str, Any]
) -> None:
    subscribe(session)
    Member(session).join()
    if function in {"broker_retries", "broker_fetch"}:
        given = {"group_name": "billing", "handler": "", **given}
    if function in {"broker_seek", "broker_subscribe"}:
        given = {"group_name": "billing", **given}
    with refused("TL422"):
        call(session, function, **given)


def test_beyond_the_largest_position_there_is_nothing_and_the_largest_count_is_all(
    session: Session,
) -> None:
    subscribe(session)
    Member(session).join()
    call(session, "log_create", topic="order")
    publish_keyed(session, 600)
    session.execute("select trunkline.broker_tick()")
    most, last = 2**31 - 1, 2**63 - 1
    condition = ask(session, "select condition_id from trunkline.broker_condition")
    trying = {"condition_id": condition, "max_events": most}

    assert call(session, "broker_match_try", **trying) == [(None,)]
    assert call(session, "broker_match", max_events=most) == [(600,)]
    subscribe(session, "late", from_position=1)
    assert call(session, "broker_catch_up", max_events=most) == [(600,)]
    assert len(read(session, max_events=most)) == 600
    fetch = {"group_name": "billing", "handler": "", "lanes": [0], "max_events": most}
    assert call(session, "broker_fetch", **fetch, after=[last]) == []
    assert read(session, from_position=last) == []
    assert call(session, "broker_events", from_position=last) == []
    assert len(call(session, "broker_events", from_position=1, to_position=last)) == 600
    assert call(session, "broker_forwardable", after=last) == []
    assert call(session, "broker_forwardable", after=-last) == [("order", 600)]


def test_a_handler_is_moved_to_a_time_and_whoever_works_is_fenced(session: Session) -> None:
    subscribe(session)
    fill(session, rounds=1)
    moment = ask(session, "select clock_timestamp()")
    fill(session, rounds=1)
    member = Member(session)
    shares = member.join()
    member.commit_all()

    call(session, "broker_seek", group_name="billing", at_time=moment)

    assert len(read(session)) == len(KEYS)
    with refused("TL423"):
        member.commit(0, shares[0].epoch, last_delivery(session))
    call(session, "broker_seek", group_name="billing", up_to=0)
    assert len(read(session)) == 2 * len(KEYS)
    call(session, "broker_seek", group_name="billing", up_to=last_delivery(session))
    assert read(session) == []
    with refused("TL422"):
        call(session, "broker_seek", group_name="billing")


@pytest.mark.parametrize("reached", [1, 4, 6, 9, 10])
def test_a_handler_is_moved_to_the_event_at_a_position(session: Session, reached: int) -> None:
    subscribe(session, condition="(e.payload ->> 'n')::int <> 6")
    numbers = [*range(1, 11)]
    for n in numbers:
        publish(session, "order", {"n": n})
        if n in {7, 10}:
            match(session)
    first = min(one.position - one.payload["n"] for one in read(session))
    Member(session).commit_all()

    call(session, "broker_seek", group_name="billing", at_position=first + reached)

    wanted = [n for n in numbers if n >= reached and n != 6]
    assert [one.payload["n"] for one in read(session)] == wanted


def test_a_seek_to_a_position_goes_to_what_is_still_to_be_matched(session: Session) -> None:
    subscribe(session)
    publish(session, "order", {"n": 1})
    match(session)
    Member(session).commit_all()
    publish(session, "order", {"n": 2})
    tick(session)
    head = ask(session, "select trunkline.broker_head()")

    call(session, "broker_seek", group_name="billing", at_position=head)

    assert read(session) == []
    match(session)
    assert [one.payload["n"] for one in read(session)] == [2]


DELETIONS = ["broker_group_delete('billing')", "broker_handler_delete('billing', '')"]


@pytest.mark.parametrize("deletion", DELETIONS)
def test_a_seek_that_waits_while_its_handler_is_deleted_says_so(
    session: Session, two: TwoSessions, deletion: str
) -> None:
    subscribe(session)
    fill(session)
    Member(session).join()
    session.execute("update trunkline.lease set expires = clock_timestamp()")
    two.a.execute(f"select trunkline.{deletion}")
    seeking = two.later(two.b, "select trunkline.broker_seek('billing', up_to => 0)")
    two.blocked_by(two.a, two.b)
    two.a.commit()
    with refused("TL404"):
        seeking.result(10)
    two.b.rollback()
    left = "select count(*) from trunkline.cursor_key where resource ~ '^broker:[0-9]'"
    assert ask(session, left) == 0


@pytest.mark.parametrize("deletion", DELETIONS)
def test_deleting_a_handler_waits_for_a_commit_under_way_which_does_not_wait_for_it(
    session: Session, two: TwoSessions, deletion: str
) -> None:
    subscribe(session)
    fill(session)
    share = Member(session).join()[0]
    session.execute("update trunkline.lease set expires = clock_timestamp()")
    name = ask(
        session,
        "select trunkline._broker_resource(group_id, '', 0) from trunkline.broker_group",
    )
    two.a.execute("select trunkline._cursor_hold(%s)", [name])  # the first step of a commit
    deleting = two.later(two.b, f"select trunkline.{deletion}")
    two.blocked_by(two.a, two.b)
    two.a.execute("set lock_timeout = '5s'")
    two.a.execute("select trunkline._owner_check(%s, %s)", [name, share.epoch])  # the last
    two.a.commit()
    deleting.result(10)


def test_lag_counts_what_waits_for_each_handler(session: Session) -> None:
    subscribe(session, condition={"topic": "order"}, handler="orders")
    subscribe(session, condition={"topic": "visit"}, handler="visits")
    fill(session)
    Member(session, handler="orders").commit_all()
    publish(session, "order", key="k1")
    match(session)

    rows = session.execute(
        "select handler, sum(waiting)::int, count(*)::int from trunkline.broker_lag() group by 1"
    ).fetchall()

    assert sorted(rows) == [("orders", 1, 4), ("visits", 0, 4)]
    (row,) = session.execute(
        "select group_name, lanes, subscriptions, handlers, waiting::int"
        " from trunkline.broker_groups()"
    )
    assert row == ("billing", 4, 2, 2, 1)


def test_a_group_is_deleted_with_all_that_is_its_own_unless_somebody_works(
    session: Session,
) -> None:
    subscribe(session)
    fill(session, rounds=1)
    member = Member(session)
    member.join()
    with refused("TL409"):
        call(session, "broker_group_delete", group_name="billing")
    member.leave()

    call(session, "broker_group_delete", group_name="billing")

    with refused("TL404"):
        read(session)
    assert (
        ask(session, "select count(*) from trunkline.cursor_key where resource ~ '^broker:[0-9]'")
        == 0
    )


def test_other_lanes_than_those_a_group_has_are_refused(session: Session) -> None:
    call(session, "broker_group", group_name="billing", lanes=2)
    call(session, "broker_group", group_name="billing", lanes=2)
    with refused("TL409"):
        call(session, "broker_group", group_name="billing", lanes=3)
    with refused("TL422"):
        call(session, "broker_group", group_name="wide", lanes=65)
    with refused("TL422"):
        call(session, "broker_group", group_name="new\nline")


def publish_keyed(session: Session, number: int) -> None:
    session.execute(
        "select trunkline.broker_publish('order', '1', key => 'k' || g %% 40)"
        " from generate_series(1, %s) g",
        [number],
    )


def rotate(session: Session) -> None:
    """Let every ring move on as often as there are slots, as if time had passed."""
    session.execute(
        "update trunkline.config set value = '1 millisecond' where name like 'ring.%.rotate_every'"
    )
    session.execute("update trunkline.config set value = '0' where name = 'maintain.settle'")
    for _ in range(3):
        session.execute("call trunkline.maintain()")


def age(session: Session, by: timedelta) -> None:
    """Make deliveries and ticks look older."""
    session.execute("update trunkline.delivery set at = at - %s", [by])
    session.execute("update trunkline.tick set at = at - %s", [by])


def test_what_a_lasting_group_has_not_read_stays_beyond_the_retention(session: Session) -> None:
    subscribe(session)
    fill(session, rounds=1)
    age(session, timedelta(hours=5))
    rotate(session)

    assert len(read(session)) == len(KEYS)

    Member(session).commit_all()
    rotate(session)
    assert ask(session, "select count(*) from trunkline.delivery") == 0
    assert ask(session, "select count(*) from trunkline.event") == 0


def test_a_group_that_was_behind_for_too_long_is_told_what_has_left(session: Session) -> None:
    call(session, "config_set", name="broker.hold", value="3 days")
    subscribe(session)
    fill(session, rounds=1)
    Member(session).join()
    age(session, timedelta(days=4))
    rotate(session)

    with refused("TL410") as caught:
        read(session)
    assert f'"first": {last_delivery(session) + 1}' in str(caught.value.diag.message_detail)

    call(session, "broker_seek", group_name="billing", up_to=0)
    publish(session, "order", "new")
    loss, new = received(session)
    assert (loss["group"], loss["lost"], new) == ("billing", len(KEYS), "new")


def test_who_goes_back_to_what_was_read_and_has_left_is_told(session: Session) -> None:
    subscribe(session)
    fill(session, rounds=1)
    Member(session).commit_all()
    age(session, timedelta(hours=5))
    rotate(session)
    left = last_delivery(session)
    fill(session, rounds=1)

    moves: list[tuple[str, dict[str, Any], str]] = [
        ("broker_seek", {"up_to": 1}, f"up_to => {left}."),
        ("broker_read", {"from_position": 1}, f"from_position => {left + 1}."),
        ("broker_read", {"from_position": left, "peek": True}, f"from_position => {left + 1}."),
        ("broker_read", {"handler": "new", "from_position": 1}, f"from_position => {left + 1}."),
        (
            "broker_deliveries",
            {"from_delivery": left, "to_delivery": left + 1},
            f"from_delivery => {left + 1}.",
        ),
    ]
    for function, given, hint in moves:
        with refused("TL410") as caught:
            call(session, function, group_name="billing", **given)
        assert f'"first": {left + 1}' in str(caught.value.diag.message_detail)
        assert str(caught.value.diag.message_hint).endswith(hint)
        assert "they were read, and are older than broker.retention" in str(caught.value)

    assert call(session, "broker_ends", group_name="billing")[0][0] == left + 1
    assert len(read(session, from_position=left + 1)) == len(KEYS)
    assert len(read(session, handler="new")) == len(KEYS)
    call(session, "broker_seek", group_name="billing", up_to=left)
    assert len(read(session)) == len(KEYS)
    call(session, "broker_seek", group_name="billing", up_to=0)
    assert len(read(session)) == len(KEYS)


def test_who_reads_on_is_told_nothing_when_another_lane_was_read_further_and_that_has_left(
    session: Session,
) -> None:
    subscribe(session)
    fill(session, rounds=1)
    last = {one.lane: one.up_to for one in read(session)}
    Member(session).commit_all()
    age(session, timedelta(hours=5))
    rotate(session)

    assert len(set(last.values())) == 4
    for lane, up_to in last.items():
        assert read(session, lane=lane, from_position=up_to + 1) == []
    assert read(session) == []


def history_leaves(session: Session) -> None:
    """A first round of events leaves, but not its ticks; a second one is there."""
    subscribe(session)
    fill(session, rounds=1)
    Member(session).commit_all()
    age(session, timedelta(hours=5))
    rotate(session)
    fill(session, rounds=1)


def test_a_subscription_to_a_history_that_has_left_is_refused_though_its_ticks_are_there(
    session: Session,
) -> None:
    history_leaves(session)
    assert ask(session, "select min(first_position) from trunkline.tick") == 1

    for position in (1, len(KEYS)):
        with refused("TL410") as caught:
            subscribe(session, "late", from_position=position)
        assert f'"first": {len(KEYS) + 1}' in str(caught.value.diag.message_detail)

    subscribe(session, "late", from_position=len(KEYS) + 1)
    match(session)
    assert len(read(session, "late")) == len(KEYS)


def test_a_subscription_from_a_time_whose_events_have_left_begins_with_those_that_are_there(
    session: Session,
) -> None:
    history_leaves(session)

    subscribe(session, "audit", {"topic": "trunkline.subscription.trimmed"})
    day = ask(session, "select now() - interval '1 day'")
    number = subscribe(session, "late", from_time=day)
    match(session)
    assert len(read(session, "late")) == len(KEYS)
    gone = {"group": "late", "subscription": str(number), "first": "1", "last": str(len(KEYS))}
    assert received(session, "audit") == [gone]


def test_a_subscription_is_resumed_where_its_events_have_left_only_by_who_says_so(
    session: Session,
) -> None:
    call(session, "config_set", name="broker.hold", value="3 days")
    bad = subscribe(session, "bad", "2 / (e.payload ->> 'n')::int > 1")
    publish(session, "order", {"n": 2})
    match(session)
    publish(session, "order", {"n": 0})
    publish(session, "order", {"n": 1})
    match(session)
    age(session, timedelta(days=40))
    rotate(session)
    publish(session, "order", {"n": 1})
    publish(session, "order", {"n": 1})
    match(session)

    with refused("TL410") as caught:
        call(session, "broker_resume", subscription=bad)
    assert '"first": 4' in str(caught.value.diag.message_detail)
    for position in (3, 2, 1):
        with refused("TL410" if position > 1 else "TL422"):
            call(session, "broker_resume", subscription=bad, from_position=position)
    with refused("TL422"):
        call(session, "broker_resume", subscription=bad, from_position=2**63 - 1)

    assert call(session, "broker_resume", subscription=bad, from_position=4) == [(4,)]
    match(session)
    assert [event.position for event in read(session, "bad")] == [4, 5]


def test_a_group_that_does_not_last_is_told_what_has_left(session: Session) -> None:
    subscribe(session, expiry="1 day")
    fill(session, rounds=1)
    Member(session).join()
    age(session, timedelta(hours=5))
    rotate(session)
    assert ask(session, "select count(*) from trunkline.delivery") == 0

    with refused("TL410"):
        read(session)

    call(session, "broker_seek", group_name="billing", up_to=0)
    publish(session, "order", "new")
    loss, new = received(session)
    assert (loss["group"], loss["lost"], new) == ("billing", len(KEYS), "new")


def test_a_group_that_does_not_last_and_has_read_all_is_told_nothing(session: Session) -> None:
    subscribe(session, expiry="1 day")
    fill(session, rounds=1)
    Member(session).commit_all()
    age(session, timedelta(hours=5))
    rotate(session)

    publish(session, "order", "new")

    assert received(session) == ["new"]


def test_retention_waits_for_nobody_who_holds_a_group(session: Session, other: Session) -> None:
    call(session, "config_set", name="broker.hold", value="3 days")
    session.execute("set statement_timeout = '10s'")
    subscribe(session)
    fill(session, rounds=1)
    Member(session).join()
    age(session, timedelta(days=4))
    subscribe(other, handler="new")

    rotate(session)
    assert ask(session, "select sum(n) from trunkline.delivery") == len(KEYS)

    other.commit()
    rotate(session)
    with refused("TL410"):
        read(session)


def test_a_handler_for_which_nothing_comes_holds_back_nobody(session: Session) -> None:
    subscribe(session, condition={"topic": "rare"}, handler="rare")
    subscribe(session, condition={"topic": "order"}, handler="orders")
    publish_keyed(session, 6000)
    match(session)
    Member(session, handler="orders").commit_all()

    session.execute("select trunkline.broker_cursors_advance()")

    rows = session.execute("select head - up_to from trunkline.broker_lag() where handler = 'rare'")
    assert {row[0] for row in rows} == {0}


def test_a_handler_for_which_nothing_comes_for_long_keeps_nothing(session: Session) -> None:
    subscribe(session, condition={"topic": "rare"}, handler="rare")
    subscribe(session, condition={"topic": "order"}, handler="orders")
    fill(session, rounds=1)
    Member(session, handler="orders").commit_all()
    session.execute("select trunkline.broker_cursors_advance()")
    assert ask(session, "select max(up_to) from trunkline.broker_lag() where handler = 'rare'") == 0
    age(session, timedelta(hours=5))

    rotate(session)

    assert ask(session, "select count(*) from trunkline.event") == 0


def test_the_deliveries_of_a_thousand_matches_are_one_row_each_lane(session: Session) -> None:
    call(session, "broker_group", group_name="billing", lanes=2)
    subscribe(session)
    publish_keyed(session, 900)
    match(session)

    assert ask(session, "select count(*) from trunkline.delivery") == 2


def test_two_callers_that_make_one_handler_make_it_once(
    connect: Callable[..., Session], session: Session
) -> None:
    subscribe(session)
    other = connect(autocommit=False)
    read(other, handler="new")
    waiting = connect()
    waiting.execute("set lock_timeout = '100ms'")
    with refused("55P03"):
        read(waiting, handler="new")
    other.commit()
    read(waiting, handler="new")

    assert ask(session, "select count(*) from trunkline.broker_handler") == 1


def test_a_move_waits_for_a_commit_under_way_and_neither_for_the_other(
    connect: Callable[..., Session], session: Session, other: Session
) -> None:
    subscribe(session)
    fill(session)
    member = Member(session)
    share = member.join()[0]
    Member(other, process=member.process).commit(0, share.epoch, read(session, lane=0)[0].up_to)
    mover = connect()
    mover.execute("set lock_timeout = '200ms'")

    with refused("55P03"):
        call(mover, "broker_seek", group_name="billing", up_to=0)
    other.commit()
    call(mover, "broker_seek", group_name="billing", up_to=0)

    assert len(read(session)) == 3 * len(KEYS)
