"""A copy whose peers know more of it than it does itself went back, and begins a new life."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.fixtures.asking import ask, call, refused
from tests.kv import sql_steps as steps

if TYPE_CHECKING:
    from tests.kv.sql_steps import Copy


def restart(copy: Copy) -> None:
    """As if the server had started since."""
    copy.session.execute("update trunkline.kv_life set started_at = 'epoch', proved_at = 'epoch'")
    copy.session.execute("update trunkline.kv_peer set proved_at = 'epoch'")


def witness(copy: Copy, peer: Copy, **word: Any) -> bool:
    return bool(
        call(copy.session, "kv_witness", instance=peer.instance, word=json.dumps(word))[0][0]
    )


def proved(copy: Copy) -> bool:
    return bool(
        ask(copy.session, "select proved_at = pg_postmaster_start_time() from trunkline.kv_life")
    )


def test_a_start_is_proved_when_every_peer_has_greeted(zones: list[Copy]) -> None:
    a, b, c = zones
    steps.settle(a, b, c)
    restart(a)
    steps.tick(a.session)
    assert not proved(a)
    for peer in (b, c):
        origin, seen = a.origin, steps.pulled(peer, a)[0]
        assert not witness(a, peer, origin=origin, seen=seen, asked_origin=origin, confirmed=0)
        assert proved(a) == (peer is c)


@pytest.mark.parametrize("known", [{"origin": "seen"}, {"asked_origin": "confirmed"}])
def test_a_peer_that_knows_more_begins_a_new_life(zones: list[Copy], known: dict[str, str]) -> None:
    a, b, _ = zones
    steps.settle(a, b)
    before, incarnation = a.origin, ask(a.session, "select trunkline.incarnation()")
    ((origin, position),) = known.items()
    restart(a)
    assert witness(a, b, **{origin: before, position: steps.head(a.session) + 1000})
    assert a.origin != before
    assert ask(a.session, "select trunkline.incarnation()") > incarnation


def test_what_is_known_of_another_life_proves_nothing(zones: list[Copy]) -> None:
    a, b, _ = zones
    restart(a)
    assert not witness(a, b, origin=1, seen=10**9, asked_origin=2, confirmed=10**9)


def test_numbers_are_added_under_an_own_origin_until_that_is_proved(zones: list[Copy]) -> None:
    a, b, _ = zones
    steps.patch(a.session, {"n": 1})
    steps.settle(a, b)
    restart(a)
    steps.patch(a.session, {"n": 10})
    steps.patch(a.session, {"n": 100})
    origins = "select count(*) from trunkline.kv_counter where key = 'k'"
    assert ask(a.session, origins) == 2
    a.session.execute("update trunkline.kv_life set proved_at = pg_postmaster_start_time()")
    steps.patch(a.session, {"n": 1000})
    assert ask(a.session, origins) == 2
    assert steps.get(a.session) == {"n": 1111}


def test_nothing_is_exported_before_a_greeting(zones: list[Copy]) -> None:
    a, b, _ = zones
    steps.settle(a, b)
    restart(a)
    with refused("TL409"):
        steps.export(a, b, 0)


def test_what_was_read_before_the_start_is_not_applied(zones: list[Copy]) -> None:
    a, b, _ = zones
    steps.settle(a, b)
    state = {"origin": a.origin, "life": b.origin, "copied": True, "start": "1"}
    with refused("TL409"):
        steps.apply(b, a, [], state=state)


def test_a_database_without_peers_is_proved_by_its_first_tick(zones: list[Copy]) -> None:
    a, *_ = zones
    a.session.execute("delete from trunkline.kv_here")
    restart(a)
    steps.tick(a.session)
    assert proved(a)
