"""maintain(): every duty in its own transaction, callable from anywhere, by any number."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.core.demo import opened, tick, write
from tests.fixtures.asking import ask, column, refused

from trunkline.core.db import AsyncDb
from trunkline.core.errors import DatabaseError
from trunkline.core.maintain import Maintainer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.postgres import TwoSessions
    from tests.fixtures.programs import Programs

Session = psycopg.Connection[Any]

MAINTAIN = "call trunkline.maintain()"


@pytest.fixture
def session(dsn: str) -> Iterator[Session]:
    with psycopg.connect(dsn, autocommit=True) as opened_session:
        yield opened_session


def add_duty(session: Session, name: str, body: str, rank: int = 1) -> None:
    """A duty that leaves a row in `work` for every step, and does what the body says."""
    session.execute(
        "create table if not exists trunkline.work (duty text, xid xid8);"
        f"create function trunkline.{name}() returns boolean language plpgsql as $$ begin"
        f" insert into trunkline.work values ('{name}', pg_current_xact_id()); {body} end $$;"
        f"insert into trunkline.duty (duty, rank) values ('{name}', {rank})"
    )


def errors(session: Session) -> dict[str, str]:
    rows: list[Any] = session.execute(
        "select duty, error from trunkline.duty_list() where error is not null"
    ).fetchall()
    return dict(rows)


def test_it_is_callable_from_psql(dsn: str, session: Session, programs: Programs) -> None:
    programs.psql(dsn, MAINTAIN)
    assert column(session, "select duty from trunkline.duty_list() where ran_at is null") == []
    assert errors(session) == {}


async def test_the_service_calls_it(db: AsyncDb, session: Session) -> None:
    await Maintainer(db).run_once()
    assert column(session, "select duty from trunkline.duty_list() where ran_at is null") == []


def test_duties_run_in_their_order_and_each_step_in_a_transaction_of_its_own(
    session: Session,
) -> None:
    more = "return (select count(*) from trunkline.work where duty = 'second') < 3;"
    add_duty(session, "second", more, rank=2)
    add_duty(session, "first", "return false;", rank=1)
    session.execute(MAINTAIN)
    assert column(session, "select duty from trunkline.work order by xid") == [
        "first",
        *["second"] * 3,
    ]
    assert ask(session, "select count(distinct xid) from trunkline.work") == 4


def test_a_duty_that_fails_is_noted_undone_and_does_not_stop_the_others(session: Session) -> None:
    add_duty(session, "broken", "perform 1 / 0; return true;", rank=1)
    add_duty(session, "sound", "return false;", rank=2)
    session.execute("insert into trunkline.duty (duty, rank) values ('missing', 0)")
    warnings: list[str | None] = []
    session.add_notice_handler(lambda notice: warnings.append(notice.message_primary))
    session.execute(MAINTAIN)
    assert column(session, "select duty from trunkline.work") == ["sound"]
    found = errors(session)
    assert found["broken"] == "division by zero (22012)"
    assert "does not exist" in found["missing"]
    assert any("broken" in (text or "") for text in warnings)


def test_a_duty_that_works_again_is_no_longer_in_trouble(session: Session) -> None:
    add_duty(session, "broken", "perform 1 / 0; return true;")
    session.execute(MAINTAIN)
    failed_at = "select failed_at from trunkline.duty_list() where duty = 'broken'"
    assert ask(session, failed_at)
    session.execute(
        "create or replace function trunkline.broken() returns boolean language sql as"
        " 'select false'"
    )
    session.execute(MAINTAIN)
    assert errors(session) == {}
    assert ask(session, failed_at)


def test_an_idle_round_writes_nothing(session: Session) -> None:
    session.execute(MAINTAIN)
    rows = "select xmin::text from trunkline.duty union all select xmin::text from trunkline.ring"
    before = column(session, rows)
    session.execute(MAINTAIN)
    assert column(session, rows) == before


def test_two_at_once_share_the_work_and_neither_waits(two_sessions: TwoSessions) -> None:
    a, b, watcher = two_sessions.a, two_sessions.b, two_sessions.watcher
    add_duty(watcher, "slow", "return false;", rank=0)
    add_duty(watcher, "quick", "return false;", rank=1)
    a.execute("select 1 from trunkline.duty where duty = 'slow' for no key update")
    b.autocommit = True
    b.execute("set lock_timeout = '1ms'")
    b.execute(MAINTAIN)
    assert column(watcher, "select duty from trunkline.work") == ["quick"]


def test_many_at_once_do_no_harm(dsn: str) -> None:
    with opened(dsn) as session:
        for ring in ("demo", "tick", "cursor"):
            session.execute(
                f"select trunkline.config_set('ring.{ring}.rotate_every', '1 millisecond')"
            )

        def work(number: int) -> None:
            with closing(psycopg.connect(dsn, autocommit=True)) as own:
                for turn in range(10):
                    write(own, f"{number}.{turn}")
                    tick(own)
                    own.execute(MAINTAIN)

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(work, range(4)))
        tick(session)
        assert errors(session) == {}
        assert ask(session, "select max(first_position + n - 1) from trunkline.tick") == 40


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_the_default_isolation_of_the_database_does_not_matter(dsn: str, level: str) -> None:
    with opened(dsn) as session:
        session.execute("select trunkline.config_set('ring.demo.rotate_every', '1 millisecond')")
        write(session, "a")
        tick(session)
        session.execute(f"set default_transaction_isolation = '{level}'")
        session.execute(MAINTAIN)
        session.execute(MAINTAIN)
        assert errors(session) == {}
        assert ask(session, "select count(*) from trunkline.demo") == 0


def test_inside_a_transaction_it_says_why_not(session: Session) -> None:
    with refused("2D000"), session.transaction():
        session.execute(MAINTAIN)


def test_a_statement_that_is_cancelled_is_not_a_failed_duty(session: Session) -> None:
    add_duty(session, "long", "perform pg_sleep(60); return false;")
    session.execute("set statement_timeout = '100ms'")
    with refused("57014"):
        session.execute(MAINTAIN)
    session.execute("reset statement_timeout")
    assert errors(session) == {}


async def test_a_duty_that_takes_longer_than_a_statement_may_does_not_keep_the_others_from_theirs(
    dsn: str, session: Session
) -> None:
    add_duty(session, "long", "perform pg_sleep(60); return false;", rank=0)
    add_duty(session, "quick", "return (select count(*) from trunkline.work) < 3;", rank=1)
    db = AsyncDb(make_conninfo(dsn, options="-c statement_timeout=200ms"))
    service = Maintainer(db)
    for _ in range(2):
        with pytest.raises(DatabaseError) as caught:
            await service.run_once()
        assert caught.value.sqlstate == "57014"
    await db.close()
    assert column(session, "select duty from trunkline.work") == ["quick"] * 4
    late = "select duty from trunkline.duty_list() where ran_at is null"
    assert column(session, late) == ["long"]


def test_a_timeout_that_the_server_cannot_take_is_refused_and_the_longest_works(
    session: Session,
) -> None:
    names = column(session, "select name from trunkline.config_list() where name ~ '_timeout$'")
    assert "maintain.lock_timeout" in names
    for name in names:
        with refused("TL422"):
            session.execute("select trunkline.config_set(%s, '25 days')", [name])
        session.execute("select trunkline.config_set(%s, '24 days')", [name])
    session.execute("select trunkline.log_create('orders', compact => true)")
    append = "select trunkline.log_append('orders', 0, array['x'::bytea], array['k'::bytea])"
    for _ in range(2):
        session.execute(append)
        session.execute("select trunkline._log_roll(topic_id, 0) from trunkline.log_topic")
    session.execute(MAINTAIN)
    assert errors(session) == {}
