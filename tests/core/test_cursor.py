"""Cursors: insert-only positions, of which the latest counts, wherever it stands."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.core.demo import opened
from tests.fixtures.asking import ask, column, refused, writing_nothing
from tests.fixtures.postgres import new_database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.postgres import AnyServer, TwoSessions

Session = psycopg.Connection[Any]


@pytest.fixture(scope="module")
def dsn(server: AnyServer, template: str) -> Iterator[str]:
    """One database for all tests; `session` empties it."""
    with new_database(server, template=template) as name:
        with opened(server.dsn(name)):
            pass  # it makes a cursor of its own, which is gone when a test opens it again
        yield server.dsn(name)


@pytest.fixture(autouse=True)
def session(dsn: str) -> Iterator[Session]:
    with opened(dsn) as demo:
        demo.execute("select trunkline.config_set('ring.cursor.slots', '4')")
        demo.execute("select trunkline.config_set('ring.cursor.rotate_every', '1 millisecond')")
        yield demo


HELD = "trunkline._cursor_hold((select resource from trunkline.cursor_key where cursor_id = %s))"


def ensure(session: Session, resource: str) -> int:
    number: int = ask(session, "select trunkline._cursor_ensure(%s)", [resource])
    return number


def move(session: Session, cursor: int, up_to: int, state: str | None = None) -> None:
    session.execute(f"select trunkline._cursor_move({HELD}, %s, %s)", [cursor, up_to, state])


def position(session: Session, cursor: int) -> int | None:
    up_to: int | None = ask(session, "select (trunkline._cursor_latest(%s)).up_to", [cursor])
    return up_to


def rotate(session: Session, times: int = 1) -> None:
    """Turn the ring without carrying or emptying anything."""
    for _ in range(times):
        assert ask(
            session,
            "select trunkline._ring_rotate(ring, rotated_at + '1 millisecond')"
            " from trunkline.ring where ring = 'cursor'",
        )


def maintain(session: Session) -> None:
    session.execute("call trunkline.maintain()")
    assert column(session, "select error from trunkline.duty_list() where error is not null") == []


def test_a_cursor_that_never_moved_stands_nowhere(session: Session) -> None:
    assert position(session, ensure(session, "r")) is None


def test_a_resource_has_one_cursor(session: Session) -> None:
    first = ensure(session, "r")
    assert ensure(session, "s") != first
    with writing_nothing(session):
        assert ensure(session, "r") == first


def test_of_many_who_make_a_cursor_at_once_all_get_the_same(dsn: str) -> None:
    start = threading.Barrier(4)

    def make(_: int) -> list[int]:
        with closing(psycopg.connect(dsn, autocommit=True)) as own:
            made = []
            for number in range(20):
                start.wait(10)
                made.append(ensure(own, f"r{number}"))
            return made

    with ThreadPoolExecutor(4) as threads:
        first, *others = threads.map(make, range(4))
    assert others == [first] * 3


def test_the_last_word_counts_also_when_it_is_lower(session: Session) -> None:
    cursor = ensure(session, "r")
    for up_to in (5, 9, 3):
        move(session, cursor, up_to)
        assert position(session, cursor) == up_to


def test_the_last_word_counts_in_whatever_slot_it_stands(session: Session) -> None:
    early, late = ensure(session, "early"), ensure(session, "late")
    for turn in range(3):
        move(session, late, 10 + turn, f'{{"turn": {turn}}}')
        if turn == 0:
            move(session, early, 1)
        rotate(session)
    assert position(session, early) == 1
    assert position(session, late) == 12
    assert ask(session, "select (trunkline._cursor_latest(%s)).state", [late]) == {"turn": 2}


def test_who_moves_a_cursor_makes_the_next_one_wait(two_sessions: TwoSessions) -> None:
    a, b, watcher = two_sessions.a, two_sessions.b, two_sessions.watcher
    cursor = ensure(watcher, "r")
    move(a, cursor, 7)
    locking = two_sessions.later(b, f"select {HELD}", [cursor])
    two_sessions.blocked_by(a, b)
    assert position(watcher, cursor) is None
    a.commit()
    locking.result(10)
    assert position(b, cursor) == 7


def test_a_cursor_is_not_moved_twice_from_one_place(session: Session) -> None:
    cursor = ensure(session, "r")
    with pytest.raises(psycopg.errors.NoDataFound):
        session.execute(
            f"select trunkline._cursor_move(h, 1), trunkline._cursor_move(h, 2) from {HELD} h",
            [cursor],
        )
    assert position(session, cursor) is None


def test_a_cursor_is_moved_on_from_where_the_first_move_brought_it(session: Session) -> None:
    cursor = ensure(session, "r")
    session.execute(
        f"select trunkline._cursor_move(trunkline._cursor_move(h, 1), 2) from {HELD} h", [cursor]
    )
    assert position(session, cursor) == 2


def test_a_move_that_is_rolled_back_has_not_been(session: Session) -> None:
    cursor = ensure(session, "r")
    move(session, cursor, 4)
    with pytest.raises(ZeroDivisionError), session.transaction():
        move(session, cursor, 9)
        raise ZeroDivisionError
    assert position(session, cursor) == 4


def test_carrying_brings_idle_cursors_out_of_slots_that_were_left(session: Session) -> None:
    idle, moved = ensure(session, "idle"), ensure(session, "moved")
    move(session, idle, 5, '{"claims": []}')
    move(session, moved, 5)
    rotate(session)
    move(session, moved, 6)
    assert ask(session, "select trunkline._cursor_may_leave('cursor', 0)") is False
    assert ask(session, "select trunkline._cursor_carry()") == 1
    assert ask(session, "select trunkline._cursor_carry()") == 0
    assert ask(session, "select trunkline._cursor_may_leave('cursor', 0)") is True
    maintain(session)
    assert ask(session, "select count(*) from trunkline.cursor_0") == 0
    assert (position(session, idle), position(session, moved)) == (5, 6)
    assert ask(session, "select (trunkline._cursor_latest(%s)).state", [idle]) == {"claims": []}


def test_carrying_passes_over_a_cursor_that_is_being_moved(session: Session, dsn: str) -> None:
    first, second = ensure(session, "first"), ensure(session, "second")
    move(session, first, 1)
    move(session, second, 1)
    rotate(session)
    with psycopg.connect(dsn) as mover:
        move(mover, first, 2)
        assert ask(session, "select trunkline._cursor_carry()") == 1
    assert (position(session, first), position(session, second)) == (2, 1)


def test_carrying_a_crowd_takes_several_short_steps(session: Session) -> None:
    session.execute(
        "select trunkline._cursor_write(trunkline._cursor_ensure('r' || n), n)"
        " from generate_series(1, 1500) n"
    )
    rotate(session, 1)
    assert ask(session, "select trunkline._cursor_carry()") == 1000
    assert ask(session, "select trunkline._cursor_carry()") == 500
    assert ask(session, "select trunkline._cursor_carry()") == 0


def test_a_cursor_written_into_an_emptied_slot_does_not_stop_the_ring(session: Session) -> None:
    late, busy = ensure(session, "late"), ensure(session, "busy")
    move(session, busy, 1)
    rotate(session)
    move(session, busy, 2)
    maintain(session)
    session.execute(  # what a writer with an older snapshot does
        "insert into trunkline.cursor (slot, cursor_id, seq, up_to, at)"
        " values (0, %s, nextval('trunkline.cursor_seq'), 77, now())",
        [late],
    )
    slots = set()
    for up_to in range(3, 15):
        move(session, busy, up_to)
        maintain(session)
        slots.add(ask(session, "select trunkline._ring_current('cursor')"))
        assert position(session, late) == 77
    assert slots == {0, 1, 2, 3}


def test_an_idle_installation_carries_nothing_and_does_not_turn(session: Session) -> None:
    for number in range(20):
        move(session, ensure(session, f"r{number}"), number)
    for _ in range(3):
        maintain(session)
    written = ask(session, "select max(seq) from trunkline.cursor")
    turned = ask(session, "select rotated_at from trunkline.ring where ring = 'cursor'")
    for _ in range(5):
        maintain(session)
    assert ask(session, "select max(seq) from trunkline.cursor") == written
    assert ask(session, "select rotated_at from trunkline.ring where ring = 'cursor'") == turned


@pytest.mark.parametrize("change", ["rotation", "emptied slot"])
def test_an_old_snapshot_that_may_miss_a_carried_cursor_cannot_move_it(
    session: Session, dsn: str, change: str
) -> None:
    cursor = ensure(session, "r")
    move(session, cursor, 5)
    with closing(psycopg.connect(dsn)) as old:
        if change == "emptied slot":
            rotate(session)
        old.execute("set transaction isolation level repeatable read")
        old.execute("select 1")
        if change == "emptied slot":
            assert ask(session, "select trunkline._cursor_carry()") == 1
            assert ask(session, "select trunkline._ring_clear('cursor', now() + '2 hours')")
        else:
            rotate(session)
        with refused("40001"):
            move(old, cursor, 6)
    assert position(session, cursor) == 5


def test_a_repeatable_read_transaction_moves_a_cursor_of_its_own_time(
    session: Session, dsn: str
) -> None:
    cursor = ensure(session, "r")
    move(session, cursor, 5)
    with psycopg.connect(dsn) as other:
        other.execute("set transaction isolation level repeatable read")
        assert position(other, cursor) == 5
        move(other, cursor, 6)
        assert ask(session, "select trunkline._ring_rotate('cursor', now() + '1 hour')") is False
    assert position(session, cursor) == 6


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_snapshot_from_before_the_last_move_cannot_move_a_cursor(
    session: Session, dsn: str, level: str
) -> None:
    cursor = ensure(session, "r")
    move(session, cursor, 5)
    with closing(psycopg.connect(dsn)) as old:
        old.execute(f"set transaction isolation level {level}")
        assert position(old, cursor) == 5
        move(session, cursor, 9)
        with refused("40001"):
            move(old, cursor, 7)
    assert position(session, cursor) == 9


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_snapshot_from_before_a_move_that_lasted_over_a_rotation_cannot_move_a_cursor(
    session: Session, dsn: str, level: str
) -> None:
    cursor = ensure(session, "r")
    move(session, cursor, 5)
    with closing(psycopg.connect(dsn)) as slow, closing(psycopg.connect(dsn)) as old:
        move(slow, cursor, 9)
        rotate(session)
        old.execute(f"set transaction isolation level {level}")
        assert position(old, cursor) == 5
        slow.commit()
        with refused("40001"):
            move(old, cursor, 7)
    assert position(session, cursor) == 9


def test_a_repeatable_read_transaction_moves_a_cursor_after_a_rotation(
    session: Session, dsn: str
) -> None:
    cursor = ensure(session, "r")
    move(session, cursor, 5)
    rotate(session)
    with psycopg.connect(dsn) as other:
        other.execute("set transaction isolation level repeatable read")
        move(other, cursor, 6)
        move(other, cursor, 7)
    assert position(session, cursor) == 7
    for _ in range(6):
        move(session, ensure(session, "busy"), 1)
        maintain(session)
        assert position(session, cursor) == 7
    assert ask(session, "select count(*) from trunkline.cursor_0") == 0


class Traffic:
    """Cursors that move while others look and turn the ring."""

    def __init__(self, dsn: str, cursors: list[int]):
        self.dsn = dsn
        self.cursors = cursors
        self.looks = 0
        self.rounds = 0
        self.moving = threading.Event()
        self.moving.set()

    def move_all(self, mine: list[int]) -> int:
        """Move all but the idle until enough has happened; returns where they stand."""
        up_to = 0
        with closing(psycopg.connect(self.dsn, autocommit=True)) as own:
            while up_to < 8 or self.looks < 3 or self.rounds < 8:
                up_to += 1
                for cursor in mine:
                    if up_to == 1 or not idle(cursor):
                        move(own, cursor, up_to)
        return up_to

    def watch(self) -> None:
        seen = dict.fromkeys(self.cursors, 0)
        with closing(psycopg.connect(self.dsn, autocommit=True)) as own:
            while self.moving.is_set():
                rows: list[Any] = own.execute(
                    "select c, coalesce((trunkline._cursor_latest(c)).up_to, 0)"
                    " from unnest(%s::bigint[]) c",
                    [self.cursors],
                ).fetchall()
                for cursor, up_to in rows:
                    assert up_to >= seen[cursor], f"cursor {cursor} went back"
                    seen[cursor] = up_to
                self.looks += 1

    def turn(self) -> None:
        with closing(psycopg.connect(self.dsn, autocommit=True)) as own:
            while self.moving.is_set():
                maintain(own)
                self.rounds += 1


def idle(cursor: int) -> bool:
    """Every tenth moves once and has to be carried from then on."""
    return cursor % 10 == 0


def test_positions_never_go_back_while_the_ring_turns(session: Session, dsn: str) -> None:
    traffic = Traffic(dsn, [ensure(session, f"r{number}") for number in range(200)])
    before = changed_rows(session)
    halves = traffic.cursors[:100], traffic.cursors[100:]
    with ThreadPoolExecutor(4) as threads:
        others = [threads.submit(traffic.watch), threads.submit(traffic.turn)]
        try:
            ends = list(threads.map(traffic.move_all, halves))
        finally:
            traffic.moving.clear()
        for job in others:
            job.result()
    for half, end in zip(halves, ends, strict=True):
        for cursor in half:
            assert position(session, cursor) == (1 if idle(cursor) else end)
    assert changed_rows(session) == before


def changed_rows(session: Session) -> int:
    """How many rows of cursors were ever updated, or deleted one by one."""
    session.execute("select pg_stat_force_next_flush()")
    session.execute("select pg_stat_clear_snapshot()")
    count: int = ask(
        session,
        "select sum(n_tup_upd + n_tup_del) from pg_stat_user_tables"
        " where schemaname = 'trunkline' and relname ~ '^cursor(_key|_[0-9]+)$'",
    )
    return count


def test_finding_a_position_costs_the_same_after_many_moves(session: Session) -> None:
    cursor = ensure(session, "r")
    session.execute("truncate trunkline.cursor")
    session.execute("vacuum analyze trunkline.cursor")  # statistics of an empty table
    costs = []
    for start in (1, 20001):
        session.execute(
            "select trunkline._cursor_write(%s, n) from generate_series(%s::int, %s) n",
            [cursor, start, start + 19999],
        )
        query = f"select trunkline._cursor_latest({cursor})"
        plan = ask(session, f"explain (analyze, buffers, timing off, format json) {query}")
        costs.append(plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"])
    assert costs[1] <= costs[0] + 10
