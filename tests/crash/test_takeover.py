"""How soon others take over the work of a process that is killed, stopped or cut off."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.fixtures.asking import ask

import trunkline
from trunkline.testing import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures.proxy import Proxy

pytestmark = pytest.mark.crash

PROGRAM = Path(__file__).with_name("takeover_worker.py")
WORK = ["log", "shared", "broker", "tube"]
SOON = 2.0  # seconds: the goal for those whose session ends
SLACK = 1.0  # of a machine that is busy
END_POOLED = """
    select pg_terminate_backend(a.pid) from pg_stat_activity a
     where a.datname = current_database() and a.pid <> pg_backend_pid()
       and not exists (select from pg_locks k where k.pid = a.pid and k.locktype = 'advisory')
"""
LIVING = "select count(*) from trunkline.lease_list() where living"


class Worker:
    """A process that works, and what it said."""

    def __init__(self, *words: str):
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), *words], stdout=subprocess.PIPE, text=True
        )
        self.lines: list[str] = []
        self._listening = threading.Thread(target=self._listen)
        self._listening.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.strip())

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._listening.join()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def said(self, what: str, within: float = 20) -> float:
        """Wait until a line has these words; when that was."""

        def heard() -> float:
            assert any(what in line for line in self.lines), (what, self.lines[-5:])
            return time.monotonic()

        at: float = wait_until(heard, within)
        return at


@contextmanager
def workers(*words: tuple[str, ...]) -> Iterator[list[Worker]]:
    started: list[Worker] = []
    try:
        for each in words:
            started.append(Worker(*each))
            started[-1].said("ready")
        yield started
    finally:
        for worker in started:
            worker.end()


class Feed:
    """Gives work to all lanes or partitions, and asks the database."""

    def __init__(self, dsn: str):
        self.tl = trunkline.connect_sync(dsn)
        self.session = psycopg.connect(dsn, autocommit=True)
        self.tl.log.create("orders", partitions=2)
        self.session.execute("create table orders (id int primary key)")
        self.tl.tube.ensure("orders")
        self.tl.tube.attach("orders", "orders")
        self.number = 0

    def give(self, work: str, count: int = 40) -> None:
        for _ in range(count):
            self.number += 1
            if work in {"log", "shared"}:
                self.tl.log.append("orders", f"<{self.number}>", key=str(self.number))
            elif work == "broker":
                self.tl.broker.publish("orders.x", f"<{self.number}>", key=str(self.number))
            else:
                self.session.execute("insert into orders values (%s)", [self.number])
        self.tick(work)

    def tick(self, work: str) -> None:
        if work == "broker":
            self.tl.broker.tick()
            self.session.execute("select trunkline.broker_match()")
        elif work == "tube":
            self.tl.tube.tick()

    def wait_for_tied(self, count: int) -> None:
        tied = "select count(*) from trunkline.lease where session_since is not null"
        wait_until(lambda: self.expect(tied, count), 20)

    def expect(self, query: str, answer: Any) -> None:
        assert ask(self.session, query) == answer


@pytest.fixture
def feed(dsn: str) -> Iterator[Feed]:
    fed = Feed(dsn)
    yield fed
    fed.session.close()
    fed.tl.close()


def handled(lines: list[str]) -> set[int]:
    words = [word for line in lines if line.startswith("handled") for word in line.split()[1:]]
    return {int(word.strip("<>")) for word in words if word.strip("<>").isdigit()}


@pytest.mark.parametrize("work", WORK)
def test_the_work_of_a_killed_process_is_taken_over_within_two_seconds(
    dsn: str, feed: Feed, work: str
) -> None:
    with workers((work, dsn), (work, dsn)) as (first, second):
        feed.wait_for_tied(2)
        time.sleep(4)  # until both have their share
        feed.give(work)
        wait_until(lambda: all_handled(feed, first, second), 20)
        max(first, second, key=lambda worker: len(handled(worker.lines))).process.kill()
        killed = time.monotonic()
        feed.give(work)
        wait_until(lambda: all_handled(feed, first, second), 20)
        took = time.monotonic() - killed
        assert took < SOON + SLACK


def all_handled(feed: Feed, *some: Worker) -> None:
    feed.tick("tube")
    feed.tick("broker")
    found = set[int]().union(*(handled(worker.lines) for worker in some))
    assert found >= set(range(1, feed.number + 1)), len(found)


def test_a_claim_of_a_killed_reader_comes_back_within_two_seconds(dsn: str, feed: Feed) -> None:
    with workers(("shared", dsn), ("shared", dsn)) as (first, second):
        feed.wait_for_tied(2)
        feed.tl.log.append("orders", "hold", partition=0)
        wait_until(lambda: holding(first, second), 10)
        victim, other = (first, second) if "holding" in first.lines else (second, first)
        victim.process.kill()
        assert other.said("holding") - time.monotonic() < SOON + SLACK


def holding(*some: Worker) -> None:
    assert any("holding" in worker.lines for worker in some)


def test_a_process_that_is_stopped_keeps_its_work_until_its_lease_ends(
    dsn: str, feed: Feed
) -> None:
    with workers(("log", dsn), ("log", dsn)) as (first, _):
        feed.wait_for_tied(2)
        first.process.send_signal(signal.SIGSTOP)
        time.sleep(6)
        feed.expect(LIVING, 2)
        first.process.send_signal(signal.SIGCONT)


def test_a_process_that_is_cut_off_in_silence_keeps_its_work_until_its_lease_ends(
    dsn: str, feed: Feed, proxy: Callable[[str], Proxy]
) -> None:
    wire = proxy(dsn)
    with workers(("log", wire.dsn), ("log", dsn)):
        feed.wait_for_tied(2)
        wire.freeze()
        time.sleep(6)
        feed.expect(LIVING, 2)
        wire.thaw()


def test_a_process_that_connects_again_at_once_keeps_its_work(
    dsn: str, feed: Feed, proxy: Callable[[str], Proxy]
) -> None:
    wire = proxy(dsn)
    owned = "select string_agg(resource || epoch, ',' order by resource) from trunkline.owner"
    with workers(("log", wire.dsn), ("log", dsn)):
        feed.wait_for_tied(2)
        wait_until(
            lambda: feed.expect("select count(distinct process) from trunkline.owner", 2), 10
        )
        before = ask(feed.session, owned)
        for _ in range(3):
            wire.cut()
            time.sleep(1.5)
        feed.wait_for_tied(2)
        feed.expect(LIVING, 2)
        feed.expect(owned, before)


def test_behind_a_pooler_the_lease_decides(dsn: str, feed: Feed, pooled: str) -> None:
    feed.session.execute("select trunkline.config_set('lease.ttl', '8 seconds')")
    with workers(("log", pooled, "pooled"), ("log", dsn)) as (first, second):
        feed.wait_for_tied(1)
        time.sleep(4)
        feed.expect("select count(*) from pg_locks where locktype = 'advisory'", 1)
        first.process.kill()
        killed = time.monotonic()
        feed.give("log")
        time.sleep(2)
        feed.expect(LIVING, 2)
        wait_until(lambda: all_handled(feed, first, second), 20)
        assert 2 < time.monotonic() - killed < 8 + 4


def test_living_processes_behind_a_pooler_are_never_ended(
    dsn: str, feed: Feed, pooled: str
) -> None:
    with workers(("log", pooled, "pooled"), ("log", pooled, "pooled"), ("log", dsn)):
        feed.wait_for_tied(1)
        time.sleep(2)
        for _ in range(4):
            feed.session.execute(END_POOLED)
            time.sleep(1)
        feed.expect(LIVING, 3)
