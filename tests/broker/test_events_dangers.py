"""Dangers that other brokers fell to: each has a test that says how this one does not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.broker.steps import payloads, publish, tick
from tests.fixtures.asking import ask, call, column, connections

from trunkline import NewEvent
from trunkline.broker.enqueue import Enqueuer
from trunkline.core import migrate
from trunkline.core.db import AsyncDb
from trunkline.testing import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.asking import Session

    from trunkline.core.embedded import Server


@pytest.mark.crash
def test_events_not_yet_numbered_and_events_not_yet_due_survive_a_crash(
    own_server: Callable[..., Server],
) -> None:
    """W1: a table of unread events that is not logged is empty after a crash."""
    server = own_server(fsync="off")  # only the server dies, not the machine
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as root:
        root.execute("create database app")
    dsn = server.dsn("app")
    migrate.install(dsn)
    with connections(dsn) as connect:
        session, open_one = connect(), connect(autocommit=False)
        publish(session, "a", "numbered")
        tick(session)
        publish(session, "a", "not numbered")
        publish(session, "a", "due", deliver_at="2100-01-01")
        publish(open_one, "a", "not committed")
        server.kill()
    server.start()
    with connections(dsn) as connect:
        session = connect()
        session.execute("update trunkline.event_due set deliver_at = now()")
        assert call(session, "broker_release") == [(1,)]
        assert payloads(session) == ["numbered", "not numbered", "due"]


def test_an_idle_publisher_holds_up_neither_maintenance_nor_other_publishers(
    session: Session, other: Session
) -> None:
    """W23: whoever adds and drops partitions waits for it, and all others wait behind."""
    for ring in ("event", "tick", "delivery"):
        session.execute(f"select trunkline.config_set('ring.{ring}.rotate_every', '1 millisecond')")
    publish(other, "a", "idle")
    session.execute("set statement_timeout = '10s'")
    for number in range(5):
        publish(session, "a", number)
        tick(session)
        session.execute("call trunkline.maintain()")
    assert column(session, "select error from trunkline.duty_list() where error is not null") == []
    assert payloads(session) == list(range(5))
    other.commit()
    assert payloads(session) == [*range(5), "idle"]


def test_events_can_be_published_when_maintenance_never_runs(session: Session) -> None:
    """W24: partitions made ahead of time run out."""
    session.execute("update trunkline.ring set rotated_at = rotated_at - interval '10 years'")
    publish(session, "a", 1)
    assert payloads(session) == [1]


def test_publishing_leaves_no_dead_rows_in_hot_tables_under_a_held_snapshot(
    session: Session, other: Session
) -> None:
    """W27: a table that is written and deleted grows behind every long transaction."""
    other.execute("set transaction isolation level repeatable read")
    other.execute("select 1")
    tables = "relname ~ '^(event|tick|delivery)_[0-9]+$'"
    changed = f"select sum(n_tup_upd + n_tup_del) from pg_stat_user_tables where {tables}"
    here = "select count(*) from pg_stat_activity where datname = current_database()"
    # These two and who sweeps: whoever has gone has told what it did.
    wait_until(lambda: ask(session, here) == 3)
    before = ask(session, changed)
    for number in range(50):
        publish(session, "a", number)
        tick(session)
    session.execute("select pg_stat_force_next_flush()")
    assert ask(session, changed) == before


async def test_flushes_that_overlap_both_wait_for_what_was_enqueued(
    clean_dsn: str, session: Session
) -> None:
    """W16: the second of two flushes returned before the first was done."""
    db = AsyncDb(clean_dsn)
    enqueuer = Enqueuer(db, batch_events=2, linger=3600)
    answers = [await enqueuer.enqueue(NewEvent("a", number)) for number in range(5)]

    async def flushed() -> list[bool]:
        await enqueuer.flush()
        return [answer.done() for answer in answers]

    assert await asyncio.gather(flushed(), flushed(), flushed()) == [[True] * 5] * 3
    assert payloads(session) == list(range(5))
    await db.close()


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "America/Adak", "Asia/Kolkata"])
def test_the_time_zone_of_a_session_changes_nothing(
    session: Session, connect: Callable[..., Session], zone: str
) -> None:
    """W26: partitions named in local time are dropped too early by somebody further east."""
    session.execute("select trunkline.config_set('ring.event.rotate_every', '1 millisecond')")
    session.execute("select trunkline.config_set('maintain.settle', '0')")
    elsewhere = connect(options=f"-c timezone={zone}")
    for number, who in enumerate((session, elsewhere, session)):
        publish(who, "a", number)
        tick(who)
        elsewhere.execute("call trunkline.maintain()")
    assert payloads(session) == payloads(elsewhere) == [0, 1, 2]
    written = "select trunkline.event_id_text(1, '2026-01-01 12:00:00+00')"
    assert ask(session, written) == ask(elsewhere, written)


@pytest.mark.parametrize("topic", ["trunkline", "broker:tick", "pgmb-retry", "%s", "a'b\"c", "$1"])
def test_no_topic_means_anything_to_the_broker_itself(session: Session, topic: str) -> None:
    """W7: an event of a certain topic was taken for an order."""
    payload: dict[str, Any] = {"ids": [], "retry": 1}
    publish(session, topic, payload)
    assert payloads(session, topics=[topic]) == [payload]


@pytest.mark.parametrize("work", ["maintain()", "broker_work()"])
def test_the_session_that_does_the_upkeep_keeps_its_settings(session: Session, work: str) -> None:
    """W25: a search_path that stays behind in a pooled connection misleads the application."""
    settings = (
        "select name || '=' || setting from pg_settings"
        " where source = 'session' and name <> 'transaction_isolation' order by 1"
    )
    session.execute("set search_path = public")
    session.execute("set lock_timeout = '7s'")
    publish(session, "a")
    before = column(session, settings)
    session.execute(f"call trunkline.{work}")
    assert column(session, settings) == before
