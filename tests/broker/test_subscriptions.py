"""Subscriptions: the same content once, held by processes, in the caller's transaction."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Event
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest
from tests.broker.steps import RUN_AS_MATCHER, head, publish, tick
from tests.fixtures.asking import Session, ask, call, column, refused, writing_nothing

if TYPE_CHECKING:
    from collections.abc import Callable

BY_TOPIC = "e.topic = s.params ->> 'topic'"
MINUTE = timedelta(minutes=1)


def subscribe(
    session: Session,
    group: str = "watchers",
    condition: str | dict[str, Any] | None = BY_TOPIC,
    params: dict[str, Any] | None = None,
    **given: Any,
) -> int:
    """Subscribe a group; the number of the subscription."""
    rows = call(
        session,
        "broker_subscribe",
        group_name=group,
        condition=json.dumps(condition) if isinstance(condition, dict) else condition,
        params=json.dumps(params or {}),
        **given,
    )
    return int(rows[0][0])


def subscriptions(session: Session) -> list[int]:
    return column(session, "select subscription from trunkline.broker_subscriptions()")


def state(session: Session, subscription: int, name: str) -> Any:
    query = f"select {name} from trunkline.broker_subscriptions() where subscription = %s"
    return ask(session, query, [subscription])


def conditions(session: Session) -> int:
    return int(ask(session, "select count(*) from trunkline.broker_condition"))


def process(session: Session) -> UUID:
    """A process with a lease."""
    number = uuid4()
    session.execute("select trunkline.lease_renew(%s, 'test')", [number])
    return number


def end_lease(session: Session, process: UUID, ago: timedelta) -> None:
    """Stage what a process that died leaves behind."""
    session.execute(
        "update trunkline.lease set expires = clock_timestamp() - %s where process = %s",
        [ago, process],
    )


def expire(session: Session) -> None:
    assert ask(session, "select trunkline.broker_expire()") is False


def match(session: Session) -> None:
    tick(session)
    while ask(session, "select trunkline.broker_match()"):
        pass
    while ask(session, "select trunkline.broker_catch_up()"):
        pass


def delivered(session: Session, subscription: int) -> list[int]:
    """Positions that were found for a subscription, in the order of delivery."""
    return column(
        session,
        "select p from trunkline.delivery d cross join unnest(d.positions, d.subscriptions)"
        " with ordinality u (p, s, place) where s = %s order by d.first, place",
        [subscription],
    )


# Content


def test_the_same_content_is_the_same_subscription(session: Session) -> None:
    first = subscribe(session, params={"topic": "a", "n": 1})
    assert subscribe(session, params={"n": 1, "topic": "a"}) == first
    others = {
        subscribe(session, params={"topic": "b", "n": 1}),
        subscribe(session, params={"topic": "a", "n": 1.0}),
        subscribe(session, "others", params={"topic": "a", "n": 1}),
        subscribe(session, condition="e.topic = s.params->>'topic'", params={"topic": "a", "n": 1}),
        subscribe(session, condition={"topic": "a"}),
        subscribe(session, condition={"topic": "a"}, params={"n": 1}),
        subscribe(session, condition=None),
    }
    assert len(others) == 7
    assert first not in others
    assert subscribe(session, condition="") == subscribe(session, condition=None)
    assert subscribe(session, condition={}) == subscribe(session, condition=None)


def test_the_same_subscription_again_writes_nothing(session: Session) -> None:
    first = subscribe(session, params={"topic": "a"})
    rows = session.execute("select s.*, s.xmin from trunkline.broker_subscription s").fetchall()
    assert subscribe(session, params={"topic": "a"}) == first
    again = session.execute("select s.*, s.xmin from trunkline.broker_subscription s").fetchall()
    assert again == rows


def test_only_a_new_condition_changes_what_the_matcher_runs(session: Session) -> None:
    first = subscribe(session, params={"topic": "a"})
    assert conditions(session) == 1
    second = subscribe(session, params={"topic": "b"})
    assert conditions(session) == 1
    call(session, "broker_unsubscribe", subscription=second)
    assert conditions(session) == 1
    subscribe(session, condition="e.key is null")
    assert conditions(session) == 2
    call(session, "broker_unsubscribe", subscription=first)
    expire(session)
    assert column(session, "select condition from trunkline.broker_condition") == ["e.key is null"]


def test_a_collision_of_digests_merges_nothing(session: Session) -> None:
    subscribe(session, condition="true", params={"a": 1})
    session.execute("update trunkline.broker_condition set condition = 'false'")
    with refused("TL409"):
        subscribe(session, condition="true", params={"a": 1})
    session.execute("update trunkline.broker_condition set condition = 'true'")
    session.execute("update trunkline.broker_subscription set params = '{}'")
    with refused("TL409"):
        subscribe(session, condition="true", params={"a": 1})


def test_twenty_subscribers_at_once_find_each_other(
    session: Session, connect: Callable[..., Session]
) -> None:
    sessions = [connect() for _ in range(20)]
    with ThreadPoolExecutor(20) as threads:
        same = list(threads.map(lambda own: subscribe(own, params={"topic": "a"}), sessions))
        different = list(
            threads.map(
                lambda own: subscribe(own[1], condition=f"e.event_id > {own[0]}"),
                enumerate(sessions),
            )
        )
    assert len(set(same)) == 1
    assert len(set(different)) == 20
    assert len(subscriptions(session)) == 21
    assert conditions(session) == 21
    publish(session, "a")
    match(session)
    assert all(delivered(session, one) == [1] for one in [same[0], different[0]])


def test_a_subscription_of_a_rolled_back_transaction_never_was(
    session: Session, other: Session
) -> None:
    subscribe(other, params={"topic": "a"}, handler="reader")
    other.rollback()
    assert subscriptions(session) == []
    assert conditions(session) == 0
    assert column(session, "select group_name from trunkline.broker_groups()") == []


def test_a_subscriber_in_a_long_transaction_holds_up_nobody_with_other_content(
    session: Session, other: Session
) -> None:
    subscribe(session, params={"topic": "a"})
    subscribe(other, params={"topic": "b"})
    subscribe(other, "others", "e.key = 'x'")
    session.execute("set lock_timeout = '1s'")
    subscribe(session, params={"topic": "c"})
    subscribe(session, condition="e.key = 'y'")
    call(session, "broker_unsubscribe", subscription=subscribe(session, params={"topic": "a"}))
    expire(session)


@pytest.mark.parametrize(
    "given",
    [
        {"group": "new", "condition": {"topic": "t"}},
        {"group": "other", "condition": {"topic": "t", "key": "k"}},
        {"group": "old", "condition": {"topic": "t"}, "handler": "another"},
    ],
    ids=["the same group", "the same shape of condition", "a handler of the same group"],
)
def test_a_subscriber_waits_for_another_who_makes_the_same_but_not_for_ever(
    session: Session, other: Session, given: dict[str, Any]
) -> None:
    call(session, "config_set", name="broker.subscribe_patience", value="100 milliseconds")
    call(session, "broker_group", group_name="old")
    for group in ("new", "old"):
        subscribe(other, group, {"topic": "x", "key": "y"}, handler="one")

    with refused("TL409") as caught:
        subscribe(session, **given)

    assert "does not end" in str(caught.value)
    assert ask(session, "show lock_timeout") == "0"
    other.rollback()
    assert subscribe(session, **given)
    assert ask(session, "show lock_timeout") == "0"


# Matching


def test_a_subscription_gets_what_is_published_after_it_and_nothing_before(
    session: Session,
) -> None:
    publish(session, "a")
    tick(session)
    wanted = subscribe(session, params={"topic": "a"})
    publish(session, "a")
    publish(session, "b")
    match(session)
    assert delivered(session, wanted) == [2]


def test_a_subscription_may_begin_with_the_history(session: Session) -> None:
    for topic in "abab":
        publish(session, topic)
    tick(session)
    later = subscribe(session, params={"topic": "b"}, from_position=3)
    match(session)
    all_of_it = subscribe(session, "others", params={"topic": "b"}, from_position=1)
    assert state(session, all_of_it, "state") == "late"
    match(session)
    publish(session, "b")
    match(session)
    assert delivered(session, later) == [4, 5]
    assert delivered(session, all_of_it) == [2, 4, 5]
    assert state(session, all_of_it, "state") == "live"


def test_a_subscription_may_begin_at_a_time(session: Session) -> None:
    publish(session, "a")
    tick(session)
    moment = ask(session, "select clock_timestamp()")
    publish(session, "a")
    tick(session)
    wanted = subscribe(session, params={"topic": "a"}, from_time=moment)
    match(session)
    assert delivered(session, wanted) == [2]
    tomorrow = subscribe(session, condition=None, from_time=moment + timedelta(days=1))
    assert state(session, tomorrow, "from_position") == 3


def test_a_beginning_that_makes_no_sense_is_refused(session: Session) -> None:
    publish(session, "a")
    tick(session)
    for given in ({"from_position": 0}, {"from_position": 3}):
        with refused("TL422"):
            subscribe(session, **given)
    with refused("TL422"):
        subscribe(session, from_position=1, from_time=ask(session, "select now()"))
    session.execute("update trunkline.tick set first_position = 5")
    with refused("TL410") as caught:
        subscribe(session, from_position=4)
    assert "the first one there is 5" in str(caught.value)


def test_a_direct_event_reaches_one_subscription_whatever_its_condition(session: Session) -> None:
    one = subscribe(session, condition="false")
    two = subscribe(session, condition=None)
    publish(session, "a", subscription=one)
    match(session)
    assert delivered(session, one) == [1]
    assert delivered(session, two) == []


def test_the_same_condition_matches_each_subscription_by_its_params(session: Session) -> None:
    condition = "(e.payload ->> 'score')::float > (s.params ->> 'least')::float"
    half = subscribe(session, condition=condition, params={"least": 0.5})
    every = subscribe(session, condition=condition, params={"least": 0})
    never = subscribe(session, condition="false")
    publish(session, "a", {"score": 0.7})
    publish(session, "a", {"score": 0.3})
    match(session)
    assert [delivered(session, one) for one in (half, every, never)] == [[1], [1, 2], []]


def test_subscriptions_come_and_go_while_the_matcher_runs_and_miss_and_double_nothing(
    session: Session, connect: Callable[..., Session]
) -> None:
    """Each gets once what was published after its commit; with history, all there is."""
    over = Event()

    def keep(own: Session, *statements: str) -> None:
        while not over.is_set():
            for statement in statements:
                own.execute(statement)

    def come_and_go(own: Session, name: int) -> dict[int, int]:
        """Subscriptions, and the position from which on each must have all."""
        found: dict[int, int] = {}
        for number in range(12):
            late = {"from_position": 1} if number % 3 == 0 and head(own) else {}
            condition = BY_TOPIC if number % 2 else f"e.topic = 'a' and {name * 100 + number} >= 0"
            params = {"topic": "a", "number": number}
            one = subscribe(own, f"group {name}", condition, params, **late)
            found[one] = 1 if late else head(own) + 1
            if number % 4 == 3:
                call(own, "broker_unsubscribe", subscription=one)
                del found[one]
        return found

    with ThreadPoolExecutor(6) as threads:
        services = [
            threads.submit(keep, connect(), "select trunkline.broker_publish('a', '1')"),
            threads.submit(keep, connect(), "select trunkline.broker_tick()"),
            *[
                threads.submit(
                    keep,
                    connect(),
                    "select trunkline.broker_match(7)",
                    "select trunkline.broker_catch_up(50)",
                )
                for _ in range(2)
            ],
        ]
        try:
            comers = [threads.submit(come_and_go, connect(), name) for name in range(2)]
            wanted = comers[0].result(60) | comers[1].result(60)
        finally:
            over.set()
        for service in services:
            service.result(30)
    match(session)
    last = head(session)
    assert last > 10
    for one, first in wanted.items():
        got = delivered(session, one)
        assert len(got) == len(set(got))
        assert set(range(first, last + 1)) <= set(got)
        assert state(session, one, "state") == "live"


@pytest.mark.parametrize(
    ("condition", "payload"),
    [
        ("10 / (e.payload ->> 'n')::int = 5", {"n": 0}),
        ("(e.payload ->> 'n')::int = 5", {"n": "five"}),
        ("(s.params ->> 'n')::int = 5", {"n": 5}),
    ],
)
def test_a_condition_that_fails_is_set_aside_and_resumed_without_or_with_the_event(
    session: Session, condition: str, payload: Any
) -> None:
    bad = subscribe(session, condition=condition, params={"n": "x"})
    good = subscribe(session, condition="e.topic like '%x' or 5 % 2 = 1")
    publish(session, "a", payload)
    publish(session, "a", {"n": 2})
    match(session)
    assert delivered(session, good) == [1, 2]
    row = session.execute(
        "select state, error_position, error from trunkline.broker_subscriptions()"
        " where subscription = %s",
        [bad],
    ).fetchone()
    assert row is not None
    assert row[:2] == ("quarantined", 1)
    assert "(22" in row[2]
    assert call(session, "broker_resume", subscription=bad, skip=False) == [(1,)]
    match(session)
    assert state(session, bad, "error_position") == 1
    if "params" not in condition:
        call(session, "broker_resume", subscription=bad)
        match(session)
        assert state(session, bad, "state") == "live"
        assert delivered(session, bad) == ([2] if "10 /" in condition else [])
    with refused("TL409"):
        call(session, "broker_resume", subscription=good)
    with refused("TL404"):
        call(session, "broker_resume", subscription=999)


def test_the_event_to_blame_is_found_however_cheap_the_condition_is(session: Session) -> None:
    """Nothing but the order of evaluation keeps a cast from failing on other events."""
    bad = subscribe(session, condition="(e.payload)::boolean")
    for payload in (True, False, 5, True):
        publish(session, "a", payload)
    match(session)
    assert state(session, bad, "error_position") == 3
    call(session, "broker_resume", subscription=bad)
    match(session)
    assert delivered(session, bad) == [1, 4]


def test_a_condition_does_not_fail_on_what_it_was_never_meant_to_see(session: Session) -> None:
    condition = "(e.payload)::boolean or (s.params -> 'x')::boolean"
    publish(session, "a", "published before")
    tick(session)
    good = subscribe(session, condition=condition, params={"x": False})
    publish(session, "a", "for somebody else", subscription=subscribe(session, "others"))
    publish(session, "a", True)
    subscribe(session, condition="(s.params -> 'x')::text = e.topic", params={"x": "text"})
    match(session)
    assert delivered(session, good) == [3]
    assert state(session, good, "state") == "live"


# Looking up


def test_equality_is_found_by_index_among_a_hundred_thousand_subscriptions(
    session: Session,
) -> None:
    form = {"topic": "orders", "eq": {"payload.tenant": 77}}
    wanted = subscribe(session, condition=form)
    session.execute("set session_replication_role = replica")  # foreign keys take their time
    session.execute(
        "insert into trunkline.broker_subscription (group_id, condition_id, params, digest, given,"
        " key_hash, from_position)"
        " select s.group_id, s.condition_id, p.params, sha256(p.params::text::bytea), s.given,"
        " hash_record_extended(row((p.params #> '{c,0}'), (p.params #>> '{c,1}')), 0), 1"
        " from trunkline.broker_subscription s, generate_series(1000, 101000) n,"
        " lateral (select jsonb_build_object('c', jsonb_build_array(n, 'orders')) as params) p"
    )
    session.execute("reset session_replication_role")
    publish(session, "orders", {"tenant": 77})
    publish(session, "orders", {"tenant": 2000})
    match(session)
    assert delivered(session, wanted) == [1]
    assert ask(session, "select sum(n) from trunkline.delivery") == 2
    with session.transaction(force_rollback=True):
        session.execute("select trunkline._match_prepare()")
        session.execute("select trunkline._match_take(1, 10)")
        statement = ask(
            session, "select trunkline._match_statement(c) from trunkline.broker_condition c"
        )
        plan = "\n".join(column(session, "explain " + statement))
    by_hash = r"Index Cond: \(\(\S*condition_id = 1\) AND \(\S*key_hash = hash_record_extended\("
    assert re.search(by_hash, plan), plan


@pytest.mark.parametrize(
    ("condition", "key"),
    [
        (BY_TOPIC, "row(e.topic)"),
        ("s.params -> 't' = e.payload -> 't' and e.key = 'x'", "row((e.payload -> 't'::text))"),
        ("e.topic = s.group_name and (e.key = s.params ->> ')' or true)", "row(e.topic)"),
        ("(e.topic, e.key) = (s.group_name, s.params ->> 'k')", "row(e.topic, e.key)"),
        ("e.event_id = s.subscription", "row(e.event_id)"),
        ("lower(e.key) = lower(s.group_name)", "row(lower(e.key))"),
        ("e.topic = 'a = s.group_name) AND (' and e.key = s.group_name", "row(e.key)"),
        ("e.topic = 'a'", None),
        ("e.topic = e.key", None),
        ("e.topic <> s.group_name", None),
        ("not e.topic = s.group_name", None),
        ("e.topic = s.group_name or e.key = s.group_name", None),
        ('e.topic = s.group_name collate "C"', None),
        ("(e.payload ->> 'n')::int = (s.params ->> 'n')::int", None),
        ("case when e.key = 'a' then e.topic = s.group_name end", None),
    ],
)
def test_what_must_be_equal_is_looked_up_unless_that_could_fail(
    session: Session, condition: str, key: str | None
) -> None:
    subscribe(session, condition=condition)
    assert column(session, "select event_key from trunkline.broker_condition") == [key]
    way = ask(session, "select way from trunkline.broker_explain(%s)", [condition])
    assert way == ("scan" if key is None else "index")


def test_explain_tells_how_many_of_the_last_events_match_and_keeps_nothing(
    session: Session,
) -> None:
    for number in range(20):
        publish(session, "a", {"n": number})
    tick(session)

    def explain(condition: Any, **given: Any) -> tuple[Any, ...]:
        text = json.dumps(condition) if isinstance(condition, dict) else condition
        query = "select events, matches, error from trunkline.broker_explain(%s, %s, %s)"
        params = json.dumps(given.get("params", {}))
        row = session.execute(query, [text, params, given.get("max_events", 1000)]).fetchone()
        assert row is not None
        return row

    assert explain({"range": {"payload.n": {"gte": 15}}}) == (20, 5, None)
    assert explain({"range": {"payload.n": {"gte": 15}}}, max_events=2) == (2, 2, None)
    limit = "(e.payload -> 'n')::int >= (s.params -> 'n')::int"
    assert explain(limit, params={"n": 18}) == (20, 2, None)
    events, matches, error = explain("1 / (e.payload -> 'n')::int = 1")
    assert (events, matches) == (20, None)
    assert "division by zero" in error
    assert explain("true", max_events=0) == (0, 0, None)
    assert conditions(session) == 0
    assert ask(session, "select count(*) from pg_class where relname ~ 'trunkline_explain'") == 0
    with refused("TL422"):
        explain("exists (select 1)")
    with refused("TL422"):
        explain("true", max_events=-1)


# Expiry


def test_the_longer_expiry_wins_and_none_wins_over_any(session: Session) -> None:
    one = subscribe(session, expiry=MINUTE)
    for expiry, becomes in ((2 * MINUTE, 2 * MINUTE), (MINUTE, 2 * MINUTE), (None, None)):
        assert subscribe(session, expiry=expiry) == one
        assert state(session, one, "expiry") == becomes
    subscribe(session, expiry=MINUTE)
    assert state(session, one, "expiry") is None
    for beyond in (timedelta(0), "10000 years"):
        with refused("TL422"):
            subscribe(session, expiry=beyond)


def test_a_subscription_goes_when_nobody_has_held_it_for_its_expiry(session: Session) -> None:
    gone = subscribe(session, "short", expiry=MINUTE, process=(dead := process(session)))
    kept = subscribe(session, "long", expiry=60 * MINUTE, process=dead)
    held = subscribe(session, "held", expiry=MINUTE, process=dead)
    call(session, "broker_hold", subscription=held, process=process(session))
    lasting = subscribe(session, "lasting")
    expire(session)
    assert subscriptions(session) == [gone, kept, held, lasting]
    end_lease(session, dead, 5 * MINUTE)
    expire(session)
    expire(session)
    assert subscriptions(session) == [kept, held, lasting]
    assert state(session, held, "holders") == 1
    assert column(session, "select group_name from trunkline.broker_groups()") == [
        "held",
        "lasting",
        "long",
    ]


def test_a_process_that_lives_keeps_its_subscription_beyond_the_expiry(session: Session) -> None:
    one = subscribe(session, expiry=MINUTE, process=process(session))
    session.execute(
        "update trunkline.broker_subscription set created_at = now() - interval '1 day'"
    )
    expire(session)
    assert subscriptions(session) == [one]
    with writing_nothing(session):
        expire(session)


def test_without_a_process_the_expiry_counts_from_the_last_call(session: Session) -> None:
    one = subscribe(session, expiry=MINUTE)
    stage = "update trunkline.broker_subscription set idle_since = now() - interval '59 seconds'"
    session.execute(stage)
    expire(session)
    assert subscribe(session, expiry=MINUTE) == one
    session.execute(stage.replace("59", "50"))
    expire(session)
    assert subscriptions(session) == [one]
    session.execute(stage.replace("59", "61"))
    expire(session)
    assert subscriptions(session) == []


def test_a_process_that_comes_back_finds_its_subscription(session: Session) -> None:
    one = subscribe(session, expiry=MINUTE, process=(first := process(session)))
    session.execute("select trunkline.lease_end(%s)", [first])
    expire(session)
    assert state(session, one, "idle_since") is not None
    call(session, "broker_hold", subscription=one, process=process(session))
    assert state(session, one, "idle_since") is None


def test_holding_needs_a_lease_and_a_subscription(session: Session) -> None:
    one = subscribe(session)
    with refused("TL423"):
        call(session, "broker_hold", subscription=one, process=uuid4())
    with refused("TL404"):
        call(session, "broker_hold", subscription=999, process=process(session))


def test_a_group_that_nobody_reads_is_seen_and_goes_at_last(session: Session) -> None:
    call(session, "config_set", name="broker.abandoned_after", value="30 days")
    subscribe(session, "left", handler="reader")
    subscribe(session, "used", handler="reader")
    call(session, "broker_join", group_name="used", handler="reader", process=process(session))
    expire(session)
    idle = "select group_name from trunkline.broker_groups() where idle_since is not null"
    assert column(session, idle) == ["left"]
    with writing_nothing(session):
        expire(session)
    session.execute("update trunkline.broker_group set idle_since = now() - interval '31 days'")
    expire(session)
    assert column(session, "select group_name from trunkline.broker_groups()") == ["used"]
    assert column(session, idle) == []


def test_unsubscribing_says_whether_there_was_something_to_end(session: Session) -> None:
    one = subscribe(session)
    assert call(session, "broker_unsubscribe", subscription=one) == [(True,)]
    assert call(session, "broker_unsubscribe", subscription=one) == [(False,)]


def test_subscriptions_are_listed_as_they_were_given(session: Session) -> None:
    subscribe(session, "a", params={"topic": "x"})
    subscribe(session, "b", condition={"topic": "orders.*"}, expiry=MINUTE)
    rows = session.execute(
        "select group_name, condition, params, way, state, expiry"
        " from trunkline.broker_subscriptions()"
    ).fetchall()
    assert rows == [
        ("a", BY_TOPIC, {"topic": "x"}, "index", "live", None),
        ("b", '{"topic": "orders.*"}', {}, "scan", "live", MINUTE),
    ]
    assert len(call(session, "broker_subscriptions", group_name="a")) == 1
    with refused("TL404"):
        call(session, "broker_subscriptions", group_name="c")


def test_a_handler_is_made_with_its_subscription(session: Session) -> None:
    subscribe(session, handler="reader", ordering="skip")
    row = session.execute("select handler, ordering from trunkline.broker_handler").fetchone()
    assert row == ("reader", "skip")
    with refused("TL422"):
        subscribe(session, ordering="skip")


# Rights


def test_without_the_role_of_conditions_only_the_json_form_is_accepted(session: Session) -> None:
    with session.transaction(force_rollback=True):
        for function in RUN_AS_MATCHER:
            session.execute(f"alter function trunkline.{function} owner to current_user")
        with refused("TL422") as caught, session.transaction():
            subscribe(session)
        assert "create role trunkline_matcher nologin" in str(caught.value)
        wanted = subscribe(session, condition={"topic": "a"})
        publish(session, "a")
        assert ask(session, "select matches from trunkline.broker_explain('{}')") == 0
        assert subscriptions(session) == [wanted]
        session.execute("select trunkline.roles_grant()")
        subscribe(session)


def test_a_condition_in_sql_never_runs_as_anybody_else(session: Session) -> None:
    """After a restore into a server without the role the functions belong to whoever restored."""
    wanted = subscribe(session)
    plain = subscribe(session, condition={"topic": "a"})
    publish(session, "a")
    owner = ask(session, "select current_user")
    session.execute(f"alter function trunkline.{RUN_AS_MATCHER[0]} owner to {owner}")
    try:
        match(session)
    finally:
        session.execute("select trunkline.roles_grant()")
    assert delivered(session, plain) == [1]
    assert "not as" in state(session, wanted, "error")
    call(session, "broker_resume", subscription=wanted, skip=False)
    match(session)
    assert state(session, wanted, "state") == "live"


def test_whoever_may_read_may_subscribe_and_the_others_may_not(
    session: Session, connect: Callable[..., Session]
) -> None:
    name = f"user_{uuid4().hex}"
    session.execute(f"create role {name}")
    try:
        own = connect()
        own.execute(f"set session authorization {name}")
        with refused("42501"):
            subscribe(own)
        session.execute(f"grant trunkline_reader to {name}")
        wanted = subscribe(own, condition="e.topic = 'a' and e.key is null")
        assert call(own, "broker_subscriptions") != []
        assert ask(own, "select way from trunkline.broker_explain('e.topic = s.group_name')")
        publish(session, "a")
        match(session)
        assert delivered(session, wanted) == [1]
        with refused("42501"):
            own.execute("set role trunkline_matcher")
        own.close()
    finally:
        session.execute(f"drop role {name}")


def test_a_slow_condition_is_resumed_without_leaving_out_an_event(session: Session) -> None:
    slow = subscribe(session, condition="e.topic = 'a'")
    publish(session, "a")
    tick(session)
    number = ask(session, "select condition_id from trunkline.broker_conditions()")
    assert call(session, "broker_quarantine", error="took long", condition_id=number) == [(1,)]
    publish(session, "a")
    match(session)
    assert delivered(session, slow) == []
    call(session, "broker_resume", subscription=slow)
    match(session)
    assert delivered(session, slow) == [1, 2]


@pytest.mark.parametrize("name", ["broker_lag", "broker_dead_list", "broker_subscriptions"])
def test_a_group_that_is_not_there_is_not_one_with_nothing_to_show(
    session: Session, name: str
) -> None:
    with refused("TL404"):
        call(session, name, group_name="nobody")
    subscribe(session, "somebody")
    call(session, name, group_name="somebody")
    call(session, name)


def test_the_expiry_counts_from_when_it_was_last_held(session: Session) -> None:
    holder = process(session)
    one = subscribe(session, expiry=MINUTE, process=holder)
    end_lease(session, holder, timedelta(seconds=1))
    expire(session)  # notes since when nobody holds it
    session.execute("select trunkline.lease_renew(%s, 'test')", [holder])
    expire(session)
    session.execute(
        "update trunkline.broker_subscription set idle_since = idle_since - interval '1 day'"
    )

    end_lease(session, holder, timedelta(seconds=1))
    expire(session)
    expire(session)

    assert subscriptions(session) == [one]
