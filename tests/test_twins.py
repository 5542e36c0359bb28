"""The blocking clients: the same words as the asynchronous ones, and loops over what comes."""

from __future__ import annotations

import inspect
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.fixtures.postgres import new_database

import trunkline
from trunkline import BadRequest, Invalid, PositionTrimmed, SyncPlatform
from trunkline.broker.blocking import SyncStream
from trunkline.broker.client import Broker, SyncBroker
from trunkline.broker.stream import EventStream, Heartbeat, Place
from trunkline.kv.client import Kv, SyncKv
from trunkline.live.client import Live, SyncLive
from trunkline.live.stream import LiveStream
from trunkline.log.assigned import AssignedConsumer
from trunkline.log.blocking import SyncBatch, SyncConsumer, SyncProducer
from trunkline.log.client import Log, SyncLog
from trunkline.log.consumer import Batch
from trunkline.log.producer import Producer
from trunkline.testing import eventually
from trunkline.tube.client import SyncTubes, Tubes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures.postgres import AnyServer

CONNECTION = {"close", "services"}
"""A connection ends as a whole, and background work is run by ``trunkline up``."""
WORKERS = {"worker", "worker_for"}
"""Workers are run by ``trunkline broker worker`` and ``trunkline tube run``."""
ANSWERS = {"enqueuer", "process"}
"""``enqueue`` and ``flush`` are there; the answers of an enqueuer are awaited. ``process`` is what
others ask of the connection."""
INSIDE = {"settle", "settled", "settlement", "lost", "process", "settle_soon"}
"""What a batch and its consumer say to each other."""

LISTENING = """
select count(*) from pg_stat_activity
 where datname = current_database() and query ~ '^(listen|select trunkline.lease_watch)'
"""

FORKS = """
import os, sys, trunkline

with trunkline.connect_sync(sys.argv[1]) as tl:
    events = iter(tl.broker.stream("forks", after=sys.argv[2]))
    changes = tl.kv.watch("fork", after=0)
    tl.kv.put("fork", 1)
    tl.kv.tick()
    for payload in (1, 2):
        tl.broker.publish("forks", payload)
    tl.broker.tick()
    print(next(events).payload, next(changes).key, flush=True)
    if os.fork() == 0:
        for follow in (lambda: next(changes), lambda: next(events), changes.close):
            try:
                follow()
            except trunkline.BadRequest as error:
                print(error.hint, flush=True)
        sys.exit(7)
    print(os.waitstatus_to_exitcode(os.wait()[1]))
    print(next(events).payload)
"""


def public(kind: type) -> dict[str, list[str] | None]:
    """Names of a class, those that are called with the names of their parameters."""
    found: dict[str, list[str] | None] = {}
    for name in dir(kind):
        member = inspect.getattr_static(kind, name)
        if not name.startswith("_"):
            found[name] = list(inspect.signature(member).parameters) if callable(member) else None
    return found


@pytest.mark.parametrize(
    ("twin", "original", "without"),
    [
        (SyncPlatform, trunkline.Platform, {"services", "listener", "notifier"}),
        (SyncLog, Log, {"close"}),
        (SyncBatch, Batch, set()),
        (SyncConsumer, AssignedConsumer, INSIDE | {"release", "extend"}),
        (SyncProducer, Producer, {"append"}),
        (SyncBroker, Broker, CONNECTION | ANSWERS | {"worker"}),
        (SyncLive, Live, CONNECTION),
        (SyncTubes, Tubes, {"services"} | WORKERS),
        (SyncKv, Kv, CONNECTION),
        (SyncStream, EventStream, {"told"}),
        (SyncStream, LiveStream, {"told", "end"}),
    ],
    ids=lambda kind: getattr(kind, "__name__", ""),
)
def test_a_twin_has_the_same_words(twin: type, original: type, without: set[str]) -> None:
    mine, theirs = public(twin), public(original)
    loose = {"consume", "producer"}  # they pass their options on
    for_its_batches = {"commit"} if twin is SyncConsumer else set()
    assert set(theirs) - set(mine) == without
    assert set(mine) - set(theirs) == for_its_batches
    for name in set(mine) & set(theirs) - loose:
        assert mine[name] == theirs[name], name


@pytest.fixture(scope="module")
def dsn(server: AnyServer, template: str) -> Iterator[str]:
    """A database that the tests of this module share."""
    with new_database(server, template=template) as name:
        dsn = server.dsn(name)
        with psycopg.connect(dsn) as session:
            session.execute("create table contacts (id int primary key)")
            session.execute("select trunkline.live_watch('contacts')")
        yield dsn


@pytest.fixture
def tl(dsn: str) -> Iterator[SyncPlatform]:
    with trunkline.connect_sync(dsn) as tl:
        yield tl


def publish(tl: SyncPlatform, *payloads: int) -> None:
    for payload in payloads:
        tl.broker.publish("orders", payload)
    tl.broker.tick()


def start(tl: SyncPlatform) -> str:
    """The token before the first event."""
    return Place(tl.broker.ends().incarnation, 0).token


def test_events_are_followed_in_a_plain_loop_that_may_be_left(tl: SyncPlatform) -> None:
    with tl.broker.stream("orders", heartbeat=0.05) as stream:
        publish(tl, 1, 2, 3, 4)
        for event in stream:
            assert event.payload == 1
            assert event.token == stream.token
            break
        assert [next(iter(stream)).payload for _ in range(2)] == [2, 3]
        assert next(stream.items()).payload == 4  # type: ignore[union-attr]
        assert isinstance(next(stream.items()), Heartbeat)
    assert list(stream) == []

    after = tl.broker.stream("orders", condition="(e.payload)::int > 2", after=event.token)
    assert [found.payload for found in islice(after, 2)] == [3, 4]


def test_rows_are_followed_in_a_plain_loop(tl: SyncPlatform) -> None:
    with tl.live.stream("contacts", condition={"id": {"gt": 1}}) as stream:
        with tl.transaction() as connection:
            connection.execute("insert into contacts values (1), (2), (3)")
        tl.broker.tick()
        batch = next(iter(stream))
        assert [change.key for change in batch.changes] == [{"id": 2}, {"id": 3}]
        assert len(tl.live.subscriptions()) == 1
    assert tl.live.subscriptions() == []


def test_keys_are_followed_in_a_plain_loop(tl: SyncPlatform) -> None:
    changes = tl.kv.watch("user/", after=tl.kv.head())
    tl.kv.put_many({"user/ada": 1, "cart/ada": 2, "user/bob": 3})
    tl.kv.tick()
    for change in changes:
        assert (change.key, change.value) == ("user/ada", 1)
        break
    assert next(changes).key == "user/bob"
    changes.close()
    assert list(changes) == []


def test_wrong_arguments_and_lost_history_are_told(tl: SyncPlatform) -> None:
    with pytest.raises(Invalid, match="heartbeat"):
        tl.live.stream("contacts", heartbeat=0)
    with pytest.raises(Invalid, match="namespace is text"):
        tl.kv.watch(namespace=5)  # type: ignore[arg-type]
    with pytest.raises(PositionTrimmed):
        list(tl.broker.stream(after=Place(tl.broker.ends().incarnation, 10**9).token))
    with pytest.raises(PositionTrimmed):
        next(tl.kv.watch(after=10**9))


FOLLOWING: dict[str, Callable[[SyncPlatform], Any]] = {
    "events": lambda tl: tl.broker.stream("nothing"),
    "rows": lambda tl: tl.live.stream("contacts"),
    "keys": lambda tl: tl.kv.watch("nothing/"),
}


@pytest.mark.parametrize("what", FOLLOWING)
def test_the_end_of_the_connection_ends_the_loop_of_another_thread(dsn: str, what: str) -> None:
    with (
        psycopg.connect(dsn, autocommit=True) as session,
        ThreadPoolExecutor(1) as threads,
        trunkline.connect_sync(dsn) as tl,
    ):
        following = FOLLOWING[what](tl)
        if isinstance(following, SyncStream):
            following.open()
        reading = threads.submit(list, following)
        eventually(lambda: session.execute(LISTENING).fetchone() == (1,))
        tl.close()
        assert reading.result(10) == []
    following.close()
    assert list(following) == []
    with pytest.raises(BadRequest, match="closed"):
        FOLLOWING[what](tl)


def test_a_forked_child_cannot_follow_and_leaves_its_parent_alone(
    dsn: str, tl: SyncPlatform
) -> None:
    parent = subprocess.run(
        [sys.executable, "-c", FORKS, dsn, start(tl)],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )

    connect = "Connect after the fork: each process needs connections of its own."
    assert parent.stdout.splitlines() == ["1 fork", connect, connect, connect, "7", "2"]
    assert parent.stderr == ""
