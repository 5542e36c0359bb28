"""The blocking twins: the same words, the same answers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.log.steps import fail_over

import trunkline
from trunkline import (
    Appended,
    BadRequest,
    Invalid,
    LeaseLost,
    NotFound,
    PositionTrimmed,
    SyncPlatform,
    Unavailable,
)
from trunkline.log import calls
from trunkline.testing import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trunkline.log.blocking import SyncBatch, SyncConsumer

THREE = [b"a", b"b", b"c"]

FORKS = """
import os, sys, trunkline

with trunkline.connect_sync(sys.argv[1]) as tl:
    tl.log.append("orders", "before")
    if os.fork() == 0:
        for ask in (tl.log.list, lambda: tl.log.append("orders", "child")):
            try:
                ask()
            except trunkline.BadRequest as error:
                print(error.hint, flush=True)
        sys.exit(7)
    print(os.waitstatus_to_exitcode(os.wait()[1]))
    tl.log.append("orders", "after")
    print([message.value for message in tl.log.read("orders")])
"""


@pytest.fixture
def dsn(log_dsn: str) -> str:
    """A database that the tests of this module share, swept after each of them."""
    return log_dsn


@pytest.fixture
def tl(dsn: str) -> Iterator[SyncPlatform]:
    with trunkline.connect_sync(dsn) as tl:
        tl.log.create("orders")
        yield tl


def fill(tl: SyncPlatform, n: int, first: int = 1) -> None:
    tl.log.append("orders", [str(number) for number in range(first, first + n)])


def poll(consumer: SyncConsumer) -> SyncBatch:
    batch = consumer.poll(10)
    assert batch is not None, "nothing came"
    return batch


def numbers(batch: SyncBatch) -> list[int]:
    return [int(value or b"") for value in batch.values]


def test_appends_and_reads_as_the_other_does(tl: SyncPlatform) -> None:
    assert tl.log.append("orders", "a", keys="k", headers={"x": 1}) == [Appended("orders", 0, 1, 1)]
    assert tl.log.append("orders", pa.array(["b"])) == [Appended("orders", 0, 2, 2)]
    assert tl.log.append("orders", THREE, codec="zstd") == [Appended("orders", 0, 3, 5)]
    found = [(m.offset, m.key, m.value, m.headers) for m in tl.log.read("orders")]
    assert found[:2] == [(1, b"k", b"a", {"x": 1}), (2, None, b"b", None)]
    assert [m.offset for m in tl.log.read("orders", start=2, limit=3)] == [2, 3, 4]
    assert [m.offset for m in tl.log.read("orders", start=4, fetch_bytes=1)] == [4, 5]


def test_reads_every_message_of_large_batches(tl: SyncPlatform) -> None:
    for first in range(1, 120_001, 40_000):
        fill(tl, 40_000, first)
    assert [m.offset for m in tl.log.read("orders")] == list(range(1, 120_001))


def test_manages_topics_and_groups(tl: SyncPlatform) -> None:
    fill(tl, 3)
    with tl.log.consume("orders", "g") as consumer:
        poll(consumer).commit()
    assert tl.log.alter("orders", partitions=2).partitions == 2
    assert [topic.messages for topic in tl.log.list()] == [3]
    assert [p.last_offset for p in tl.log.describe("orders")] == [3, 0]
    assert tl.log.offset_at("orders", 0, datetime.now(UTC) - timedelta(days=1)) == 1
    assert [p.up_to for p in tl.log.groups("orders")] == [3, 0]
    assert tl.log.seek("orders", "g", 2, partition=0) == {0: 2}
    assert [lag.lag for lag in tl.log.lag()] == [2]
    tl.log.group_delete("orders", "g")
    assert tl.log.trim("orders", 0, 3) == 3
    assert [check.problem for check in tl.log.verify("orders")] == [None, None]
    tl.log.create("state", compact=True)
    assert tl.log.compact("state") == {0: 0}
    tl.log.delete("orders")
    with pytest.raises(NotFound):
        tl.log.describe("orders")


def test_refuses_what_the_other_refuses(tl: SyncPlatform) -> None:
    with tl.transaction() as connection, pytest.raises(BadRequest, match=r"broker\.publish"):
        tl.log.append("orders", b"a", on=connection)
    with pytest.raises(Invalid, match="empty"):
        tl.log.append("orders", [])
    with pytest.raises(Invalid, match="mode"):
        tl.log.consume("orders", "g", mode="odd")
    with pytest.raises(NotFound):
        tl.log.append("nowhere", b"a")
    assert list(tl.log.read("orders")) == []


def test_threads_share_commits_and_each_learns_its_own_offset(tl: SyncPlatform) -> None:
    def append(number: int) -> Appended:
        (answer,) = tl.log.append("orders", str(number))
        return answer

    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(append, range(160)))
    stored = [message.value for message in tl.log.read("orders")]
    assert [stored[answer.first_offset - 1] for answer in answers] == [
        str(number).encode() for number in range(160)
    ]
    assert len(tl.db.run(calls.fetch("orders", 0, 1))) < 160


def test_a_group_is_read_in_a_plain_loop(tl: SyncPlatform) -> None:
    fill(tl, 6)
    found = []
    with tl.log.consume("orders", "g", max_messages=2) as consumer:
        for batch in consumer:
            found.append((batch.topic, batch.partition, batch.offsets, numbers(batch)))
            assert [m.value for m in batch.messages] == batch.values
            assert batch.to_arrow().column("offset").to_pylist() == batch.offsets
            assert (batch.first_offset, batch.last_offset) == (batch.offsets[0], batch.offsets[-1])
            assert len(batch) == 2
            batch.commit()
            if batch.last_offset == 6:
                break
        assert (consumer.topic, consumer.group, consumer.assignment) == ("orders", "g", [0])
        assert consumer.poll(0) is None
    assert found == [
        ("orders", 0, [1, 2], [1, 2]),
        ("orders", 0, [3, 4], [3, 4]),
        ("orders", 0, [5, 6], [5, 6]),
    ]
    assert tl.log.groups("orders")[0].up_to == 6


def test_positions_are_committed_while_the_loop_goes_on(tl: SyncPlatform) -> None:
    tl.log.append("orders", THREE)
    with tl.log.consume("orders", "g", max_messages=1) as consumer:
        for _ in THREE:
            batch = consumer.poll(10)
            assert batch is not None
            batch.commit_soon()
        consumer.flush()
        assert [position.up_to for position in tl.log.groups("orders", "g")] == [3]


def test_the_effect_and_the_position_are_committed_together(tl: SyncPlatform) -> None:
    with tl.transaction() as connection:
        connection.execute("drop table if exists effect")
        connection.execute("create table effect (n int)")
    fill(tl, 4)
    with tl.log.consume("orders", "g", max_messages=2) as consumer:
        batch = poll(consumer)
        with pytest.raises(ZeroDivisionError), tl.transaction() as connection:
            connection.execute("insert into effect values (99)")
            batch.commit(on=connection)
            raise ZeroDivisionError
        batch.release(reason="tried")
        batch = poll(consumer)
        with tl.transaction() as connection:
            connection.execute("insert into effect select unnest(%s::int[])", [numbers(batch)])
            batch.commit(on=connection)
    with tl.transaction() as connection:
        assert connection.execute("select n from effect").fetchall() == [(1,), (2,)]
    assert tl.log.groups("orders")[0].up_to == 2


def test_who_was_fenced_is_told_and_goes_on_from_the_new_position(tl: SyncPlatform) -> None:
    fill(tl, 4)
    with tl.log.consume("orders", "g", max_messages=2) as consumer:
        poll(consumer).commit()
        batch = poll(consumer)
        tl.log.seek("orders", "g", "earliest")
        with pytest.raises(LeaseLost), tl.transaction() as connection:
            batch.commit(on=connection)
        assert consumer.assignment == []
        assert numbers(poll(consumer)) == [1, 2]


def test_who_was_ahead_of_a_standby_is_told_once_and_goes_on(tl: SyncPlatform, dsn: str) -> None:
    fill(tl, 2)
    with tl.log.consume("orders", "g") as consumer:
        poll(consumer).commit()
        fill(tl, 1, first=3)
        batch = poll(consumer)
        fail_over(dsn, after=2)
        with pytest.raises(PositionTrimmed), tl.transaction() as connection:
            batch.commit(on=connection)
        assert numbers(poll(consumer)) == [3]


def test_claims_are_released_and_extended(tl: SyncPlatform) -> None:
    fill(tl, 2)
    with tl.log.consume("orders", "g", mode="shared") as consumer:
        batch = poll(consumer)
        batch.extend(timedelta(minutes=5))
        batch.release(reason="busy")
        batch = poll(consumer)
        assert batch.attempts == 2
        batch.commit()
        with pytest.raises(LeaseLost):
            batch.commit()
        assert consumer.assignment == []


def test_a_producer_sends_in_the_background_and_tells_failures_at_the_end(tl: SyncPlatform) -> None:
    with tl.log.producer("orders", linger=60) as producer:
        for number in range(50):
            producer.send(str(number), key="k", headers={"n": number})
        producer.flush()
        assert len(list(tl.log.read("orders"))) == 50
        producer.send("x", partition=9)
        with pytest.raises(NotFound):
            producer.flush()
        with pytest.raises(Invalid):
            producer.send(None)
    with pytest.raises(Invalid, match="closed"):
        producer.send("late")


def test_closing_ends_the_loop_of_another_thread(dsn: str, tl: SyncPlatform) -> None:
    fill(tl, 1)
    other = trunkline.connect_sync(dsn)
    consumer = other.log.consume("orders", "g", poll_interval=30)
    seen: list[int] = []

    def read() -> None:
        for batch in consumer:
            seen.extend(numbers(batch))

    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(read)
        wait_until(lambda: seen == [1])
        other.close()
        reading.result(10)
    other.close()
    assert tl.log.groups("orders")[0].process is None
    with pytest.raises(BadRequest, match="closed"):
        other.log.append("orders", b"late")
    with pytest.raises(Unavailable):
        other.log.list()
    assert not [t for t in threading.enumerate() if t.name == "trunkline" and t.is_alive()][1:]


def test_what_ended_with_its_connection_may_be_closed_after_it(dsn: str) -> None:
    other = trunkline.connect_sync(dsn)
    other.log.create("late")
    consumer, producer = other.log.consume("late", "g"), other.log.producer("late")
    producer.send(b"a")
    other.close()
    consumer.close()
    producer.close()
    with pytest.raises(BadRequest, match="closed"):
        producer.send(b"b")


@pytest.fixture
def control_c() -> Iterator[None]:
    """SIGINT as in a terminal: what is started in the background of a shell ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("control_c")
def test_control_c_while_polling_loses_nothing(tl: SyncPlatform) -> None:
    with tl.log.consume("orders", "g", poll_interval=30) as consumer:
        assert consumer.poll(0) is None
        timer = threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT])
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            consumer.poll()
        timer.join()
        fill(tl, 2)
        assert numbers(poll(consumer)) == [1, 2]


def test_a_forked_child_is_told_to_connect_and_leaves_its_parent_alone(
    dsn: str, tl: SyncPlatform
) -> None:
    parent = subprocess.run(
        [sys.executable, "-c", FORKS, dsn], capture_output=True, text=True, timeout=30, check=True
    )

    connect = "Connect after the fork: each process needs connections of its own."
    assert parent.stdout.splitlines() == [connect, connect, "7", "[b'before', b'after']"]
    assert parent.stderr == ""


def test_a_dsn_that_leads_nowhere_is_told() -> None:
    with pytest.raises(Unavailable):
        trunkline.connect_sync("host=127.0.0.1 port=1", connect_timeout=0.2)


def test_options_reach_the_consumer_and_the_producer(tl: SyncPlatform) -> None:
    options: dict[str, Any] = {"max_messages": 0}
    with pytest.raises(Invalid, match="max_messages"):
        tl.log.consume("orders", "g", **options)
    with pytest.raises(Invalid, match="linger"):
        tl.log.producer("orders", linger=-1)
