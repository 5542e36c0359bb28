"""A client that holds a key in an open transaction delays that key alone, not replication."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.fixtures.asking import ask, call
from tests.kv import sql_steps as steps

from trunkline.testing import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures.asking import Session
    from tests.kv.sql_steps import Copy


@pytest.fixture
def client(zone_dsns: list[str]) -> Iterator[psycopg.Connection[Any]]:
    """A client of the second zone in a transaction."""
    with psycopg.connect(zone_dsns[1]) as connection:
        yield connection
        connection.rollback()


def status(of: Copy, peer: Copy) -> dict[str, Any]:
    columns = "behind", "error", "waiting", "waiting_since", "waits_for"
    row = of.session.execute(
        f"select {', '.join(columns)} from trunkline.kv_status() where instance = %s",
        [peer.instance],
    ).fetchone()
    assert row is not None
    return dict(zip(columns, row, strict=True))


def hold(client: Session, key: str, value: Any = "mine") -> int:
    """Write a key and leave the transaction open; the process of the client."""
    assert steps.put(client, key, value)
    return int(ask(client, "select pg_backend_pid()"))


def release(copy: Copy) -> None:
    while call(copy.session, "kv_release")[0][0]:
        pass


def test_a_held_key_stops_no_other_key(zones: list[Copy], client: Session) -> None:
    a, b, _ = zones
    steps.put(a.session, "locked", 1)
    steps.settle(a, b)
    pid = hold(client, "locked")
    steps.put_many(a.session, {"locked": 2, **{f"free {n}": n for n in range(300)}})
    began = time.monotonic()
    steps.pull(a, b)
    assert time.monotonic() - began < 5
    assert steps.get(b.session, "free 299") == 299
    assert steps.get(b.session, "locked") == 1
    found = status(b, a)
    assert (found["behind"], found["waiting"], found["error"]) == (0, 1, None)
    assert f"pid {pid} (" in found["waits_for"]
    client.rollback()
    release(b)
    assert steps.get(b.session, "locked") == 2
    assert status(b, a)["waiting"] == 0
    assert steps.same(a, b)["locked"] == 2


def test_a_key_that_an_open_transaction_makes_stops_no_other(
    zones: list[Copy], client: Session
) -> None:
    """The row is invisible: it cannot be skipped, only waited for."""
    a, b, _ = zones
    steps.settle(a, b)
    pid = hold(client, "key 150")
    steps.put_many(a.session, {f"key {n}": n for n in range(300)})
    steps.pull(a, b)
    assert len(steps.scan(b.session)) == 299
    time.sleep(1.1)
    found = status(b, a)
    assert found["waiting"] == 1
    assert f"pid {pid} (" in found["waits_for"]
    client.commit()
    release(b)
    steps.settle(a, b)
    assert steps.same(a, b)["key 150"] == 150


def test_many_keys_held_take_bounded_time(zones: list[Copy], client: Session) -> None:
    a, b, _ = zones
    steps.settle(a, b)
    steps.put_many(client, {f"key {n}": "mine" for n in range(200)})
    steps.put_many(a.session, {f"key {n}": n for n in range(400)})
    began = time.monotonic()
    steps.pull(a, b)
    assert time.monotonic() - began < 5
    client.rollback()
    release(b)
    assert steps.same(a, b) == {f"key {n}": n for n in range(400)}


def test_changes_of_a_held_key_arrive_in_order(zones: list[Copy], client: Session) -> None:
    a, b, c = zones
    steps.put(a.session, "k", 0)
    steps.settle(a, b, c)
    hold(client, "k")
    for n in range(1, 4):
        steps.put(a.session, "k", n)
        steps.pull(a, b)
    steps.pull(a, c)
    steps.put(c.session, "k", "of c")
    steps.pull(c, b)
    assert {row[1] for row in call(b.session, "kv_held")} == {"k"}
    client.rollback()
    release(b)
    assert steps.get(b.session, "k") == "of c"
    steps.settle(a, b, c)
    assert steps.same(a, b, c) == {"k": "of c"}


def test_what_waits_is_stored_with_the_position(
    zones: list[Copy], client: Session, zone_dsns: list[str]
) -> None:
    """The puller dies; the origin is not asked for the change again."""
    a, b, _ = zones
    steps.put(a.session, "k", 0)
    steps.settle(a, b)
    hold(client, "k")
    steps.patch(a.session, {"n": 5}, key="counter")
    steps.delete(a.session, "k")
    steps.pull(a, b)
    assert steps.pulled(b, a)[0] == steps.head(a.session)
    client.rollback()
    with psycopg.connect(zone_dsns[1], autocommit=True) as another:
        call(another, "kv_release")
    assert steps.get(b.session, "k") is None
    assert steps.get(b.session, "counter") == {"n": 5}
    assert steps.pull(a, b) == 0
    steps.same(a, b)


def test_a_deleted_key_is_not_forgotten_while_an_older_value_waits(
    zones: list[Copy], client: Session
) -> None:
    a, b, c = zones
    steps.put(a.session, "k", 0)
    steps.settle(a, b, c)
    hold(client, "k")
    steps.put(a.session, "k", 1)
    steps.pull(a, b)
    steps.pull(a, c)
    client.rollback()
    steps.delete(c.session, "k")
    steps.settle(a, b, c)
    steps.settle(a, b, c)
    for zone in (a, b):
        steps.configure(zone.session, dead_keep="0")
    assert steps.forget(a.session) == ["k"]
    assert steps.forget(b.session) == []
    release(b)
    assert steps.get(b.session, "k") is None
    steps.settle(a, b, c)
    assert [steps.scan(zone.session) for zone in zones] == [{}, {}, {}]


def test_a_counter_that_waits_adds_up(zones: list[Copy], client: Session) -> None:
    a, b, _ = zones
    steps.patch(a.session, {"n": 1})
    steps.settle(a, b)
    steps.patch(client, {"n": 10})
    steps.patch(a.session, {"n": 100})
    steps.pull(a, b)
    client.commit()
    release(b)
    steps.settle(a, b)
    assert steps.same(a, b) == {"k": {"n": 111}}


def test_a_short_transaction_is_waited_for(
    zones: list[Copy], client: Session, make_busy: Callable[[Session, float], None]
) -> None:
    """Nothing is put aside when a client commits soon, as most do."""
    a, b, _ = zones
    steps.put(a.session, "k", 0)
    steps.settle(a, b)
    hold(client, "k")
    steps.put(a.session, "k", 1)
    make_busy(client, 0.1)
    steps.pull(a, b)
    assert call(b.session, "kv_held") == []


@pytest.fixture
def make_busy() -> Iterator[Callable[[Session, float], None]]:
    """Commit a transaction after some seconds, meanwhile."""
    from threading import Timer

    timers = []

    def commit_after(session: Session, seconds: float) -> None:
        timers.append(Timer(seconds, session.commit))
        timers[-1].start()

    yield commit_after
    for timer in timers:
        timer.join()


def test_status_names_a_prepared_transaction(zones: list[Copy], client: Session) -> None:
    a, b, _ = zones
    steps.put(a.session, "k", 0)
    steps.settle(a, b)
    hold(client, "k")
    client.execute("prepare transaction 'forgotten'")
    try:
        steps.put(a.session, "k", 1)
        steps.pull(a, b)
        assert 'prepared transaction "forgotten"' in status(b, a)["waits_for"]
    finally:
        b.session.execute("rollback prepared 'forgotten'")
    wait_until(lambda: _applied(b))


def _applied(copy: Copy) -> None:
    release(copy)
    assert steps.get(copy.session, "k") == 1, json.dumps(steps.scan(copy.session))
