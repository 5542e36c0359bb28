"""What zones wrote comes to the same everywhere, in whatever order and however often it arrives."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fixtures.asking import ask
from tests.kv.sql_steps import (
    Copy,
    clock,
    delete,
    get,
    head,
    ordered,
    patch,
    pull,
    put,
    same,
    scan,
    set_clock,
    settle,
    stamps,
    states,
    stop_clock,
)

KEYS = ("j", "k")
FIELDS = ("x", "y")
EMPTY = "delete from trunkline.kv_entry; delete from trunkline.kv_counter"
MERGE = "select trunkline._kv_merge(%s, 1)"

keys = st.sampled_from(KEYS)
documents = st.one_of(
    st.integers(0, 9),
    st.dictionaries(st.sampled_from([*FIELDS, "z"]), st.one_of(st.integers(0, 9), st.just("word"))),
)
offsets = st.dictionaries(
    st.sampled_from(FIELDS), st.one_of(st.integers(-9, 9), st.none()), min_size=1
)
lives = st.sampled_from([None, timedelta(hours=1), timedelta(hours=2)])
acts = st.one_of(
    st.tuples(st.just("put"), keys, documents, lives),
    st.tuples(st.just("delete"), keys, st.none(), st.none()),
    st.tuples(st.just("patch"), keys, offsets, lives),
    st.tuples(st.just("pull"), st.integers(0, 2), st.none(), st.none()),
    st.tuples(st.just("clock"), st.integers(-20, 20), st.none(), st.none()),
)
stories = st.lists(st.tuples(st.integers(0, 2), acts), min_size=2, max_size=12)
often = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def act(zones: list[Copy], number: int, step: tuple[str, Any, Any, Any]) -> None:
    """Do one thing in a zone, if it can be done."""
    kind, subject, what, ttl = step
    session = zones[number].session
    if kind == "put":
        put(session, subject, what, ttl=ttl)
    elif kind == "delete":
        delete(session, subject)
    elif kind == "clock":
        set_clock(session, subject)
    elif kind == "patch":
        shown = get(session, subject)
        if isinstance(shown, dict | None) and "word" not in (shown or {}).values():
            patch(session, what, subject, ttl=ttl)
    elif subject != number:
        take(zones[subject], zones[number])


def take(frm: Copy, to: Copy) -> None:
    """Bring all states at once, as text: Python does not look at them."""
    told = ask(
        frm.session,
        "select coalesce(jsonb_agg(trunkline._kv_state(e)), '[]')::text from trunkline.kv_entry e"
        " where e.namespace <> 'parade'",
    )
    to.session.execute(MERGE, [told])


def empty(zones: list[Copy]) -> None:
    for zone in zones:
        zone.session.execute(EMPTY)
        set_clock(zone.session, 0)


def everything(zone: Copy) -> tuple[list[Any], dict[str, Any]]:
    return ordered(states(zone.session)), scan(zone.session)


@given(story=stories, order=st.randoms(use_true_random=False))
@often
def test_any_order_any_repetition_and_any_grouping_come_to_the_same(
    zones: list[Copy], story: list[tuple[int, Any]], order: Any
) -> None:
    empty(zones)
    seen: list[dict[str, Any]] = []
    for number, step in story:
        act(zones, number, step)
        seen += states(zones[number].session)
    seen = [state for n, state in enumerate(seen) if state not in seen[:n]]
    results = []
    for zone in zones:
        zone.session.execute(EMPTY)
        arriving = seen + order.choices(seen, k=3) if seen else []
        order.shuffle(arriving)
        while arriving:
            group: dict[str, Any] = {}
            for state in arriving[: order.randint(1, 4)]:
                group.setdefault(state["key"], state)
            arriving = [state for state in arriving if state not in list(group.values())]
            zone.session.execute(MERGE, [json.dumps(list(group.values()))])
        results.append(everything(zone))
    assert results[0] == results[1] == results[2]


@given(story=stories)
@often
def test_zones_that_heard_of_each_other_are_the_same(
    zones: list[Copy], story: list[tuple[int, Any]]
) -> None:
    empty(zones)
    for number, step in story:
        act(zones, number, step)
    for _ in range(2):
        for frm in zones:
            for to in zones:
                take(frm, to)
    same(*zones)
    before = [everything(zone) for zone in zones]
    take(zones[0], zones[1])
    assert [everything(zone) for zone in zones] == before


@given(
    story=st.lists(
        st.tuples(st.integers(0, 2), st.integers(-9, 9), st.booleans(), st.integers(0, 2)),
        min_size=1,
        max_size=20,
    )
)
@often
def test_increments_of_all_zones_add_up_exactly(
    zones: list[Copy], story: list[tuple[int, int, bool, int]]
) -> None:
    empty(zones)
    for number, amount, told, to in story:
        patch(zones[number].session, {"x": amount})
        if told and to != number:
            take(zones[number], zones[to])
    for frm in (*zones, *zones):
        for to in zones:
            take(frm, to)
    total = sum(amount for _, amount, _, _ in story)
    assert [get(zone.session) for zone in zones] == [{"x": total}] * 3


def test_equal_stamps_converge(zones: list[Copy]) -> None:
    at = clock(zones[0].session)
    for zone in zones:
        stop_clock(zone.session, at)
        put(zone.session, "k", zone.name)
        patch(zone.session, {"n": 1}, "counted")
    delete(zones[0].session, "gone")
    put(zones[1].session, "gone", 1)
    put(zones[0].session, "mixed", {"n": 10})
    patch(zones[1].session, {"n": 1}, "mixed")
    assert len({stamps(zone.session)[0] for zone in zones}) == 1
    settle(*zones)
    shown = same(*zones)
    assert shown["k"] == max(zones, key=lambda zone: zone.origin).name
    assert shown["counted"] == {"n": 3}
    assert shown["mixed"] == {"n": 11}


def test_merging_the_same_again_writes_nothing(zones: list[Copy]) -> None:
    a, b, _ = zones
    put(a.session)
    patch(a.session, {"n": 1}, "counted")
    delete(a.session, "gone")
    take(a, b)
    before = ask(b.session, "select array_agg(e.ctid::text order by key) from trunkline.kv_entry e")
    seen = head(b.session)
    assert ask(b.session, MERGE, [json.dumps(states(a.session))]) == 0
    assert (
        ask(b.session, "select array_agg(e.ctid::text order by key) from trunkline.kv_entry e")
        == before
    )
    pull(b, a)
    assert head(b.session) >= seen


def test_a_put_ends_what_its_zone_knew_and_no_more(zones: list[Copy]) -> None:
    a, b, c = zones
    patch(a.session, {"n": 5})
    settle(*zones)
    patch(b.session, {"n": 2})
    put(a.session, "k", {"n": 100})
    set_clock(c.session, 10)
    patch(c.session, {"n": 1})  # after the put, but without having heard of it
    settle(*zones)
    assert same(*zones) == {"k": {"n": 103}}


def test_an_added_number_survives_a_delete_that_did_not_know_of_it(zones: list[Copy]) -> None:
    a, b, _ = zones
    patch(a.session, {"n": 5})
    settle(*zones)
    delete(a.session)
    set_clock(b.session, 10)
    patch(b.session, {"n": 1})
    settle(*zones)
    assert same(*zones) == {"k": {"n": 1}}


def test_a_field_that_was_removed_keeps_what_was_added_meanwhile(zones: list[Copy]) -> None:
    a, b, _ = zones
    patch(a.session, {"n": 5, "m": 1})
    settle(*zones)
    patch(a.session, {"n": None})
    patch(b.session, {"n": 2})
    settle(*zones)
    assert same(*zones) == {"k": {"m": 1, "n": 2}}


def test_no_two_zones_together_make_a_key_unreadable(zones: list[Copy]) -> None:
    a, b, _ = zones
    put(a.session, "k", {"n": 1})
    take(a, b)
    a.session.execute(
        "select trunkline.kv_put('default', 'k',"
        " jsonb_build_object('n', repeat('9', 131072)::numeric))"
    )
    set_clock(b.session, 10)
    patch(b.session, {"n": 1})
    take(a, b)
    take(b, a)
    assert [get(zone.session) for zone in (a, b)] == [{"n": 1}] * 2
