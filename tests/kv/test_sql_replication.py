"""Zones tell each other what changed: everything arrives, nothing comes back, nobody waits."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from tests.fixtures.asking import ask, call, called, column, connections, refused, writing_nothing
from tests.kv.sql_steps import (
    SECOND,
    STALE,
    Copy,
    apply,
    changes,
    clock,
    configure,
    confirm,
    copied,
    copy_begin,
    delete,
    epoch,
    expire,
    export,
    forget,
    get,
    head,
    heard,
    patch,
    pull,
    pulled,
    put,
    put_many,
    remembered,
    same,
    scan,
    set_clock,
    settle,
    stamps,
    tick,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures.asking import Session

HOUR = timedelta(hours=1)


@pytest.fixture
def connect_a(zone_dsns: list[str]) -> Iterator[Callable[..., Session]]:
    """Open connections to the database of the first zone."""
    with connections(zone_dsns[0]) as open_one:
        yield open_one


def lose(zone: Copy, peer: Copy) -> None:
    """Let a zone not have heard of another for eight days, which was named long ago."""
    zone.session.execute(
        "update trunkline.kv_peer set asked_at = asked_at - interval '8 days',"
        " heard_at = heard_at - interval '8 days' where instance = %s",
        [peer.instance],
    )
    zone.session.execute(
        "update trunkline.kv_entry set stamp = 1 where namespace = 'parade' and key = %s",
        [f"instance/{peer.instance}"],
    )
    zone.session.execute(STALE)


# Arriving


def test_what_one_zone_writes_arrives_in_the_others(zones: list[Copy]) -> None:
    a, b, c = zones
    settle(*zones)
    put(a.session, "k", {"a": [1, None]}, ttl=HOUR)
    put(b.session, "null", None)
    patch(c.session, {"n": 0.5}, "counted", ttl=HOUR)
    settle(*zones)
    assert same(*zones) == {"k": {"a": [1, None]}, "null": None, "counted": {"n": 0.5}}


def test_deletes_arrive(zones: list[Copy]) -> None:
    a, b, _ = zones
    put(a.session)
    settle(*zones)
    delete(b.session)
    delete(b.session, "never there")
    settle(*zones)
    assert same(*zones) == {}
    assert remembered(a.session) == ["k", "never there"]


def test_concurrent_puts_converge_to_the_last(zones: list[Copy]) -> None:
    for zone in zones:
        put(zone.session, "k", zone.name)
    settle(*zones)
    assert same(*zones) == {"k": "c"}


def test_applying_the_same_range_again_changes_nothing(zones: list[Copy]) -> None:
    a, b, _ = zones
    pull(a, b)
    after = head(a.session)
    put(a.session)
    patch(a.session, {"n": 1}, "counted")
    tick(a.session)
    told = export(a, b, after)
    assert apply(b, a, told.states)[0] == 2
    tick(b.session)
    seen = head(b.session)
    assert apply(b, a, told.states) == (0, 0)
    assert tick(b.session) == 0
    assert head(b.session) == seen
    assert scan(b.session) == {"k": 1, "counted": {"n": 1}}


def test_times_far_away_and_odd_keys_arrive(zones: list[Copy]) -> None:
    a, b, _ = zones
    a.session.execute("select trunkline.kv_put('default', 'k', '1', ttl => '7000 years')")
    a.session.execute("select trunkline.kv_put('default', 'half', '1', ttl => '1.234567 hours')")
    put_many(a.session, {'q"\\u0000': "\\", "ä€😀\n": "ä€😀\n", "/": 1})
    pull(a, b)
    same(a, b)


def test_a_transaction_that_was_open_for_long_still_arrives(
    zones: list[Copy], connect_a: Callable[..., Session]
) -> None:
    """Also what began before and was committed after all that was told."""
    a, b, _ = zones
    slow = connect_a(autocommit=False)
    put(slow, "slow", 1)
    for number in range(5):
        put(a.session, "quick", number)
        pull(a, b)
    assert scan(b.session) == {"quick": 4}
    put(slow, "slower", 1)
    slow.commit()
    pull(a, b)
    assert same(a, b) == {"quick": 4, "slow": 1, "slower": 1}


def test_a_prepared_transaction_arrives_when_it_is_committed(
    zones: list[Copy], connect_a: Callable[..., Session]
) -> None:
    a, b, _ = zones
    writer = connect_a(autocommit=False)
    put(writer, "k", 1)
    writer.execute("prepare transaction 'kv'")
    pull(a, b)
    assert scan(b.session) == {}
    writer.commit()
    a.session.execute("commit prepared 'kv'")
    pull(a, b)
    assert scan(b.session) == {"k": 1}


def test_a_zone_tells_what_came_from_others_but_not_to_those(zones: list[Copy]) -> None:
    a, b, c = zones
    settle(*zones)
    after = head(b.session)
    put(a.session)
    pull(a, b)
    tick(b.session)
    assert export(b, a, after).states == []
    assert [state["key"] for state in export(b, c, after).states] == ["k"]
    pull(b, c)
    assert get(c.session) == 1


def test_a_key_that_changed_often_is_told_once_as_it_is(zones: list[Copy]) -> None:
    a, b, _ = zones
    pull(a, b)
    after = head(a.session)
    for number in range(5):
        put(a.session, "k", number)
    tick(a.session)
    told = export(a, b, after)
    assert [(state["key"], state["value"]) for state in told.states] == [("k", [4])]
    assert (told.up_to, told.head) == (after + 5, after + 5)


def test_changes_are_told_in_parts(zones: list[Copy]) -> None:
    a, b, _ = zones
    pull(a, b)
    after = head(a.session)
    put_many(a.session, {f"{number:03}": number for number in range(25)})
    tick(a.session)
    found: list[str] = []
    while (told := export(a, b, after, max_changes=10)).up_to > after:
        assert len(told.states) <= 10
        assert told.up_to <= after + 10
        found += [state["key"] for state in told.states]
        after = told.up_to
    assert found == [f"{number:03}" for number in range(25)]


def test_large_values_are_told_in_parts_of_some_megabytes(zones: list[Copy]) -> None:
    a, b, _ = zones
    pull(a, b)
    after = head(a.session)
    a.session.execute(
        "select trunkline.kv_put('default', 'k' || g, to_jsonb(repeat(md5(g::text), 31000)))"
        " from generate_series(1, 12) g"
    )
    tick(a.session)
    told = export(a, b, after)
    assert 1 < len(told.states) < 12
    assert told.up_to == after + len(told.states)
    pull(a, b)
    assert len(scan(b.session)) == 12


def test_only_what_belongs_to_the_parade_is_told_in_that_scope(zones: list[Copy]) -> None:
    a, b, _ = zones
    pull(a, b)
    after = head(a.session)
    put(a.session)
    call(a.session, "kv_namespace_put", namespace="more")
    tick(a.session)
    told = export(a, b, after, scope="parade")
    assert [state["namespace"] for state in told.states] == ["parade"]
    assert told.up_to == told.head
    assert {state["namespace"] for state in copied(a, b, scope="parade")[2]} == {"parade"}


def test_one_configuration_reaches_every_zone(zones: list[Copy]) -> None:
    a, b, c = zones
    settle(*zones)
    call(a.session, "kv_namespace_put", namespace="carts")
    call(b.session, "kv_policy_put", namespace="default", policy="short", keep=HOUR)
    call(c.session, "kv_instance_put", zone="d", shard="s", dsn="dbname=d")
    settle(*zones)
    for name in ("kv_policies", "kv_local_replication_topology"):
        assert len({len(call(zone.session, name)) for zone in zones}) == 1
    assert [row[:3] for row in call(c.session, "kv_policies")] == [
        ("carts", None, None),
        ("default", "short", HOUR),
    ]
    assert put(c.session, "k", 1, namespace="carts") == "INSERT"
    assert column(a.session, "select zone from trunkline.kv_topology()") == ["a", "b", "c", "d"]


# A new zone


@pytest.mark.parametrize("max_at_once", [1, 3, 2000])
def test_a_new_zone_gets_everything_there_ever_was(zones: list[Copy], max_at_once: int) -> None:
    a, b, c = zones
    put_many(a.session, {str(number): number for number in range(7)})
    put(b.session, "of b", 1)
    patch(a.session, {"n": 3}, "counted")
    pull(b, a)
    delete(a.session, "3")
    pull(a, c, max_at_once=max_at_once)
    expected = {str(number): number for number in range(7) if number != 3}
    assert same(a, c) == {**expected, "of b": 1, "counted": {"n": 3}}
    assert remembered(c.session) == remembered(a.session)


def test_what_changes_while_it_is_copied_arrives_too(zones: list[Copy]) -> None:
    a, b, _ = zones
    put_many(a.session, {"a": 1, "z": 1})
    state = copy_begin(a, b)
    up_to = state.pop("up_to")
    part = copied(a, b, max_keys=2000)
    put(a.session, "a", 2)
    delete(a.session, "z")
    put(a.session, "new", 1)
    apply(b, a, part[2], up_to=up_to, state={**state, "copied": True})
    assert scan(b.session) == {"a": 1, "z": 1}
    pull(a, b)
    assert same(a, b) == {"a": 2, "new": 1}


def test_who_has_not_begun_with_a_copy_is_told_nothing(zones: list[Copy]) -> None:
    a, b, _ = zones
    put(a.session)
    tick(a.session)
    for attempt in (
        lambda: export(a, b, 0),
        lambda: copied(a, b),
        lambda: confirm(a, b, 0),
        lambda: call(
            a.session, "kv_bucket", instance="b/s", origin=b.origin, buckets=1, chosen=[0]
        ),
    ):
        with refused("TL410"):
            attempt()
    pull(a, b)
    call(b.session, "kv_begin_anew", origin=b.origin)
    with refused("TL410"):  # another life of it
        export(a, b, 0)


def test_strangers_are_told_nothing(zones: list[Copy]) -> None:
    a, *_ = zones
    for name, arguments in (
        ("kv_hello", {}),
        ("kv_copy_begin", {"origin": 1}),
        ("kv_export", {"origin": 1, "after_position": 0}),
        ("kv_confirm", {"origin": 1, "up_to": 0}),
    ):
        with refused("TL404"):
            call(a.session, name, instance="nobody/s", **arguments)


def test_a_peer_that_was_away_for_too_long_begins_anew(zones: list[Copy]) -> None:
    a, b, _ = zones
    pull(a, b)
    a.session.execute("update trunkline.kv_peer set asked_at = asked_at - interval '8 days'")
    with refused("TL410"):
        export(a, b, head(a.session))
    before = b.origin
    origin = call(b.session, "kv_begin_anew", origin=before)[0][0]
    assert origin == b.origin != before
    assert call(b.session, "kv_begin_anew", origin=before) == [(origin,)]
    put(a.session)
    pull(a, b)
    assert get(b.session) == 1


def test_a_position_that_has_left_or_never_was_is_refused(zones: list[Copy]) -> None:
    a, b, _ = zones
    pull(a, b)
    with refused("TL410"):
        export(a, b, head(a.session) + 1)
    with refused("TL422"):
        confirm(a, b, head(a.session) + 1)
    with refused("TL422"):
        export(a, b, -1)


# Pulling by position


def test_a_puller_notes_how_far_it_is_with_what_it_applies(zones: list[Copy]) -> None:
    a, b, _ = zones
    put(a.session)
    pull(a, b)
    up_to, state = pulled(b, a)
    assert up_to == head(a.session)
    assert state is not None
    assert (state["origin"], state["life"], state["copied"]) == (a.origin, b.origin, True)
    row = called(b.session, "kv_status").fetchone()
    assert row is not None
    assert (row["instance"], row["state"], row["behind"]) == ("a/s", "following", 0)


def test_who_has_lost_its_epoch_applies_nothing(zones: list[Copy]) -> None:
    a, b, _ = zones
    put(a.session)
    pull(a, b)
    old = epoch(b, a)
    put(a.session, "late", 1)
    tick(a.session)
    told = export(a, b, pulled(b, a)[0] or 0)
    b.session.execute("select trunkline.lease_end(%s)", [b.process])
    b.process = b.process[:-1] + ("0" if b.process[-1] != "0" else "1")
    assert epoch(b, a) > old
    before = pulled(b, a)
    with refused("TL423"):
        b.session.execute(
            "select trunkline.kv_apply('a/s', %s, %s, %s, %s, %s)",
            [old, told.up_to, '{"origin": 1}', json.dumps(told.states), clock(b.session)],
        )
    assert pulled(b, a) == before
    assert get(b.session, "late") is None


def test_an_idle_round_writes_nothing_on_either_side(zones: list[Copy]) -> None:
    a, b, _ = zones
    put(a.session)
    pull(a, b)
    up_to = pulled(b, a)[0] or 0
    epoch(b, a)
    call(b.session, "kv_heard", instance="a/s", origin=a.origin, head=up_to, is_level=True)
    with writing_nothing(a.session):
        tick(a.session)
        call(a.session, "kv_hello", instance="b/s")
        told = export(a, b, up_to)
        call(a.session, "kv_digest")
    assert told.up_to == up_to
    with writing_nothing(b.session):
        pulled(b, a)
        call(b.session, "kv_make_whole")
        call(b.session, "kv_status")


def test_what_was_heard_just_now_is_not_noted_again(zones: list[Copy]) -> None:
    a, b, _ = zones
    pull(a, b)
    row = "select p::text from trunkline.kv_peer p where instance = 'a/s'"
    up_to = pulled(b, a)[0] or 0
    before = ask(b.session, row)
    arguments = {"instance": "a/s", "origin": a.origin, "head": up_to, "is_level": True}
    call(b.session, "kv_heard", **arguments)
    assert ask(b.session, row) == before
    call(b.session, "kv_heard", instance="a/s", error="no route")
    status = called(b.session, "kv_status").fetchone()
    assert status is not None
    assert (status["state"], status["error"]) == ("away", "no route")
    call(b.session, "kv_heard", **arguments)
    assert ask(b.session, "select error from trunkline.kv_peer where instance = 'a/s'") is None


def test_one_peer_that_is_away_does_not_stop_the_others(zones: list[Copy]) -> None:
    a, b, _ = zones
    settle(*zones)
    for zone in (a, b):
        call(zone.session, "kv_heard", instance="c/s", error="no route")
    put(a.session)
    pull(a, b)
    put(b.session, "back", 1)
    pull(b, a)
    assert same(a, b) == {"k": 1, "back": 1}
    assert column(a.session, "select state from trunkline.kv_status()") == ["following", "away"]


# Changes wait for followers


def test_changes_stay_until_every_follower_has_confirmed_them(zones: list[Copy]) -> None:
    a, b, c = zones
    configure(a.session, history="0")
    pull(a, b)
    pull(a, c)
    put(a.session)
    pull(a, b)
    keep = "select trunkline._kv_keep_from()"
    assert ask(a.session, keep) == head(a.session)
    pull(a, c)
    assert ask(a.session, keep) == head(a.session) + 1
    put(a.session)
    tick(a.session)
    a.session.execute("update trunkline.kv_peer set asked_at = asked_at - interval '8 days'")
    assert ask(a.session, keep) == head(a.session) + 1


def test_a_confirmation_does_not_go_back(zones: list[Copy]) -> None:
    a, b, _ = zones
    put(a.session)
    pull(a, b)
    up_to = head(a.session)
    for lower in (0, -1, up_to - 1):
        confirm(a, b, lower)
    assert ask(a.session, "select (trunkline._kv_reached('kv:to:b/s')).up_to") == up_to
    a.session.execute("select trunkline.kv_hello('b/s')")


# Forgetting


def test_a_deleted_key_is_forgotten_when_all_have_confirmed_it(zones: list[Copy]) -> None:
    a, b, c = zones
    for zone in zones:
        configure(zone.session, dead_keep="0")
    put(a.session)
    settle(*zones)
    delete(a.session)
    tick(a.session)
    assert forget(a.session) == []
    pull(a, b)
    pull(b, a)
    pull(c, a)
    assert forget(a.session) == []
    pull(a, c)
    pull(c, a)
    pull(b, a)
    assert forget(a.session) == ["k"]
    settle(*zones)
    settle(*zones)
    assert [forget(zone.session) for zone in zones] == [[], ["k"], ["k"]]
    assert same(*zones) == {}


def test_a_deleted_key_waits_for_a_zone_that_was_named_but_never_came(zones: list[Copy]) -> None:
    a, b, c = zones
    configure(a.session, dead_keep="0")
    delete(a.session)
    pull(a, b)
    pull(b, a)
    assert forget(a.session) == []
    pull(c, a)  # it is heard, but has never asked
    assert forget(a.session) == []
    call(a.session, "kv_instance_drop", zone="c", shard="s")
    pull(a, b)
    pull(b, a)
    assert forget(a.session) == ["k"]


def test_who_has_begun_a_copy_has_confirmed_nothing(zones: list[Copy]) -> None:
    a, b, c = zones
    configure(a.session, dead_keep="0")
    put(a.session)
    settle(*zones)
    delete(a.session)
    pull(a, b)
    tick(a.session)
    copy_begin(a, c)
    for _ in range(2):
        pull(b, a)
        pull(c, a)
    assert forget(a.session) == []
    settle(*zones)
    settle(*zones)
    assert forget(a.session) == ["k"]


def test_what_was_read_before_a_deletion_does_not_bring_the_key_back(zones: list[Copy]) -> None:
    """A deletion that arrives late, is confirmed at once and could be forgotten meanwhile."""
    a, b, c = zones
    for zone in zones:
        configure(zone.session, dead_keep="1 hour")
    settle(*zones)
    put(a.session)
    pull(a, c)
    tick(a.session)
    told = export(a, b, pulled(b, a)[0] or 0)  # read, and not yet applied
    read_at = clock(b.session)
    delete(c.session)
    pull(c, b)
    b.session.execute("update trunkline.kv_entry set dead_at = dead_at - interval '2 hours'")
    pull(c, a)
    tick(b.session)
    up_to = head(b.session)
    pull(b, a)
    pull(b, c)
    confirm(b, a, up_to)
    heard(b, c, head(c.session))
    forget(b.session)
    apply(b, a, told.states, read_at=read_at, up_to=told.up_to)
    assert get(b.session) is None


def test_what_was_read_too_long_ago_is_not_applied(zones: list[Copy]) -> None:
    a, b, _ = zones
    put(a.session)
    pull(a, b)
    told = export(a, b, 0 if head(a.session) < 1 else head(a.session) - 1)
    with refused("TL409"):
        apply(b, a, told.states, read_at=clock(b.session) - 1801 * SECOND)
    apply(b, a, told.states, read_at=clock(b.session) - 1700 * SECOND)


def test_a_zone_that_is_away_for_too_long_is_not_waited_for(zones: list[Copy]) -> None:
    a, b, c = zones
    configure(a.session, dead_keep="0")
    settle(*zones)
    delete(a.session)
    for _ in range(2):
        pull(a, b)
        pull(b, a)
    assert forget(a.session) == []
    lose(a, c)
    assert forget(a.session) == ["k"]
    with refused("TL410"):
        export(a, c, head(a.session))


def test_a_copy_that_is_not_whole_forgets_and_tells_nothing_doubtful(zones: list[Copy]) -> None:
    a, b, c = zones
    configure(a.session, dead_keep="0")
    put(a.session, "old", 1)
    delete(a.session, "gone")
    settle(*zones)
    call(a.session, "kv_begin_anew", origin=a.origin)
    put(a.session, "new", 1)
    assert forget(a.session) == []
    copy_begin(a, c)
    told = [state["key"] for state in copied(a, c)[2] if state["namespace"] != "parade"]
    assert told == ["new"]
    bucket = call(a.session, "kv_bucket", instance="c/s", origin=c.origin, buckets=1, chosen=[0])
    assert [s["key"] for s in bucket[0][0] if s["namespace"] != "parade"] == ["new"]
    pull(b, a)
    pull(c, a)
    assert call(a.session, "kv_make_whole") == [(True,)]
    settle(*zones)
    assert same(*zones) == {"new": 1, "old": 1}


def test_a_zone_that_begins_anew_drops_what_was_deleted_and_forgotten_meanwhile(
    zones: list[Copy],
) -> None:
    a, b, c = zones
    for zone in (a, b):
        configure(zone.session, dead_keep="0")
    put_many(a.session, {"gone": 1, "stays": 1})
    settle(*zones)
    delete(a.session, "gone")
    put(c.session, "of c alone", 1)
    for zone in zones:
        lose(zone, c)
    for _ in range(3):
        pull(a, b)
        pull(b, a)
    assert (forget(a.session), forget(b.session)) == (["gone"], ["gone"])
    call(c.session, "kv_begin_anew", origin=c.origin)
    tick(c.session)
    pull(a, c)
    pull(b, c)
    assert call(c.session, "kv_make_whole") == [(True,)]
    assert scan(c.session) == {"stays": 1, "of c alone": 1}
    settle(*zones)
    assert same(*zones) == {"stays": 1, "of c alone": 1}


def test_what_only_one_zone_has_is_kept_although_its_changes_have_left(zones: list[Copy]) -> None:
    """They wait for peers for some days; then nobody can say which keys the others never had."""
    a, b, c = zones
    put(a.session, "shared", 1)
    settle(*zones)
    put(a.session, "alone", 1)
    tick(a.session)
    put(a.session, "later", 1)
    tick(a.session)
    a.session.execute(  # as a rotation leaves it
        "delete from trunkline.tick where sequence = 'kv_change' and first_position < %s",
        [head(a.session)],
    )
    call(a.session, "kv_begin_anew", origin=a.origin)
    pull(b, a)
    pull(c, a)
    assert call(a.session, "kv_make_whole") == [(True,)]
    assert scan(a.session) == {"alone": 1, "later": 1, "shared": 1}


def test_every_zone_forgets_expired_keys_by_itself(zones: list[Copy]) -> None:
    a, b, _ = zones
    put(a.session, "k", 1, ttl=HOUR)
    settle(*zones)
    expire(b.session, "k")
    assert (get(a.session), get(b.session)) == (1, None)
    put(a.session, "k", 2, ttl=HOUR)  # refreshed elsewhere before it was forgotten here
    configure(b.session, dead_keep="0")
    pull(a, b)
    assert forget(b.session) == []
    assert get(b.session) == 2


def test_what_a_zone_added_in_time_counts_though_another_saw_the_key_expire(
    zones: list[Copy],
) -> None:
    a, b, _ = zones
    patch(a.session, {"n": 100}, ttl=HOUR)
    settle(*zones)
    patch(b.session, {"n": 1}, ttl=2 * HOUR)  # before it expires, and a has not heard of it
    expire(a.session, "k")
    call(a.session, "kv_expire")
    settle(*zones)
    assert same(*zones)["k"] == {"n": 101}


@pytest.mark.parametrize("seconds", [0, 599])
def test_nobody_is_given_up_before_that_was_looked_at_for_a_while(
    zones: list[Copy], seconds: int
) -> None:
    """It may be this server that was away, or its clock that has jumped."""
    a, b, c = zones
    configure(a.session, dead_keep="0")
    settle(*zones)
    delete(a.session)
    for _ in range(2):
        pull(a, b)
        pull(b, a)
    lose(a, c)
    a.session.execute(
        "update trunkline.kv_clock set stale_at = now() - interval '5 minutes',"
        " stale_since = now() - make_interval(secs => %s)",
        [seconds],
    )
    assert forget(a.session) == []
    a.session.execute("update trunkline.kv_clock set stale_at = now() - interval '11 minutes'")
    assert forget(a.session) == []  # nobody has looked meanwhile: it begins anew
    a.session.execute(STALE)
    assert forget(a.session) == ["k"]


def test_who_pulls_already_is_waited_for_before_a_zone_says_which_it_is(
    zones: list[Copy],
) -> None:
    a, b, _ = zones
    configure(a.session, dead_keep="0")
    put(a.session)
    pull(a, b)
    a.session.execute("delete from trunkline.kv_here")
    delete(a.session)
    tick(a.session)
    assert forget(a.session) == []
    pull(a, b)
    assert get(b.session) is None


# Comparing


def test_a_digest_tells_which_part_differs_and_a_bucket_mends_it(zones: list[Copy]) -> None:
    a, b, _ = zones
    put_many(a.session, {str(number): number for number in range(20)})
    patch(a.session, {"n": 1}, "counted")
    pull(a, b)
    digest = "select d.bucket, d.keys, d.digest from trunkline.kv_digest(16) d"

    def differing() -> list[int]:
        mine = set(b.session.execute(digest).fetchall())
        return [row[0] for row in a.session.execute(digest).fetchall() if row not in mine]

    assert differing() == []
    b.session.execute("delete from trunkline.kv_entry where key = '7'")
    b.session.execute("delete from trunkline.kv_counter")
    broken = differing()
    assert 1 <= len(broken) <= 2
    asked = {"instance": "b/s", "origin": b.origin, "buckets": 16}
    told = call(a.session, "kv_bucket", **asked, chosen=broken)[0][0]
    apply(b, a, told)
    assert differing() == []
    same(a, b)


# Clocks


@pytest.mark.parametrize("ahead", [10, -10])
def test_a_later_write_wins_whatever_the_clocks_say(zones: list[Copy], ahead: float) -> None:
    a, b, _ = zones
    set_clock(a.session, ahead)
    put(a.session, "k", "first")
    put(a.session, "other", "of a")
    settle(*zones)
    put(b.session, "k", "second")  # it has seen the first
    assert put(b.session, "other", "of b", if_version=None) == "UPDATE"
    settle(*zones)
    assert same(*zones) == {"k": "second", "other": "of b"}
    put(a.session, "k", "third")
    settle(*zones)
    assert same(*zones)["k"] == "third"


def test_what_a_clock_far_ahead_has_stamped_is_held_back_and_not_passed_on(
    zones: list[Copy],
) -> None:
    a, b, c = zones
    settle(*zones)
    set_clock(a.session, 3600)
    put(a.session, "k", "from the future")
    patch(a.session, {"n": 1}, "counted")
    pull(a, b)
    assert scan(b.session) == {}
    assert column(b.session, "select key from trunkline.kv_held()") == ["k", "counted"]
    pull(b, c)
    assert scan(c.session) == {}
    assert put(b.session, "k", "now") == "INSERT"  # nobody is kept from writing
    assert call(b.session, "kv_release") == [(False,)]
    assert get(b.session) == "now"
    for zone in (b, c):
        set_clock(zone.session, 3590)  # time has come so far
    assert call(b.session, "kv_release") == [(False,)]
    assert column(b.session, "select key from trunkline.kv_held()") == []
    settle(*zones)
    assert same(*zones) == {"k": "from the future", "counted": {"n": 1}}


def test_what_is_held_back_is_the_last_that_each_zone_said(zones: list[Copy]) -> None:
    """Counters that came later without a higher stamp, and what two zones say of one key."""
    a, b, c = zones
    settle(*zones)
    patch(b.session, {"n": 4})
    set_clock(a.session, 3600)
    patch(a.session, {"n": 1})
    pull(a, c)
    pull(b, a)  # now a knows of both; the stamp stays
    pull(a, c)
    set_clock(b.session, 3600)
    pull(a, b)
    put(b.session, "k", {"n": 10})
    patch(a.session, {"n": 2})
    pull(b, c)
    pull(a, c)
    assert scan(c.session) in ({}, {"k": {"n": 4}})
    assert column(c.session, "select key from trunkline.kv_held()") == ["k", "k"]
    set_clock(c.session, 3600)
    while column(c.session, "select key from trunkline.kv_held()"):
        call(c.session, "kv_release")
    settle(a, b)
    assert same(a, b, c)


def test_a_clock_that_is_ahead_of_every_peer_stamps_nothing(zones: list[Copy]) -> None:
    a, *_ = zones

    def hear(**skews: float) -> None:
        for name, skew in skews.items():
            call(
                a.session,
                "kv_heard",
                instance=f"{name}/s",
                origin=1,
                head=0,
                skew=timedelta(seconds=skew),
            )

    hear(b=120, c=0.5)  # only b's clock is behind
    put(a.session)
    hear(b=120, c=90)
    for attempt in (
        lambda: put(a.session, "k", 2),
        lambda: delete(a.session),
        lambda: patch(a.session, {"n": 1}, "n"),
        lambda: put_many(a.session, {"k": 2}),
    ):
        with refused("TL409"):
            attempt()
    assert get(a.session) == 1
    hear(c=0)  # the clock was set
    put(a.session, "k", 2)


def test_a_zone_that_could_not_write_does_so_when_the_reason_is_gone(zones: list[Copy]) -> None:
    a, *_ = zones
    for name in "bc":
        call(a.session, "kv_heard", instance=f"{name}/s", skew=timedelta(minutes=2))
    with refused("TL409"):
        put(a.session)
    configure(a.session, max_skew="1 hour")  # as it is told
    put(a.session)
    configure(a.session, max_skew="1 minute")
    with refused("TL409"):
        put(a.session)
    a.session.execute("update trunkline.kv_clock set ahead_at = now() - interval '6 minutes'")
    put(a.session, "k", 2)  # nobody has said so for long
    a.session.execute("update trunkline.kv_clock set ahead_at = now() + interval '2 minutes'")
    put(a.session, "k", 3)  # the clock was set back since


def test_a_stamp_from_a_fast_clock_does_not_make_a_key_unwritable(zones: list[Copy]) -> None:
    a, b, _ = zones
    set_clock(a.session, 50)  # within what is allowed
    put(a.session, "k", "fast")
    pull(a, b)
    before = stamps(b.session)
    assert put(b.session, "k", "slow") == "UPDATE"
    assert stamps(b.session)[0] == before[0] + 1
    pull(b, a)
    assert get(a.session) == "slow"


def test_a_watcher_sees_what_came_from_other_zones(zones: list[Copy]) -> None:
    a, b, _ = zones
    pull(a, b)
    tick(b.session)
    start = head(b.session)
    put(a.session)
    pull(a, b)
    tick(b.session)
    assert [(change.key, change.value) for change in changes(b.session, start)] == [
        ("k", 1),
        (None, None),
    ]
