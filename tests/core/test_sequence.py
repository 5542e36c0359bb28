"""Numbering after commit: every row once, in causal order, whatever its transaction did."""

from __future__ import annotations

import json
import random
import statistics
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.core.demo import Session, numbered, opened, payloads, tick, write, write_many
from tests.fixtures.asking import ask, column, refused, writing_nothing
from tests.fixtures.postgres import new_database

from trunkline.core import migrate
from trunkline.testing import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures.postgres import AnyServer, TwoSessions
    from tests.fixtures.programs import Programs

    from trunkline.core.embedded import Server


@pytest.fixture(scope="module")
def dsn(server: AnyServer, template: str) -> Iterator[str]:
    """One database for all tests; `demo` empties it."""
    with new_database(server, template=template) as name:
        yield server.dsn(name)


@pytest.fixture
def demo(dsn: str) -> Iterator[Session]:
    with opened(dsn) as session:
        yield session


@pytest.fixture
def other(dsn: str, demo: Session) -> Iterator[Session]:
    """A second session; closed without commit at the end."""
    with closing(psycopg.connect(dsn)) as session:
        yield session


# What gets a number


def test_rows_get_positions_from_1_in_the_order_they_were_written(demo: Session) -> None:
    write(demo, "a", "b", "c")
    assert tick(demo) == 3
    write(demo, "d")
    assert tick(demo) == 1
    assert numbered(demo) == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]


def test_a_row_has_no_position_before_its_commit_and_one_after(
    demo: Session, other: Session
) -> None:
    write(other, "late")
    assert tick(demo) == 0
    other.commit()
    assert tick(demo) == 1
    assert tick(demo) == 0


def test_an_open_transaction_delays_its_own_rows_and_nobody_elses(
    demo: Session, other: Session
) -> None:
    write(demo, "first")
    write(other, "slow")
    for number in range(20):
        write(demo, str(number))
        assert tick(demo) == (2 if number == 0 else 1)
    write(other, "slower")
    other.commit()
    assert tick(demo) == 2
    fast = [str(number) for number in range(20)]
    assert payloads(demo) == ["first", *fast, "slow", "slower"]


def test_what_began_after_a_commit_comes_after_it(demo: Session, other: Session) -> None:
    write(other, "late")
    write(demo, "cause")
    write(demo, "effect")
    other.commit()
    write(demo, "last")
    tick(demo)
    assert payloads(demo) == ["late", "cause", "effect", "last"]


def test_rollbacks_and_savepoints_number_what_was_committed(demo: Session, other: Session) -> None:
    write(other, "kept")
    other.execute("savepoint one")
    write(other, "undone")
    other.execute("rollback to savepoint one")
    other.execute("savepoint two")
    write(other, "in a savepoint")
    other.execute("savepoint three")
    write(other, "in a savepoint in a savepoint")
    other.execute("release savepoint two")
    assert tick(demo) == 0
    other.commit()
    write(other, "rolled back")
    other.rollback()
    assert tick(demo) == 3
    assert payloads(demo) == ["kept", "in a savepoint", "in a savepoint in a savepoint"]


def test_many_subtransactions_are_one_transaction(demo: Session, other: Session) -> None:
    for number in range(150):  # more than a snapshot lists
        other.execute("savepoint s")
        write(other, str(number))
        if number == 75:
            write(demo, "meanwhile")
            assert tick(demo) == 1
    other.commit()
    tick(demo)
    assert payloads(demo) == ["meanwhile", *[str(number) for number in range(150)]]


def test_a_prepared_transaction_is_numbered_when_it_is_committed(demo: Session) -> None:
    for gid in ("kept", "dropped"):
        demo.execute("begin")
        write(demo, gid)
        demo.execute(f"prepare transaction '{gid}'")
    write(demo, "plain")
    assert tick(demo) == 1
    demo.execute("commit prepared 'kept'")
    demo.execute("rollback prepared 'dropped'")
    assert tick(demo) == 1
    assert payloads(demo) == ["plain", "kept"]


def test_what_a_ticking_transaction_writes_itself_is_not_taken_for_seen(
    demo: Session, other: Session
) -> None:
    write(other, "before the tick")
    write(demo, "of another")  # commits with a higher xid: the next snapshot reaches beyond ours
    assert tick(other) == 1
    write(other, "after the tick")
    other.commit()
    assert tick(demo) == 2
    assert payloads(demo) == ["of another", "before the tick", "after the tick"]


def test_a_tick_that_is_rolled_back_has_not_been(demo: Session, other: Session) -> None:
    write(demo, "a")
    assert tick(other) == 1
    other.rollback()
    assert tick(demo) == 1
    assert payloads(demo) == ["a"]


def test_one_of_two_tickers_works_and_the_other_does_not_wait(
    demo: Session, other: Session
) -> None:
    write(demo, "a")
    assert tick(other) == 1
    write(demo, "b")
    demo.execute("set lock_timeout = '1ms'")
    assert tick(demo) == 0
    other.commit()
    assert tick(demo) == 1
    assert payloads(demo) == ["a", "b"]


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_tick_refuses_a_snapshot_that_it_cannot_renew(
    demo: Session, other: Session, level: str
) -> None:
    other.execute(f"set transaction isolation level {level}")
    with refused("TL400"):
        tick(other)


def test_an_unknown_sequence_is_named(demo: Session) -> None:
    with refused("TL404") as caught:
        demo.execute("select trunkline._tick_take('nothing')")
    assert "nothing" in str(caught.value)


def test_long_lists_are_cut_into_chunks_without_a_gap(demo: Session) -> None:
    write_many(demo, 25)
    assert tick(demo, chunk=10) == 25
    write_many(demo, 20)
    assert tick(demo, chunk=10) == 20
    sizes = demo.execute("select tick, first_position, n from trunkline.tick order by 1").fetchall()
    assert sizes == [(1, 1, 10), (2, 11, 10), (3, 21, 5), (4, 26, 10), (5, 36, 10)]
    assert len(payloads(demo)) == 45


@pytest.mark.parametrize(
    ("start", "most", "first", "last"),
    [(1, 1, 1, 1), (1, 10, 1, 10), (9, 4, 9, 12), (25, 100, 25, 25), (-5, 7, 1, 7), (26, 5, 0, 0)],
)
def test_rows_are_read_from_any_position(
    demo: Session, start: int, most: int, first: int, last: int
) -> None:
    write_many(demo, 25)
    tick(demo, chunk=10)
    wanted = [(number, str(number)) for number in range(first, last + 1) if number]
    assert numbered(demo, start, most) == wanted


def test_ticks_carry_a_tag_of_each_row_when_asked(demo: Session, other: Session) -> None:
    demo.execute("update trunkline.sequence set tag = 'length(r.payload)' where sequence = 'demo'")
    demo.execute("select trunkline._sequence_prepare('demo')")
    write(demo, "a", "abc", "ab")
    tick(demo, chunk=2)
    write(demo, "abcd")
    tick(demo)
    with other.transaction():
        write(other, "abcde")
        write(demo, "abcdef")
        tick(demo)
    tick(demo)
    tags = column(demo, "select tags from trunkline.tick order by tick")
    assert tags == [[1, 3], [2], [4], [6], [5]]


def test_an_idle_tick_writes_nothing(demo: Session, other: Session) -> None:
    write(demo, "a")
    write(other, "open")
    tick(demo)
    with writing_nothing(demo):
        assert tick(demo) == 0

    def adds_no_wal() -> None:  # the server itself may write some now and then
        before = ask(demo, "select pg_current_wal_insert_lsn()")
        assert tick(demo) == 0
        assert ask(demo, "select pg_current_wal_insert_lsn() - %s", [before]) == 0

    wait_until(adds_no_wal)


# Many at once


class Storm:
    """Writers that do everything a transaction can do, seeded; remembers what was committed."""

    def __init__(self, dsn: str, seed: int):
        self.dsn = dsn
        self.seed = seed
        self.committed: list[list[str]] = []
        self.done = threading.Event()
        self.rounds = 0
        self.rounds_wanted = 0

    def write(self, writer: int) -> None:
        chance = random.Random(self.seed * 100 + writer)
        kept: list[str] = []
        number = 0
        with closing(psycopg.connect(self.dsn, autocommit=True)) as session:
            while number < 25 or self.rounds < self.rounds_wanted:
                kept += self._transaction(session, chance, f"{writer}.{number}")
                number += 1
        self.committed.append(kept)

    def _transaction(self, session: Session, chance: random.Random, name: str) -> list[str]:
        rows: list[str] = []
        session.execute("begin")
        for part in range(chance.randint(1, 4)):
            payload = f"{name}.{part}"
            session.execute("savepoint s")
            write(session, payload)
            if chance.random() < 0.2:
                session.execute("rollback to savepoint s")
            else:
                rows.append(payload)
            if chance.random() < 0.3:
                session.execute("select pg_sleep(%s)", [chance.random() * 0.02])
        ending = chance.random()
        if ending < 0.2:
            session.execute("rollback")
            return []
        if ending < 0.4:
            session.execute(f"prepare transaction '{name}'")
            session.execute("select pg_sleep(%s)", [chance.random() * 0.02])
            drop = chance.random() < 0.3
            session.execute(f"{'rollback' if drop else 'commit'} prepared '{name}'")
            return [] if drop else rows
        session.execute("commit")
        return rows

    def tick(self) -> None:
        with closing(psycopg.connect(self.dsn, autocommit=True)) as session:
            while not self.done.is_set():
                tick(session, chunk=7)

    def rotate(self) -> None:
        with closing(psycopg.connect(self.dsn, autocommit=True)) as session:
            while not self.done.is_set():
                session.execute("call trunkline.maintain()")
                self.rounds += 1

    def run(self, writers: int, tickers: int, rotators: int = 0) -> None:
        self.rounds_wanted = 10 * rotators
        with ThreadPoolExecutor(writers + tickers + rotators) as threads:
            others = [threads.submit(self.tick) for _ in range(tickers)]
            others += [threads.submit(self.rotate) for _ in range(rotators)]
            try:
                list(threads.map(self.write, range(writers)))
            finally:
                self.done.set()
            for job in others:
                job.result()


@pytest.mark.parametrize("seed", [1, 2])
def test_eight_writers_and_two_tickers_number_every_committed_row_once(
    dsn: str, demo: Session, seed: int
) -> None:
    storm = Storm(dsn, seed)
    storm.run(writers=8, tickers=2)
    tick(demo)
    found = payloads(demo)
    assert sorted(found) == sorted(name for kept in storm.committed for name in kept)
    for kept in storm.committed:  # a writer's transactions follow each other: causal order
        mine = set(kept)
        assert [name for name in found if name in mine] == kept


def test_nothing_is_lost_or_doubled_while_rings_rotate_all_the_time(
    dsn: str, demo: Session
) -> None:
    for ring in ("demo", "tick"):
        demo.execute(f"select trunkline.config_set('ring.{ring}.rotate_every', '1 millisecond')")
    demo.execute("insert into trunkline.demo_reader values (1)")
    demo.execute("select trunkline.config_set('ring.demo.slots', '3')")
    storm = Storm(dsn, 3)
    reads: list[str] = []

    def read() -> None:
        with closing(psycopg.connect(dsn, autocommit=True)) as session:
            while not storm.done.is_set():
                follow(session, reads)

    reading = threading.Thread(target=read)
    reading.start()
    storm.run(writers=4, tickers=1, rotators=1)
    reading.join()
    tick(demo)
    follow(demo, reads)
    assert sorted(reads) == sorted(name for kept in storm.committed for name in kept)
    assert ask(demo, "select count(*) from trunkline.demo") < len(reads)


def follow(session: Session, seen: list[str]) -> None:
    """Read what is new, by position, and say that it is no longer needed."""
    rows = numbered(session, len(seen) + 1)
    assert [position for position, _ in rows] == list(
        range(len(seen) + 1, len(seen) + 1 + len(rows))
    )
    seen += [payload for _, payload in rows]
    session.execute("update trunkline.demo_reader set needed = %s", [len(seen) + 1])


ACTIONS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["write", "undo", "commit", "rollback", "tick"])),
    max_size=30,
)


@settings(
    max_examples=40,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(actions=ACTIONS)
def test_any_interleaving_of_transactions_is_numbered_exactly(
    dsn: str, demo: Session, actions: list[tuple[int, str]]
) -> None:
    """Three sessions in any order: committed rows once, each in the first tick after its commit."""
    start = 1 + (ask(demo, "select max(first_position + n - 1) from trunkline.tick") or 0)
    expected: list[set[str]] = []  # what each tick has to find
    fresh: set[str] = set()
    sessions = [psycopg.connect(dsn, prepare_threshold=None) for _ in range(3)]
    try:
        held: list[list[str]] = [[], [], []]
        for number, (who, action) in enumerate([*actions, (0, "commit"), (0, "tick")]):
            session, rows = sessions[who], held[who]
            if action == "write":
                write(session, f"{number}")
                rows.append(f"{number}")
            elif action == "undo":
                session.execute("savepoint s")
                write(session, "undone")
                session.execute("rollback to savepoint s")
            elif action == "tick":
                assert tick(demo) == len(fresh)
                if fresh:
                    expected.append(fresh)
                fresh = set()
            else:
                session.execute(action)
                fresh = fresh | set(rows) if action == "commit" else fresh
                rows.clear()
    finally:
        for session in sessions:
            session.close()
    rows = [payload for _, payload in numbered(demo, start)]
    for batch in expected:
        part, rows = rows[: len(batch)], rows[len(batch) :]
        assert part == sorted(batch, key=int)
    assert rows == []


# Crashes and restores


def database_of(server: Server, name: str = "app") -> str:
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as session:
        session.execute(f"create database {name}")
    return server.dsn(name)


@pytest.mark.crash
def test_a_crash_loses_and_doubles_nothing_that_was_committed(
    own_server: Callable[..., Server],
) -> None:
    server = own_server(fsync="off")  # only the server dies, not the machine
    dsn = database_of(server)
    migrate.install(dsn)
    with opened(dsn) as session:
        write(session, "numbered")
        session.execute("begin")
        write(session, "prepared")
        session.execute("prepare transaction 'p'")
        tick(session)
        write(session, "committed")
        with closing(psycopg.connect(dsn)) as open_one:
            write(open_one, "open")
            server.kill()
    server.start()
    with psycopg.connect(dsn, autocommit=True) as session:
        assert tick(session) == 1
        session.execute("commit prepared 'p'")
        write(session, "after")
        assert tick(session) == 2
        assert payloads(session) == ["numbered", "committed", "prepared", "after"]


def burn_xids(session: Session, most: int = 10_000) -> None:
    """Push the xids of a server ahead of those of a new one."""
    body = f"for i in 1 .. {most} loop perform pg_current_xact_id(); commit; end loop;"
    session.execute(f"do $$ begin {body} end $$")


def test_a_restore_into_a_server_with_lower_xids_loses_and_doubles_nothing(
    own_server: Callable[..., Server], programs: Programs
) -> None:
    high, low = own_server(fsync="off"), own_server(fsync="off")
    source = database_of(high)
    migrate.install(source)
    with opened(source) as session, closing(psycopg.connect(source)) as open_one:
        burn_xids(session)
        write(session, "numbered")
        write(open_one, "open at the tick, committed before the dump")
        session.execute("begin")
        write(session, "prepared")
        session.execute("prepare transaction 'p'")
        tick(session)
        write(session, "not numbered")
        open_one.commit()
        write(open_one, "open at the dump")
        first_dump = programs.dump(source)
        session.execute("rollback prepared 'p'")
        burnt = ask(session, "select pg_current_xact_id()::text::bigint")

    # into the other server, before anything there was numbered
    copy = database_of(low)
    with psycopg.connect(copy, autocommit=True) as session:  # a dump has no roles in it
        session.execute("create role trunkline_reader; create role trunkline_writer")
        session.execute("create role trunkline_admin; create role trunkline_matcher")
        session.execute("create role trunkline_kv_client; create role trunkline_kv_replicator")
    programs.psql(copy, first_dump)
    with psycopg.connect(copy, autocommit=True) as session:
        assert ask(session, "select pg_current_xact_id()::text::bigint") < burnt - 1000
        write(session, "written in the copy")
        with psycopg.connect(copy) as open_one:
            write(open_one, "open at the second dump")
            second_dump = programs.dump(copy)
            assert tick(session) == 3
        assert tick(session) == 1
        assert tick(session) == 0
        story = [
            "numbered",
            "open at the tick, committed before the dump",
            "not numbered",
            "written in the copy",
        ]
        assert payloads(session) == [*story, "open at the second dump"]
        rotate_everything_away(session)
        write(session, "goes on")
        assert tick(session) == 1

    # the second dump back into the first server: its xids are the higher ones again
    back = database_of(high, "back")
    programs.psql(back, second_dump)
    with psycopg.connect(back, autocommit=True) as session:
        write(session, "back home")
        assert tick(session) == 4
        assert tick(session) == 0
        assert payloads(session) == [*story, "back home"]
        write(session, "goes on")
        third_dump = programs.dump(back)
        assert tick(session) == 1

    # and within one server, beside the original
    twin = database_of(high, "twin")
    programs.psql(twin, third_dump)
    with psycopg.connect(twin, autocommit=True) as session:
        write(session, "in the twin")
        assert tick(session) == 2
        assert payloads(session) == [*story, "back home", "goes on", "in the twin"]


def rotate_everything_away(session: Session) -> None:
    """All rows are numbered and nobody needs them: both rings may be emptied."""
    for ring in ("demo", "tick"):
        session.execute(f"select trunkline.config_set('ring.{ring}.rotate_every', '1 millisecond')")

    def empty() -> bool:
        session.execute("call trunkline.maintain()")  # waits for no autovacuum
        return ask(session, "select count(*) from trunkline.demo") == 0

    wait_until(empty)


def test_every_life_of_the_schema_has_its_own_number(
    server: AnyServer, pristine: Session, programs: Programs
) -> None:
    lives: list[int] = []
    dsn = server.dsn(pristine.info.dbname)
    lives.append(ask(pristine, "select trunkline.incarnation()"))
    assert ask(pristine, "select trunkline.incarnation()") == lives[0] == 1
    dump = programs.dump(dsn)
    for _ in range(2):  # the same dump twice, into the same database: two histories
        pristine.execute("drop schema trunkline cascade")
        programs.psql(dsn, dump)
        pristine.execute("discard all")
        lives.append(ask(pristine, "select trunkline.incarnation()"))
        spaces = column(pristine, "select xid_space from trunkline.incarnation")
        assert len(set(spaces)) == 2
    assert len(set(lives)) == 3
    assert min(lives[1:]) > lives[0]


def end_life(session: Session, mark: str = "system_identifier") -> None:
    """As if what is there came from another server, or from before a failover."""
    ask(session, "select trunkline.incarnation()")
    session.execute(f"update trunkline.incarnation set {mark} = {mark} - 1")


@pytest.mark.parametrize("life", ["first", "after a failover", "after a restore"])
def test_nobody_waits_for_a_long_first_writer_of_a_life(
    demo: Session, other: Session, life: str
) -> None:
    if life != "first":
        end_life(demo, "timeline" if life == "after a failover" else "system_identifier")
    write(other, "long")
    demo.execute("set lock_timeout = '1ms'")
    write(demo, "short")
    assert tick(demo) == 1
    other.commit()
    assert tick(demo) == 1
    assert payloads(demo) == ["short", "long"]
    assert ask(demo, "select count(distinct xid_space) from trunkline.demo") == 1


def test_a_failover_keeps_the_xid_space_and_so_a_prepared_transaction(demo: Session) -> None:
    write(demo, "before")
    demo.execute("begin")
    write(demo, "prepared")
    demo.execute("prepare transaction 'p'")
    tick(demo)
    end_life(demo, "timeline")
    write(demo, "after")
    tick(demo)
    demo.execute("commit prepared 'p'")
    tick(demo)
    assert payloads(demo) == ["before", "after", "prepared"]


def test_a_life_that_nobody_noted_is_numbered_in_the_next_one(demo: Session) -> None:
    """Rows of a life without a tick, and another restore on top of it."""
    write(demo, "first life")
    tick(demo)
    end_life(demo)
    write(demo, "second life")
    demo.execute(
        "update trunkline.demo set xid_space = 4711, xid = '999999999' where payload ~ 'second'"
    )
    write(demo, "third life")
    assert tick(demo) == 2
    assert tick(demo) == 0
    assert sorted(payloads(demo)) == ["first life", "second life", "third life"]


def test_the_first_tick_of_a_life_spares_the_next_ones_a_look_at_every_row(demo: Session) -> None:
    write_many(demo, 20000)
    tick(demo)
    end_life(demo)
    first = pages(demo, "select trunkline._tick_take('demo')")
    with writing_nothing(demo):
        assert pages(demo, "select trunkline._tick_take('demo')") < first / 2
    write(demo, "next")
    assert tick(demo) == 1
    assert numbered(demo, 20001) == [(20001, "next")]


def test_two_who_meet_a_new_life_first_agree_on_its_number(
    demo: Session, two_sessions: TwoSessions
) -> None:
    a, b = two_sessions.a, two_sessions.b
    first = ask(a, "select trunkline.incarnation()")
    asking = two_sessions.later(b, "select trunkline.incarnation()")
    two_sessions.blocked_by(a, b)
    a.commit()
    assert asking.result(10).fetchone() == (first,)


# Cost


@pytest.fixture
def pristine(server: AnyServer, template: str) -> Iterator[Session]:
    """The sequence in a database of its own, where nothing was ever deleted."""
    with new_database(server, template=template) as name, opened(server.dsn(name)) as session:
        yield session


def test_a_pinned_horizon_changes_nothing_for_a_million_rows(pristine: Session) -> None:
    """A snapshot is held open and every row is kept; the cost of a tick is counted in pages."""
    demo, rounds, batch = pristine, 200, 5000
    for ring in ("demo", "tick"):
        demo.execute(f"select trunkline.config_set('ring.{ring}.rotate_every', '500 milliseconds')")
    demo.execute("insert into trunkline.demo_reader values (1)")
    costs: list[int] = []
    with psycopg.connect(demo.info.dsn) as pin:
        pin.execute("set transaction isolation level repeatable read")
        pin.execute("select 1")
        for number in range(rounds):
            if number == rounds // 4:  # statistics that promise that every row is new
                demo.execute("analyze trunkline.demo")
            write_many(demo, batch)
            costs.append(pages(demo, "select trunkline._tick_take('demo')"))
            demo.execute("call trunkline.maintain()")
        assert ask(demo, "select max(first_position + n - 1) from trunkline.tick") == rounds * batch
        assert ask(demo, "select count(*) from trunkline.demo") == rounds * batch
        # the four of the ring, and a few more that each last as long as all before them
        assert ask(demo, "select count(distinct slot) from trunkline.demo") in range(4, 9)
        assert dead_rows(demo) == {}
        idle = pages(demo, "select trunkline._tick_take('demo')")
    fifth = rounds // 5
    early, late = statistics.median(costs[:fifth]), statistics.median(costs[-fifth:])
    assert late <= early * 1.5, (early, late)
    assert idle < early
    demo.execute("delete from trunkline.demo_reader")
    rotate_everything_away(demo)


def pages(session: Session, query: str) -> int:
    """How many pages a query touches."""
    plan = ask(session, f"explain (analyze, buffers, timing off, format json) {query}")
    top = (plan if isinstance(plan, list) else json.loads(plan))[0]["Plan"]
    return sum(top[f"Shared {kind} Blocks"] for kind in ("Hit", "Read"))


def dead_rows(session: Session) -> dict[str, int]:
    """Dead, updated or deleted rows in the hot tables, by table."""
    session.execute("select pg_stat_force_next_flush()")
    session.execute("select pg_stat_clear_snapshot()")
    rows: list[Any] = session.execute(
        "select relname, n_dead_tup + n_tup_upd + n_tup_del from pg_stat_user_tables"
        " where schemaname = 'trunkline' and relname ~ '^(demo|tick|cursor)_[0-9]+$'"
    ).fetchall()
    assert rows
    return {name: count for name, count in rows if count}
