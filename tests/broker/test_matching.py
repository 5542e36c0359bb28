"""Events become deliveries of the groups that want them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import psycopg
import pytest
from tests.broker.groups import (
    blocked,
    last_delivery,
    match,
    quarantined,
    read,
    received,
    subscribe,
)
from tests.broker.steps import publish, tick
from tests.fixtures.asking import ask, call, called, refused, writing_nothing

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.asking import Session

# ways to divide a text of odd length into halves that repeat: there are none, and very many to try
SLOW = r"e.payload ->> 'text' ~ '^(.*)(.*)(.*)(.*)(.*)\1\2\3\4\5$'"
ENDLESS = "x" * 301


def test_a_group_gets_the_events_that_its_condition_asks_for(session: Session) -> None:
    wanted = subscribe(session, condition="e.topic = 'order' and (e.payload ->> 'total')::int > 10")
    for total in (5, 15, 25):
        publish(session, "order", {"total": total})
    publish(session, "visit", {"total": 50})

    assert received(session) == [{"total": 15}, {"total": 25}]
    assert {tuple(one.subscriptions) for one in read(session)} == {(wanted,)}


@pytest.mark.parametrize(
    "condition",
    ["e.topic in ('a', 'b')", "e.topic = any (array['a', 'b'])", "e.topic <> all (array['c'])"],
)
def test_a_condition_may_ask_for_one_of_several(session: Session, condition: str) -> None:
    subscribe(session, condition=condition)
    for topic in "abc":
        publish(session, topic, topic)

    assert received(session) == ["a", "b"]


def test_an_event_carries_what_was_published(session: Session) -> None:
    subscribe(session)
    identity = publish(session, "order", [1, "two", None], key="k", metadata={"by": "me"})

    match(session)

    (one,) = read(session)
    assert (one.event_id, one.topic, one.key) == (identity, "order", "k")
    assert (one.payload, one.metadata, one.position) == ([1, "two", None], {"by": "me"}, 1)


def test_the_groups_that_got_something_are_woken(
    session: Session, connect: Callable[..., Session]
) -> None:
    subscribe(session, "orders", {"topic": "order"})
    subscribe(session, "visits", {"topic": "visit"})
    listener = connect()
    listener.execute("listen trunkline")
    publish(session, "order")

    match(session)

    heard = {notice.payload for notice in listener.notifies(timeout=5, stop_after=2)}
    group, lane = session.execute("select group_id, lane from trunkline.delivery").fetchone() or ()
    assert heard == {"broker:tick", f"broker:group:{group}:{lane}"}


def test_params_decide_with_the_condition(session: Session) -> None:
    condition = "(e.payload ->> 'share')::float > (s.params ->> 'least')::float"
    subscribe(session, "half", condition, {"least": 0.5})
    subscribe(session, "any", condition, {"least": 0})
    subscribe(session, "none", "false")
    for share in (0.7, 0.3):
        publish(session, "order", {"share": share})

    assert received(session, "half") == [{"share": 0.7}]
    assert received(session, "any") == [{"share": 0.7}, {"share": 0.3}]
    assert received(session, "none") == []


def test_an_event_that_two_subscriptions_of_a_group_want_is_one_event(session: Session) -> None:
    ours = [subscribe(session, condition={"topic": topic}) for topic in ("order", "order.#")]
    publish(session, "order")

    match(session)

    assert [sorted(one.subscriptions) for one in read(session)] == [sorted(ours)]


def test_a_subscription_gets_nothing_from_before_it_was_made(session: Session) -> None:
    publish(session, "order", "before")
    tick(session)
    subscribe(session)
    publish(session, "order", "after")

    assert received(session) == ["after"]


def test_what_was_published_but_not_numbered_when_it_was_made_is_delivered(
    session: Session,
) -> None:
    publish(session, "order", "unnumbered")
    subscribe(session)

    assert received(session) == ["unnumbered"]


def test_a_subscription_may_begin_with_the_history(session: Session) -> None:
    for number in range(25):
        publish(session, "order", number)
    match(session)
    subscribe(session, from_position=6)
    publish(session, "order", "live")
    tick(session)

    call(session, "broker_catch_up", max_events=7)
    call(session, "broker_match")
    while call(session, "broker_catch_up", max_events=7)[0][0]:
        pass

    waiting = read(session)
    assert [one.payload for one in waiting] == [*range(5, 25), "live"]


def test_the_history_may_begin_at_a_time(session: Session) -> None:
    publish(session, "order", "early")
    match(session)
    moment = ask(session, "select clock_timestamp()")
    publish(session, "order", "late")
    match(session)

    subscribe(session, from_time=moment)

    assert received(session) == ["late"]


def test_a_direct_event_reaches_one_subscription_whatever_its_condition(session: Session) -> None:
    one = subscribe(session, "one", "false")
    subscribe(session, "all")
    publish(session, "order", "direct", subscription=one)

    assert received(session, "one") == ["direct"]
    assert received(session, "all") == []


def test_uncommitted_events_wait_and_hold_back_nobody(session: Session, other: Session) -> None:
    subscribe(session)
    publish(other, "order", "held")
    publish(session, "order", "free")

    assert received(session) == ["free"]
    other.commit()
    assert received(session) == ["free", "held"]


def test_500_events_of_one_transaction_come_in_the_order_of_writing(
    session: Session, other: Session
) -> None:
    subscribe(session)
    for number in range(500):
        publish(other, "order", number)
    other.commit()

    match(session)

    assert [one.payload for one in read(session)] == list(range(500))


def test_matching_and_reading_at_once_gives_every_event_once(
    connect: Callable[..., Session],
) -> None:
    session = connect()
    subscribe(session)
    session.execute(
        "select trunkline.broker_publish('order', to_jsonb(g)) from generate_series(1, 200) g"
    )
    tick(session)
    errors: list[Exception] = []

    def work() -> None:
        own = connect()
        try:
            while call(own, "broker_match", max_events=7)[0][0] or _behind(own):
                pass
        except Exception as error:
            errors.append(error)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert errors == []
    assert sorted(one.payload for one in read(session)) == list(range(1, 201))
    assert last_delivery(session) == 200


def _behind(session: Session) -> bool:
    return bool(ask(session, "select trunkline._broker_matched() < trunkline.broker_head()"))


def test_a_round_without_anything_new_writes_nothing(session: Session) -> None:
    subscribe(session)
    publish(session, "order")
    match(session)

    with writing_nothing(session):
        assert call(session, "broker_match")[0][0] == 0
        assert call(session, "broker_catch_up")[0][0] == 0


def test_a_round_that_is_rolled_back_is_done_again(session: Session, other: Session) -> None:
    subscribe(session)
    publish(session, "order", "once")
    tick(session)
    assert call(other, "broker_match")[0][0] == 1
    assert call(session, "broker_match")[0][0] == 0
    other.rollback()

    assert received(session) == ["once"]


def test_the_ring_of_deliveries_turns_between_two_rounds_and_not_during_one(
    session: Session, other: Session
) -> None:
    turn = "select trunkline._ring_rotate('delivery', clock_timestamp() + '1 hour')"
    call(session, "config_set", name="maintain.lock_timeout", value="1 millisecond")
    subscribe(session)
    publish(session, "order", 1)
    match(session)
    publish(session, "order", 2)
    tick(session)
    assert call(other, "broker_match")[0][0] == 1
    assert not ask(session, turn)
    other.commit()
    assert ask(session, turn)
    assert received(session) == [1, 2]


@pytest.mark.parametrize("condition", [None, "e.topic = 'order'", {"topic": "order"}])
def test_events_are_matched_alike_whether_few_or_many_small_or_large(
    session: Session, condition: str | dict[str, str] | None
) -> None:
    wanted = subscribe(session, condition=condition)
    for number, size in ((3, 1), (3, 10_000), (600, 1), (1, 1)):
        call(
            session,
            "broker_publish_many",
            topics=["order"] * number,
            payloads=[f'"{"x" * size}"'] * number,
            subscriptions=[*[None] * (number - 1), wanted],
        )
        assert match(session) == number
    assert [len(one.payload) for one in read(session)] == [1] * 3 + [10_000] * 3 + [1] * 601


@pytest.mark.parametrize("most", [10_000, 1_700, 400])
@pytest.mark.parametrize("disturbed", [False, True])
def test_many_events_are_matched_alike_whatever_was_held_or_rolled_back_among_them(
    session: Session, other: Session, disturbed: bool, most: int
) -> None:
    def write(writer: Session, first: int, last: int) -> None:
        writer.execute(
            "insert into trunkline.event (topic, payload)"
            " select 'order', jsonb_build_object('n', g) from generate_series(%s::int, %s) g",
            [first, last],
        )

    subscribe(session, condition="(e.payload ->> 'n')::int % 3 = 0")
    if disturbed:
        write(other, 1, 10)
        write(session, 11, 1_500)
        write(other, 1_501, 1_510)
        with session.transaction(force_rollback=True):
            write(session, 0, 9)
        write(session, 1_511, 4_000)
        other.commit()
    else:
        for first in range(1, 4_000, 100):
            write(session, first, first + 99)
    tick(session)

    assert match(session, max_events=most) == 4_000

    assert [one.payload["n"] for one in read(session)] == list(range(3, 4_001, 3))


def test_matching_is_refused_in_a_snapshot_of_its_own(session: Session) -> None:
    session.execute("begin isolation level repeatable read")
    with refused("TL400"):
        session.execute("select trunkline.broker_match()")


@pytest.mark.parametrize(
    ("condition", "payload"),
    [
        ("1 / (e.payload ->> 'n')::int > 0", {"n": 0}),
        ("(e.payload ->> 'n')::int = 1", {"n": "many"}),
    ],
)
def test_a_condition_that_fails_on_an_event_harms_only_itself(
    session: Session, condition: str, payload: object
) -> None:
    bad = subscribe(session, "bad", condition)
    subscribe(session, "good")
    publish(session, "order", {"n": 1})
    publish(session, "order", payload)
    publish(session, "order", {"n": 1})

    assert received(session, "good") == [{"n": 1}, payload, {"n": 1}]
    error, position = quarantined(session, bad) or ("", 0)
    assert position == 2
    assert "zero" in error or "integer" in error


def test_only_the_subscriptions_to_blame_are_quarantined(session: Session) -> None:
    condition = "(e.payload ->> 'n')::int % (s.params ->> 'by')::int = 0"
    subscriptions = {
        by: subscribe(session, f"by {by}", condition, {"by": by}) for by in (1, 0, 2, 3)
    }
    publish(session, "order", {"n": 6})

    match(session)

    blamed = [by for by, number in subscriptions.items() if quarantined(session, number)]
    assert blamed == [0]
    [shown] = called(session, "broker_quarantined")
    assert shown == {"group_name": "by 0", "subscriptions": 1}
    for by in (1, 2, 3):
        assert received(session, f"by {by}") == [{"n": 6}]


def test_a_subscription_that_is_resumed_gets_all_but_the_event_that_failed(
    session: Session,
) -> None:
    bad = subscribe(session, condition="1 / (e.payload)::int > -2")
    for number in (1, 0, -1):
        publish(session, "order", number)
    match(session)
    publish(session, "order", 5)
    match(session)
    assert received(session) == []

    call(session, "broker_resume", subscription=bad)

    assert received(session) == [1, -1, 5]
    assert quarantined(session, bad) is None


def test_a_subscription_that_is_resumed_leaves_every_event_behind_that_failed(
    session: Session,
) -> None:
    careless = subscribe(session, condition="10 / (e.payload ->> 'n')::int > 0")
    for number in (1, 0, 2, 0, 3, 0, 4):
        publish(session, "a", {"n": number})
    for position in (2, 4, 6):
        match(session)
        assert (quarantined(session, careless) or ())[1:] == (position,)
        call(session, "broker_resume", subscription=careless)

    assert received(session) == [{"n": number} for number in (1, 2, 3, 4)]


def test_a_subscription_that_is_resumed_with_its_event_fails_on_it_again(session: Session) -> None:
    bad = subscribe(session, condition="1 / (e.payload)::int > -2")
    publish(session, "order", 0)
    match(session)

    call(session, "broker_resume", subscription=bad, skip=False)
    match(session)

    assert (quarantined(session, bad) or ("", 0))[1] == 1


def test_subscriptions_that_come_and_go_lose_and_double_nothing(
    connect: Callable[..., Session],
) -> None:
    session = connect()
    stop = threading.Event()
    failed: list[Exception] = []

    def churn() -> None:
        own = connect()
        try:
            number = 0
            while not stop.is_set():
                number += 1
                made = subscribe(own, f"passing {number % 5}", f"e.key <> 'x{number}'")
                call(own, "broker_unsubscribe", subscription=made)
        except Exception as error:
            failed.append(error)

    subscribe(session, "staying", "e.topic like 'order%'")
    worker = threading.Thread(target=churn)
    worker.start()
    try:
        for number in range(40):
            publish(session, "order", number)
            match(session)
    finally:
        stop.set()
        worker.join()

    assert failed == []
    assert [one.payload for one in read(session, "staying")] == list(range(40))


def test_a_handler_whose_condition_changes_misses_no_event(session: Session) -> None:
    subscribe(session, condition={"topic": "order.*"}, handler="charge")
    publish(session, "order.paid", 1)
    tick(session)
    subscribe(session, condition={"topic": "order.#"}, handler="charge", replace=True)
    publish(session, "order.paid", 2)

    assert received(session, handler="charge") == [1, 2]
    assert ask(session, "select count(*) from trunkline.broker_subscription") == 1


def test_a_slow_condition_is_ended_by_the_time_limit_of_its_caller(session: Session) -> None:
    slow = subscribe(session, "slow", SLOW)
    subscribe(session, "quick")
    publish(session, "order", {"text": ENDLESS})
    tick(session)
    session.execute("set statement_timeout = '300ms'")

    with pytest.raises(psycopg.errors.QueryCanceled):
        call(session, "broker_match")
    condition = ask(
        session,
        "select condition_id from trunkline.broker_subscription where subscription = %s",
        [slow],
    )
    with pytest.raises(psycopg.errors.QueryCanceled):
        call(session, "broker_match_try", condition_id=condition)
    assert call(session, "broker_quarantine", error="too slow", condition_id=condition) == [(1,)]

    assert received(session, "quick") == [{"text": ENDLESS}]
    assert quarantined(session, slow) == ("too slow", None)


def test_a_subscription_that_catches_up_gets_every_event_of_every_tick(session: Session) -> None:
    many = "select trunkline.broker_publish_many(array_fill('a'::text, array[1500]),"
    for _ in range(3):
        session.execute(f"{many} array_fill('1'::jsonb, array[1500]))")
        tick(session)
    match(session)

    subscribe(session, from_position=1)
    match(session)

    assert sorted(one.position for one in read(session)) == list(range(1, 4501))


def test_a_subscription_whose_first_events_have_left_catches_up_once_with_the_others(
    session: Session,
) -> None:
    for number in range(8):
        publish(session, "a", number)
        tick(session)
    match(session)
    subscribe(session, from_position=1)
    session.execute("delete from trunkline.tick where sequence = 'event' and first_position < 4")

    match(session, max_events=3)

    assert sorted(one.position for one in read(session)) == [4, 5, 6, 7, 8]


def test_a_subscription_that_somebody_holds_lets_others_catch_up(
    session: Session, other: Session
) -> None:
    publish(session, "a")
    match(session)
    held = subscribe(session, "held", from_position=1)
    subscribe(session, from_position=1)
    other.execute(
        "select from trunkline.broker_subscription where subscription = %s for update", [held]
    )

    match(session)

    assert [one.topic for one in read(session)] == ["a"]
    assert call(session, "broker_quarantine", error="slow") == [(0,)]
    other.rollback()
    match(session)
    assert [one.topic for one in read(session, "held")] == ["a"]


@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_a_subscription_that_fails_while_somebody_holds_it_makes_nobody_wait(
    session: Session, other: Session, ends: str
) -> None:
    session.execute("set statement_timeout = '10s'")
    bad = subscribe(session, "bad", "1 / (e.payload)::int > -2")
    subscribe(session, "good")
    other.execute(
        "update trunkline.broker_subscription set expiry = '1 day' where subscription = %s", [bad]
    )
    for number in (1, 0, 2):
        publish(session, "a", number)
    assert received(session, "good") == [1, 0, 2]
    publish(session, "a", 3)
    assert received(session, "good") == [1, 0, 2, 3]

    getattr(other, ends)()

    match(session)
    assert (quarantined(session, bad) or ("", 0))[1] == 2
    call(session, "broker_resume", subscription=bad)
    assert received(session, "bad") == [1, 2, 3]


def test_a_slow_condition_is_set_aside_though_somebody_holds_a_subscription_of_it(
    session: Session, other: Session
) -> None:
    session.execute("set statement_timeout = '10s'")
    slow = subscribe(session, "slow", SLOW)
    subscribe(session, "quick")
    publish(session, "order", {"text": ENDLESS})
    tick(session)
    call(other, "broker_unsubscribe", subscription=slow)
    condition = ask(session, "select min(condition_id) from trunkline.broker_subscription")

    assert call(session, "broker_quarantine", error="too slow", condition_id=condition) == [(1,)]
    assert received(session, "quick") == [{"text": ENDLESS}]
    assert call(session, "broker_match_try", condition_id=condition) == [(None,)]

    other.commit()
    match(session)
    assert ask(session, "select count(*) from trunkline.broker_subscription_aside") == 0


def test_a_subscription_that_was_held_is_shown_in_quarantine_and_can_be_resumed_at_once(
    session: Session, other: Session
) -> None:
    bad = subscribe(session, condition="1 / (e.payload)::int > -2")
    other.execute(
        "update trunkline.broker_subscription set expiry = '1 day' where subscription = %s", [bad]
    )
    for number in (0, 1):
        publish(session, "a", number)
    match(session)
    [shown] = called(session, "broker_subscriptions")
    assert (shown["state"], shown["matched_up_to"], shown["error_position"]) == (
        "quarantined",
        0,
        1,
    )

    assert [group["subscriptions"] for group in called(session, "broker_quarantined")] == [1]

    other.rollback()

    call(session, "broker_resume", subscription=bad)
    assert received(session) == [1]
    assert list(called(session, "broker_quarantined")) == []


def test_what_a_subscription_that_is_set_aside_has_not_seen_stays(
    session: Session, other: Session
) -> None:
    bad = subscribe(session, "bad", "1 / (e.payload)::int > -2")
    call(session, "config_set", name="broker.retention", value="0")
    other.execute(
        "update trunkline.broker_subscription set expiry = '1 day' where subscription = %s", [bad]
    )
    publish(session, "a", 0)
    match(session)

    assert ask(session, "select trunkline._event_keep_from()") == 1


def test_a_position_to_begin_at_counts_though_the_matcher_was_there_before_the_commit(
    session: Session, other: Session
) -> None:
    publish(session, "a", 1)
    match(session)
    subscribe(other, from_position=2)
    publish(session, "a", 2)
    match(session)

    other.commit()

    assert received(session) == [2]


def test_a_handler_whose_condition_changes_misses_nothing_that_is_numbered_meanwhile(
    session: Session, other: Session, connect: Callable[..., Session]
) -> None:
    subscribe(session, condition="e.topic = 'a'", handler="h")
    publish(session, "a", 1)
    tick(session)
    subscribe(other, "audit", "e.topic in ('a', 'b')")  # holds the new condition until it commits
    changer = connect()
    with ThreadPoolExecutor(1) as threads:
        changed = threads.submit(
            subscribe, changer, condition="e.topic in ('a', 'b')", handler="h", replace=True
        )
        blocked(changer, by=other, watcher=session)
        publish(session, "a", 2)
        tick(session)
        other.rollback()
        changed.result(10)

    assert received(session, handler="h") == [1, 2]


def test_an_event_of_several_subscriptions_is_read_once_however_many_there_are(
    session: Session,
) -> None:
    call(session, "broker_group", group_name="billing", lanes=1)
    wanted = [subscribe(session, condition={"topic": "a"}, params={"n": n}) for n in range(3)]
    session.execute(
        "select trunkline.broker_publish_many(array_fill('a'::text, array[1100]),"
        " array_fill('1'::jsonb, array[1100]))"
    )
    match(session)

    found = read(session)

    assert [one.position for one in found] == list(range(1, 1101))
    assert {tuple(one.subscriptions) for one in found} == {tuple(wanted)}


def test_a_subscription_whose_history_has_left_is_matched_with_the_others(session: Session) -> None:
    publish(session, "a", 1)
    match(session)
    subscribe(session, condition={"topic": "a"}, from_position=1)
    publish(session, "a", 2)
    tick(session)
    session.execute("delete from trunkline.tick where sequence = 'event' and first_position = 1")

    assert ask(session, "select trunkline.broker_catch_up()") == 1
    assert ask(session, "select trunkline.broker_catch_up()") == 0
    assert received(session) == [2]
