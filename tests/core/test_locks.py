"""How long the open transaction of a client can hold up others: docs/explanation/locks.md."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import psycopg
import pytest
from tests.fixtures.asking import ask, call, column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Session = psycopg.Connection[Any]
Hold = tuple[str, list[Any]]

PAGE = Path(__file__).parents[2] / "docs/explanation/locks.md"
TAKES = r"for (no key )?(update|share|key share)|lock table|advisory_xact_lock"
COMMENTS = r"/\*.*?\*/|--[^\n]*"


@pytest.fixture
def session(dsn: str) -> Iterator[Session]:
    with psycopg.connect(dsn, autocommit=True) as opened:
        opened.execute("select trunkline.config_set('lease.ttl', '1 second')")
        opened.execute("select trunkline.log_create('orders', partitions => 2)")
        opened.execute(
            "select trunkline.log_append_text('orders', 'x', key => k::text)"
            " from generate_series(1, 9) k"
        )
        opened.execute("select trunkline.tube_ensure('feed')")
        opened.execute("select trunkline.broker_subscribe('billing')")
        yield opened


@pytest.fixture
def idle(dsn: str) -> Iterator[Session]:
    """A session whose transaction stays open."""
    with psycopg.connect(dsn) as opened:
        yield opened
        if not opened.broken:
            opened.rollback()


def process(session: Session) -> UUID:
    made = uuid4()
    call(session, "lease_renew", process=made)
    return made


def appends(session: Session) -> Hold:
    return "select trunkline.log_append('orders', 0, array['x'::bytea])", []


def appends_by_own_function(session: Session) -> Hold:
    name = ask(session, "select proname from pg_proc where proname ~ '^log_append_batch_[0-9]+_0$'")
    return (
        f"select trunkline.{name}('orders', 0, 1, 0, '\\x0000000001000000', '\\x78')",
        [],
    )


def commits(session: Session) -> Hold:
    mine = process(session)
    rows = call(session, "log_join", topic="orders", group_name="g", process=mine)
    return "select trunkline.log_commit('orders', 'g', 0, %s, 1)", [rows[0][1]]


def joins(session: Session) -> Hold:
    return "select trunkline.log_join('orders', 'g', %s)", [process(session)]


def leaves(session: Session) -> Hold:
    mine = process(session)
    call(session, "log_join", topic="orders", group_name="g", process=mine)
    return "select trunkline.log_leave('orders', 'g', %s)", [mine]


def claims(session: Session) -> Hold:
    return "select trunkline.log_claim('orders', 'shared', 0, 1)", []


def renews(session: Session) -> Hold:
    return "select trunkline.lease_renew(%s)", [process(session)]


def works_a_tube(session: Session) -> Hold:
    return "select trunkline.tube_join('feed', %s)", [process(session)]


def flushes(session: Session) -> Hold:
    return "select trunkline.tube_flush()", []


def handles(session: Session) -> Hold:
    return "select trunkline.broker_join('billing', 'bill', %s)", [process(session)]


def matches(session: Session) -> Hold:
    session.execute("select trunkline.broker_publish('a', '1')")
    session.execute("select trunkline.broker_tick()")
    return "select trunkline.broker_match()", []


def ticks(session: Session) -> Hold:
    session.execute("select trunkline.broker_publish('a', '1')")
    return "select trunkline.broker_tick()", []


HOLDERS = [
    appends,
    appends_by_own_function,
    commits,
    joins,
    leaves,
    claims,
    renews,
    works_a_tube,
    flushes,
    handles,
    matches,
    ticks,
]


@pytest.mark.parametrize("holder", HOLDERS)
def test_an_idle_transaction_that_holds_up_others_ends_after_a_lease(
    session: Session, idle: Session, holder: Callable[[Session], Hold]
) -> None:
    statement, values = holder(session)
    idle.execute("select 1")
    idle.execute(statement.encode(), values)
    time.sleep(0.5)
    idle.execute("select 1")
    time.sleep(1.6)
    with pytest.raises(psycopg.Error, match="idle-in-transaction timeout"):
        idle.execute("select 1")


def test_a_session_keeps_the_patience_that_it_has_set(session: Session, idle: Session) -> None:
    idle.execute("set idle_in_transaction_session_timeout = '1h'")
    idle.commit()
    idle.execute("select 1")
    idle.execute(appends(session)[0].encode())
    time.sleep(1.6)
    idle.execute("select 1")


def test_the_bound_ends_with_the_transaction(session: Session, idle: Session) -> None:
    idle.execute("select 1")
    idle.execute(appends(session)[0].encode())
    idle.commit()
    assert ask(idle, "show idle_in_transaction_session_timeout") == "0"


@pytest.mark.parametrize("holder", ["commit", "join"])
def test_a_dead_member_with_an_open_transaction_delays_no_other_partition(
    session: Session, idle: Session, holder: str
) -> None:
    """It holds one of two partitions: the heir gets the other now, and that one afterwards."""
    session.execute("select trunkline.config_set('lease.ttl', '1 minute')")
    dead, heir = process(session), process(session)
    if holder == "commit":
        rows = call(session, "log_join", topic="orders", group_name="g", process=dead)
        idle.execute("select trunkline.log_commit('orders', 'g', 0, %s, 0)", [rows[0][1]])
    else:
        call(session, "log_join", topic="orders", group_name="g", process=process(session))
        session.execute(
            "update trunkline.lease set expires = now() where process not in (%s, %s)", [dead, heir]
        )
        idle.execute("select trunkline.log_join('orders', 'g', %s)", [dead])
    call(session, "_lease_expire", process=dead)
    session.execute("set lock_timeout = '1s'")
    taken = call(session, "log_join", topic="orders", group_name="g", process=heir)
    assert [row[0] for row in taken] == ([1] if holder == "commit" else [])
    call(session, "lease_end", process=dead)
    session.execute("select trunkline.leases_expire()")
    session.execute("call trunkline.maintain()")
    idle.rollback()
    taken = call(session, "log_join", topic="orders", group_name="g", process=heir)
    assert [row[0] for row in taken] == [0, 1]


def test_upkeep_of_leases_waits_for_no_row(session: Session, idle: Session) -> None:
    old, older = process(session), process(session)
    session.execute("update trunkline.lease set expires = now() - interval '1 hour'")
    idle.execute("select from trunkline.lease where process = %s for update", [old])
    session.execute("set lock_timeout = '1s'")
    session.execute("select trunkline.leases_expire()")
    assert column(session, "select process from trunkline.lease") == [old]
    assert older != old


def test_every_lock_is_on_the_page(session: Session) -> None:
    """What takes a lock bounds it, or the page says how long it lasts."""
    taking = column(
        session,
        "select proname from pg_proc where pronamespace = 'trunkline'::regnamespace"
        " and regexp_replace(prosrc, %s, '', 'g') ~* %s"
        " and prosrc !~ '_lock_briefly' and proname !~ '^log_append_batch_'",
        [COMMENTS, TAKES],
    )
    named = set(re.findall(r"`(\w+)`", PAGE.read_text("utf-8")))
    assert set(taking) - named == set()
