"""Zones whose clocks differ judge time alike, and a majority decides which clock is wrong."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from tests.fixtures.asking import ask, call, column, refused
from tests.kv.sql_steps import clock, configure, get, patch, pull, put, same, set_clock, settle

if TYPE_CHECKING:
    from tests.kv.sql_steps import Copy

MINUTES = 60


def hear(*zones: Copy) -> None:
    """Let each zone hear the clock of every other, as a puller does when it greets."""
    for here in zones:
        for peer in zones:
            if peer is not here:
                skew = timedelta(microseconds=clock(here.session) - clock(peer.session))
                call(here.session, "kv_heard", instance=peer.instance, skew=skew)


def clocks(*ahead: float, of: list[Copy]) -> None:
    """Let the clocks of zones be ahead by some seconds."""
    for zone, seconds in zip(of, ahead, strict=True):
        set_clock(zone.session, seconds)


def lead(zone: Copy) -> float:
    """How many seconds the hybrid clock is ahead of the clock of the zone."""
    return round(ask(zone.session, "select lead from trunkline.kv_clock") / 1_000_000, 1)


@pytest.mark.parametrize("slow", [-20, -50])
def test_a_key_lives_as_long_in_every_zone(zones: list[Copy], slow: float) -> None:
    settle(*zones)
    a, b, _ = zones
    clocks(0, slow, 0, of=zones)
    hear(*zones)
    put(a.session, "of a", ttl="3 seconds")
    put(b.session, "of b", ttl="3 seconds")
    patch(b.session, {"n": 1}, "counted of b", ttl="3 seconds")
    settle(*zones)
    assert set(same(*zones)) == {"of a", "of b", "counted of b"}
    assert all(get(zone.session, "of b") == 1 for zone in zones)
    clocks(4, slow + 4, 4, of=zones)
    assert same(*zones) == {}
    assert all(get(zone.session, "of a") is None for zone in zones)
    assert put(b.session, "of a", 2) == "INSERT"


def test_the_highest_clock_that_is_not_outvoted_counts(zones: list[Copy]) -> None:
    clocks(0, 20, -5, of=zones)
    hear(*zones)
    assert [lead(zone) for zone in zones] == [20, 0, 25]


def test_of_two_writes_the_later_wins_where_clocks_differ_by_an_error_of_measurement(
    zones: list[Copy],
) -> None:
    settle(*zones)
    clocks(0, 0.4, 0, of=zones)
    hear(*zones)
    assert [lead(zone) for zone in zones] == [0, 0, 0]


def test_a_zone_that_is_behind_stops_nobody_else(zones: list[Copy]) -> None:
    """It takes the time of the others, and its writes arrive."""
    a, _, c = zones
    settle(*zones)
    clocks(0, 0, -5 * MINUTES, of=zones)
    hear(*zones)
    for zone in zones:
        put(zone.session, zone.name, 1)
    put(a.session, "k", "first")
    pull(a, c)
    put(c.session, "k", "second")
    settle(*zones)
    assert same(*zones) == {"a": 1, "b": 1, "c": 1, "k": "second"}
    assert lead(c) == 5 * MINUTES
    assert [column(zone.session, "select key from trunkline.kv_held()") for zone in zones] == [
        [],
        [],
        [],
    ]


def test_of_two_zones_neither_refuses(zones: list[Copy]) -> None:
    """No majority says which of both clocks is wrong."""
    a, b, _ = zones
    settle(a, b)
    clocks(0, -5 * MINUTES, 0, of=zones)
    hear(a, b)
    put(a.session, "a", 1)
    put(b.session, "b", 1)
    settle(a, b)
    assert same(a, b) == {"a": 1, "b": 1}


def test_the_zone_that_is_ahead_of_the_majority_refuses(zones: list[Copy]) -> None:
    a, b, c = zones
    settle(*zones)
    clocks(0, 5 * MINUTES, 0, of=zones)
    hear(*zones)
    with refused("TL409"):
        put(b.session, "b")
    put(a.session, "a")
    put(c.session, "c")
    assert [lead(zone) for zone in zones] == [0, -5 * MINUTES, 0]


def test_half_of_the_zones_are_no_majority(zones: list[Copy]) -> None:
    """Two of four are behind: the other two write."""
    a, *_ = zones
    call(a.session, "kv_instance_put", zone="d", shard="s", dsn="dbname=d")
    for name, skew in {"b": 300, "c": 300, "d": 0}.items():
        call(a.session, "kv_heard", instance=f"{name}/s", skew=timedelta(seconds=skew))
    put(a.session)
    call(a.session, "kv_heard", instance="d/s", skew=timedelta(seconds=0), error="away")


def test_time_is_taken_from_others_within_bounds(zones: list[Copy]) -> None:
    """A clock that is years ahead does not make everything expire."""
    a, b, _ = zones
    settle(a, b)
    put(a.session, "k", ttl="2 hours")
    clocks(0, 365 * 24 * 3600, 0, of=zones)
    hear(a, b)
    assert lead(a) == 30 * MINUTES  # half of kv.dead_keep
    assert get(a.session) == 1
    configure(a.session, dead_keep="0")
    hear(a, b)
    assert lead(a) == MINUTES  # kv.max_skew
