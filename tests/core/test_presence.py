"""A lease that is tied to a session ends with it."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import psycopg
import pytest
from tests.fixtures.asking import ask, refused, writing_nothing

from trunkline.core import migrate
from trunkline.core.lease import ProcessLease
from trunkline.core.listen import Listener
from trunkline.testing import eventually, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trunkline.core.db import AsyncDb
    from trunkline.core.embedded import Server

Session = psycopg.Connection[Any]

ATTEND = "select trunkline.lease_attend(%s, %s)"
LOCK = "select pg_try_advisory_lock(trunkline.lease_key(%s))"
WATCH = "select trunkline.lease_watch(%s)"
LIVING = "select coalesce(bool_or(living), false) from trunkline.lease_list() where process = %s"


@pytest.fixture
def session(dsn: str) -> Iterator[Session]:
    with psycopg.connect(dsn, autocommit=True) as opened:
        yield opened


def born(session: Session) -> UUID:
    process = uuid4()
    session.execute("select trunkline.lease_renew(%s)", [process])
    return process


def tie(session: Session, process: UUID) -> bool:
    assert ask(session, LOCK, [process])
    tied: bool = ask(session, ATTEND, [process, session.info.backend_pid])
    return tied


def close(session: Session) -> None:
    """Close a session and wait until the server has ended it."""
    pid = session.info.backend_pid
    with psycopg.connect(session.info.dsn, autocommit=True) as other:
        session.close()
        there = "select count(*) from pg_stat_activity where pid = %s"
        wait_until(lambda: expect_no(ask(other, there, [pid])))


def expect_no(count: int) -> None:
    assert count == 0


def test_a_lease_ends_soon_after_the_session_that_it_is_tied_to(dsn: str, session: Session) -> None:
    me, other, listening = born(session), uuid4(), psycopg.connect(dsn, autocommit=True)
    with closing(listening):
        listening.execute("listen trunkline")
        with closing(psycopg.connect(dsn, autocommit=True)) as its:
            other = born(its)
            assert tie(its, other)
            with writing_nothing(session):
                assert ask(session, WATCH, [me]) == "there"
            close(its)
        assert ask(session, WATCH, [me]) == "missing"
        assert ask(session, LIVING, [other])
        time.sleep(0.9)
        assert ask(session, WATCH, [me]) == "gone"
        assert not ask(session, LIVING, [other])
        heard = [notice.payload for notice in listening.notifies(timeout=5, stop_after=1)]
        assert heard == [f"lease:{other}"]
        assert ask(session, WATCH, [me]) == "there"


def test_another_session_of_the_process_may_take_its_place(dsn: str, session: Session) -> None:
    me = born(session)
    with closing(psycopg.connect(dsn, autocommit=True)) as its:
        other = born(its)
        assert tie(its, other)
        close(its)
    assert ask(session, WATCH, [me]) == "missing"
    with closing(psycopg.connect(dsn, autocommit=True)) as its:
        assert tie(its, other)
        time.sleep(0.9)
        assert ask(session, WATCH, [me]) == "there"
        assert ask(session, LIVING, [other])


def test_all_who_died_are_found_one_after_the_other(dsn: str, session: Session) -> None:
    me = born(session)
    others = []
    for _ in range(5):
        with closing(psycopg.connect(dsn, autocommit=True)) as its:
            others.append(born(its))
            assert tie(its, others[-1])
            close(its)
    assert ask(session, WATCH, [me]) == "missing"
    time.sleep(0.9)
    answers = [ask(session, WATCH, [me]) for _ in range(6)]
    assert answers == ["gone"] * 5 + ["there"]
    assert not any(ask(session, LIVING, [other]) for other in others)


def test_a_lease_without_a_session_of_its_own_lasts(dsn: str, session: Session) -> None:
    me, plain, pooled = born(session), born(session), born(session)
    with closing(psycopg.connect(dsn, autocommit=True)) as its:
        assert ask(its, LOCK, [pooled])
        assert not ask(its, ATTEND, [pooled, its.info.backend_pid + 1])  # as a pooler says
        assert not ask(its, ATTEND, [plain, its.info.backend_pid])  # its lock is not held
        assert not ask(its, ATTEND, [uuid4(), its.info.backend_pid])
        close(its)
    assert ask(session, WATCH, [me]) == "there"
    assert ask(session, LIVING, [plain])
    assert ask(session, LIVING, [pooled])


def test_a_session_that_does_not_hold_the_lock_any_more_unties_the_lease(
    session: Session,
) -> None:
    me, other = born(session), born(session)
    assert tie(session, other)
    session.execute("select pg_advisory_unlock_all()")
    assert not ask(session, ATTEND, [other, session.info.backend_pid])
    assert ask(session, WATCH, [me]) == "there"


def test_a_row_that_is_locked_delays_no_watcher(dsn: str, session: Session) -> None:
    me = born(session)
    with closing(psycopg.connect(dsn, autocommit=True)) as its:
        other = born(its)
        assert tie(its, other)
        close(its)
    with closing(psycopg.connect(dsn)) as holder:
        holder.execute("select from trunkline.lease where process = %s for update", [other])
        session.execute("set lock_timeout = '1s'")
        assert ask(session, WATCH, [me]) == "there"
        holder.rollback()
        assert ask(session, WATCH, [me]) == "missing"


def test_nobody_ties_the_lease_of_another(dsn: str, session: Session) -> None:
    process = born(session)
    session.execute("create role presence_reader login in role trunkline_reader")
    try:
        with psycopg.connect(dsn, user="presence_reader", autocommit=True) as reader:
            assert ask(reader, LOCK, [process])
            with refused("TL403"):
                reader.execute(ATTEND, [process, reader.info.backend_pid])
    finally:
        session.execute("drop role presence_reader")


@pytest.mark.timeout(60)
def test_after_a_crash_of_the_server_sessions_have_five_seconds_to_come_back(
    own_server: Callable[..., Server],
) -> None:
    dsn = own_server().dsn("postgres")
    migrate.install(dsn)
    with psycopg.connect(dsn, autocommit=True) as session, psycopg.connect(dsn) as victim:
        me, other = born(session), born(session)
        victim.autocommit = True
        assert tie(victim, other)
        before = ask(session, "select trunkline._sessions_since()")
        session.execute("select pg_sleep(0.1)")
        os.kill(victim.info.backend_pid, signal.SIGKILL)

    def recovered() -> None:
        with psycopg.connect(dsn, autocommit=True) as session:
            assert ask(session, "select trunkline._sessions_since()") > before

    wait_until(recovered, 20, also=(psycopg.OperationalError,))
    with psycopg.connect(dsn, autocommit=True) as session:
        assert ask(session, WATCH, [me]) == "missing"
        time.sleep(1)
        assert ask(session, WATCH, [me]) == "missing"
        time.sleep(4.2)
        assert ask(session, WATCH, [me]) == "gone"


async def test_a_process_ties_its_lease_to_the_session_of_its_listener(
    db: AsyncDb, session: Session
) -> None:
    listener = Listener(db.connect)
    lease = ProcessLease(db, listener=listener)
    listener.attend = lease.attend
    process = await lease.hold()

    def tied() -> None:
        assert lease.presence.is_tied

    await eventually(tied)
    holders = "select pid from pg_locks where locktype = 'advisory' and granted"
    first = ask(session, holders)
    session.execute("select pg_terminate_backend(%s)", [first])

    def tied_again() -> None:
        assert lease.presence.is_tied
        assert ask(session, f"select ({holders})") not in {None, first}

    await eventually(tied_again)
    await asyncio.sleep(1)
    assert ask(session, LIVING, [process])
    await lease.close()
    await listener.close()
    assert not ask(session, LIVING, [process])
