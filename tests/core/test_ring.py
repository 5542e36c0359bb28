"""Rings: slots take rows in turn and leave by TRUNCATE, when nobody needs them and nobody waits."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.core.demo import Session, numbered, opened, payloads, tick, write
from tests.fixtures.asking import ask, column, refused
from tests.fixtures.postgres import new_database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.postgres import AnyServer, TwoSessions

TURN = timedelta(minutes=10)


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


class Ring:
    """A ring with a clock of its own."""

    def __init__(self, session: Session, name: str = "demo"):
        self.session = session
        self.name = name
        self.now: datetime = ask(
            session, "select rotated_at from trunkline.ring where ring = %s", [name]
        )

    def rotate(self, after: timedelta = TURN) -> bool:
        self.now += after
        return self._call("_ring_rotate")

    def clear(self, after: timedelta = timedelta(0)) -> bool:
        self.now += after
        return self._call("_ring_clear")

    @property
    def current(self) -> int:
        slot: int = ask(self.session, "select trunkline._ring_current(%s)", [self.name])
        return slot

    @property
    def held_by(self) -> str | None:
        text: str | None = ask(
            self.session, "select held_by from trunkline.ring where ring = %s", [self.name]
        )
        return text

    def rows(self) -> dict[int, int]:
        """How many rows each slot that has any holds."""
        found: list[Any] = self.session.execute(
            f"select slot, count(*) from trunkline.{self.name} group by slot"
        ).fetchall()
        return dict(found)

    def _call(self, function: str) -> bool:
        done: bool = ask(
            self.session, f"select trunkline.{function}(%s, %s)", [self.name, self.now]
        )
        return done


@pytest.fixture
def ring(demo: Session) -> Ring:
    return Ring(demo)


def needs(session: Session, position: int | None) -> None:
    """The reader still needs positions from this one on; None: there is no reader."""
    session.execute("delete from trunkline.demo_reader")
    if position is not None:
        session.execute("insert into trunkline.demo_reader values (%s)", [position])


# Turning


def test_a_ring_turns_when_its_time_has_come_and_not_before(demo: Session, ring: Ring) -> None:
    write(demo, "a")
    assert not ring.rotate(TURN - timedelta(microseconds=1))
    assert ring.rotate(timedelta(microseconds=1))
    assert ring.current == 1
    write(demo, "b")
    assert not ring.rotate(TURN / 2)
    assert ring.rows() == {0: 1, 1: 1}


def test_an_unused_ring_does_not_turn(ring: Ring) -> None:
    assert not ring.rotate(1000 * TURN)
    assert ring.current == 0


def test_the_interval_can_be_changed_while_it_runs(demo: Session, ring: Ring) -> None:
    write(demo, "a")
    demo.execute("select trunkline.config_set('ring.demo.rotate_every', '1 second')")
    assert not ring.rotate(timedelta(seconds=0.9))
    assert ring.rotate(timedelta(seconds=0.1))
    write(demo, "b")
    demo.execute("select trunkline.config_set('ring.demo.rotate_every', '1 hour')")
    assert not ring.rotate(timedelta(minutes=59))
    assert ring.rotate(timedelta(minutes=1))


def test_a_ring_grows_while_it_runs_even_when_every_slot_is_full(demo: Session, ring: Ring) -> None:
    needs(demo, 1)
    turns = fill(demo, ring)
    assert turns == 3
    demo.execute("select trunkline.config_set('ring.demo.slots', '6')")
    assert fill(demo, ring) == 2
    assert sorted(ring.rows()) == [0, 1, 2, 3, 4, 5]
    assert payloads(demo) == [str(number) for number in range(len(payloads(demo)))]
    assert ask(demo, "select slots from trunkline.ring_list() where ring = 'demo'") == 6


def test_a_ring_whose_rows_are_needed_for_long_grows_ever_more_slowly(
    demo: Session, ring: Ring
) -> None:
    needs(demo, 1)
    assert fill(demo, ring) == 3
    lasted, since = [], 0
    for number in range(1, 101):
        write(demo, str(number))
        if ring.rotate():
            lasted.append(number - since)
            since = number
    assert lasted == sorted(lasted)
    assert len(lasted) in range(4, 7)
    assert len(ring.rows()) == 4 + len(lasted)
    assert ring.held_by

    tick(demo)
    needs(demo, None)
    write(demo, "last")
    assert ring.rotate(200 * TURN)
    while ring.clear():
        pass
    write(demo, "more")
    tick(demo)
    assert ring.rotate()
    assert ring.current < 4


def fill(session: Session, ring: Ring) -> int:
    """Write and turn until no slot is free; every row is numbered."""
    turns = 0
    while True:
        write(session, str(ask(session, "select count(*) from trunkline.demo")))
        tick(session)
        ring.clear()
        if not ring.rotate():
            return turns
        turns += 1


def test_a_ring_shrinks_by_leaving_its_last_slots_alone(demo: Session, ring: Ring) -> None:
    demo.execute("select trunkline.config_set('ring.demo.slots', '3')")
    slots = []
    for number in range(8):
        write(demo, str(number))
        tick(demo)
        ring.rotate()
        ring.clear()
        slots.append(ring.current)
    assert set(slots) == {0, 1, 2}
    with refused("TL422"):
        demo.execute("select trunkline.config_set('ring.demo.slots', '2')")


def test_a_ring_has_no_more_slots_than_a_session_can_lock(demo: Session, ring: Ring) -> None:
    """Whoever reads a ring locks all its slots, and maintenance makes them in one transaction."""
    with refused("TL422") as caught:
        demo.execute("select trunkline.config_set('ring.demo.slots', '257')")
    assert "at most 256, got 257" in str(caught.value)
    demo.execute("select trunkline.config_set('ring.demo.slots', '256')")
    write(demo, "a")
    assert ring.rotate()


def test_two_who_turn_at_once_turn_once(demo: Session, other: Session, ring: Ring) -> None:
    write(demo, "a")
    assert Ring(other).rotate()
    demo.execute("set lock_timeout = '1ms'")
    assert not ring.rotate()
    assert not ring.clear()
    other.commit()
    assert ring.current == 1


def test_the_ring_of_ticks_turns_between_two_ticks_and_not_during_one(
    demo: Session, other: Session
) -> None:
    """So the ticks of the current slot are the latest, and nobody need look for them elsewhere."""
    ticks = Ring(demo, "tick")
    demo.execute("select trunkline.config_set('maintain.lock_timeout', '1 millisecond')")
    write(demo, "a")
    assert tick(demo) == 1
    write(demo, "b")
    assert tick(other) == 1
    assert not ticks.rotate()
    assert ticks.current == 0
    other.commit()
    assert ticks.rotate()
    assert ask(demo, "show lock_timeout") == "0"
    assert tick(demo) == 0
    write(demo, "c")
    assert tick(demo) == 1
    assert ticks.rows() == {0: 2, 1: 1}
    assert payloads(demo) == ["a", "b", "c"]


def test_many_who_turn_and_write_at_once_lose_nothing(dsn: str, demo: Session) -> None:
    demo.execute("select trunkline.config_set('ring.demo.rotate_every', '1 millisecond')")
    needs(demo, 1)
    writing = threading.Event()
    writing.set()
    turns: list[bool] = []

    def turn() -> None:
        with closing(psycopg.connect(dsn, autocommit=True)) as session:
            while writing.is_set():
                turned = ask(session, "select trunkline._ring_rotate('demo', clock_timestamp())")
                turns.extend([turned] * turned)
                ask(session, "select trunkline._ring_clear('demo', clock_timestamp())")

    def fill_up(name: str) -> list[str]:
        written: list[str] = []
        with closing(psycopg.connect(dsn, autocommit=True)) as session:
            while len(written) < 100 or len(turns) < 6:  # more turns than there are slots
                written.append(f"{name}{len(written)}")
                write(session, written[-1])
        return written

    seen: list[str] = []
    with ThreadPoolExecutor(4) as threads:
        turning = [threads.submit(turn) for _ in range(2)]
        filling = [threads.submit(fill_up, name) for name in "ab"]
        try:
            while not all(job.done() for job in filling):
                follow(demo, seen)
        finally:
            writing.clear()
        for job in turning:
            job.result()
    follow(demo, seen)
    assert sorted(seen) == sorted(name for job in filling for name in job.result())


def follow(session: Session, seen: list[str]) -> None:
    """Number what is new, read it, and say that it is no longer needed."""
    tick(session)
    seen += [payload for _, payload in numbered(session, len(seen) + 1)]
    needs(session, len(seen) + 1)


# Leaving


def test_a_slot_leaves_when_its_rows_are_numbered_and_read(demo: Session, ring: Ring) -> None:
    write(demo, "a", "b")
    needs(demo, 1)
    ring.rotate()
    assert not ring.clear()
    tick(demo)
    assert not ring.clear()
    needs(demo, 2)
    assert not ring.clear()
    needs(demo, 3)
    assert ring.clear()
    assert ring.rows() == {}
    assert not ring.clear()


def test_rows_without_a_number_stay_though_no_ticker_runs_and_nobody_reads(
    demo: Session, ring: Ring
) -> None:
    needs(demo, None)
    for number in range(10):
        write(demo, str(number))
        ring.rotate()
        ring.clear()
    assert sum(ring.rows().values()) == 10
    assert "not yet numbered" in (ring.held_by or "")
    tick(demo)
    assert payloads(demo) == [str(number) for number in range(10)]
    while ring.clear():
        pass
    assert ring.held_by is None
    assert list(ring.rows()) == [ring.current]


def test_rows_of_an_earlier_life_stay_until_they_are_numbered(demo: Session, ring: Ring) -> None:
    """After a restore nothing has to be run before maintenance may."""
    write(demo, "numbered")
    tick(demo)
    write(demo, "not numbered")
    ask(demo, "select trunkline.incarnation()")
    demo.execute("update trunkline.incarnation set system_identifier = 1")
    write(demo, "of the new life")
    assert ring.rotate()
    assert not ring.clear()
    assert tick(demo) == 2
    assert payloads(demo) == ["numbered", "not numbered", "of the new life"]
    assert ring.clear()


def test_a_row_whose_transaction_is_open_stays(demo: Session, other: Session, ring: Ring) -> None:
    write(demo, "numbered")
    demo.execute("begin")
    write(demo, "prepared")
    demo.execute("prepare transaction 'p'")
    tick(demo)
    ring.rotate()
    assert not ring.clear()
    assert 'prepared transaction "p"' in (ring.held_by or "")
    demo.execute("commit prepared 'p'")
    assert not ring.clear()
    tick(demo)
    assert ring.clear()


def test_a_late_row_in_a_slot_that_was_left_is_waited_for(
    demo: Session, other: Session, ring: Ring
) -> None:
    other.execute("set transaction isolation level repeatable read")
    assert Ring(other).current == 0  # its snapshot will always say so
    write(demo, "a")
    tick(demo)
    needs(demo, 2)
    ring.rotate()
    write(other, "late")
    other.commit()
    assert ring.rows() == {0: 2}
    assert not ring.clear()
    tick(demo)
    assert not ring.clear()
    assert payloads(demo) == ["a", "late"]
    needs(demo, 3)
    assert ring.clear()


def test_a_row_that_comes_into_an_emptied_slot_is_numbered_and_leaves_in_its_turn(
    demo: Session, other: Session, ring: Ring
) -> None:
    other.execute("set transaction isolation level repeatable read")
    other.execute("select 1")
    write(demo, "a")
    tick(demo)
    ring.rotate()
    assert ring.clear()
    write(other, "late")
    other.commit()
    assert ring.rows() == {0: 1}
    tick(demo)
    assert numbered(demo, 2) == [(2, "late")]
    for number in range(6):
        write(demo, str(number))
        tick(demo)
        assert ring.rotate()
        assert ring.clear()
    assert ring.rows() == {}


def test_a_writer_who_waits_for_the_lock_of_a_slot_that_is_emptied_loses_nothing(
    demo: Session, two_sessions: TwoSessions
) -> None:
    a, b = two_sessions.a, two_sessions.b
    ring = Ring(a)
    write(demo, "a")
    tick(demo)
    ring.rotate()
    a.commit()
    assert ring.clear()  # holds the lock until its commit
    writing = two_sessions.later(
        b, "insert into trunkline.demo (slot, payload) values (0, 'late') returning slot"
    )
    two_sessions.blocked_by(a, b)
    a.commit()
    assert writing.result(10).fetchone() == (0,)
    b.commit()
    assert tick(demo) == 1
    assert numbered(demo, 2) == [(2, "late")]


def test_who_holds_a_slot_delays_its_leaving_and_nothing_else(
    demo: Session, other: Session, ring: Ring
) -> None:
    write(demo, "a")
    tick(demo)
    ring.rotate()
    other.execute("lock table trunkline.demo_0 in access share mode")  # as pg_dump does
    assert not ring.clear()
    holder = f"pid {other.info.backend_pid} ("
    assert holder in (ring.held_by or "")
    assert ask(demo, "select held_since from trunkline.ring_list() where ring = 'demo'")
    write(demo, "b")
    assert ring.rotate()
    assert ring.rows() == {0: 1, 1: 1}
    other.rollback()
    assert ring.clear()
    assert ring.held_by is None


def test_the_wait_for_a_lock_is_bounded_and_made_only_once_for_one_holder(
    demo: Session, other: Session, ring: Ring
) -> None:
    demo.execute("select trunkline.config_set('maintain.lock_timeout', '300 milliseconds')")
    write(demo, "a")
    tick(demo)
    ring.rotate()
    other.execute("lock table trunkline.demo_0 in access share mode")

    def took() -> timedelta:
        before = ask(demo, "select clock_timestamp()")
        assert not ring.clear()
        spent: timedelta = ask(demo, "select clock_timestamp()") - before
        return spent

    demo.execute("set lock_timeout = '12345ms'")
    assert took() >= timedelta(milliseconds=300)
    assert took() < timedelta(milliseconds=300)
    assert ask(demo, "show lock_timeout") == "12345ms"
    other.rollback()
    other.execute("lock table trunkline.demo_0 in access share mode")  # another transaction
    assert took() >= timedelta(milliseconds=300)


def test_writers_and_readers_of_other_slots_go_on_while_one_is_held(
    demo: Session, other: Session, dsn: str, ring: Ring
) -> None:
    write(demo, "a")
    tick(demo)
    ring.rotate()
    other.execute("lock table trunkline.demo_0 in access share mode")
    demo.execute("select trunkline.config_set('ring.demo.rotate_every', '1 millisecond')")
    demo.execute("call trunkline.maintain()")
    demo.execute("set lock_timeout = '1ms'")
    for number in range(5):
        write(demo, str(number))
        demo.execute("call trunkline.maintain()")
        tick(demo)
    assert len(payloads(demo)) == 6


def test_a_slot_leaves_only_when_older_snapshots_had_time_to_reach_it(
    demo: Session, ring: Ring
) -> None:
    demo.execute("select trunkline.config_set('maintain.settle', '1 minute')")
    needs(demo, 1)
    write(demo, "a")
    tick(demo)
    ring.rotate()
    needs(demo, 2)
    assert not ring.clear()
    assert not ring.clear(timedelta(seconds=59))
    needs(demo, 1)  # somebody went back: the minute begins anew
    assert not ring.clear(timedelta(seconds=1))
    needs(demo, 2)
    assert not ring.clear()
    assert not ring.clear(timedelta(seconds=59))
    assert ring.clear(timedelta(seconds=1))


@pytest.mark.parametrize("function", ["_ring_clear", "_ring_rotate"])
def test_a_ring_is_not_turned_or_emptied_by_an_old_snapshot(
    demo: Session, other: Session, ring: Ring, function: str
) -> None:
    write(demo, "a")
    tick(demo)
    ring.rotate()
    other.execute("set transaction isolation level repeatable read")
    with refused("TL400"):
        other.execute(f"select trunkline.{function}('demo', %s)", [ring.now])


def test_ticks_leave_when_they_are_read_and_a_later_one_is_elsewhere(demo: Session) -> None:
    ticks = Ring(demo, "tick")
    needs(demo, 1)
    write(demo, "a")
    tick(demo)
    assert ticks.rotate()
    needs(demo, 2)
    assert not ticks.clear()  # it is the last one: the next tick starts from it
    write(demo, "b")
    tick(demo)
    assert ticks.clear()
    assert numbered(demo, 2) == [(2, "b")]
    assert [position for position, _ in numbered(demo, 1)] == [2]
    write(demo, "c")
    tick(demo)
    assert numbered(demo, 3) == [(3, "c")]


def test_a_tick_that_is_carried_loses_and_doubles_nothing(demo: Session, other: Session) -> None:
    ticks = Ring(demo, "tick")
    carry = "select trunkline._tick_carry()"
    write(demo, "a")
    write(other, "open")
    tick(demo)
    needs(demo, 2)
    assert ask(demo, carry) == 0  # it stands in the current slot
    ticks.rotate()
    assert not ticks.clear()
    assert ask(demo, carry) == 1
    assert ask(demo, carry) == 0
    assert ticks.clear()
    assert tick(demo) == 0
    other.commit()
    write(demo, "b")
    assert tick(demo) == 2
    assert numbered(demo, 2) == [(2, "open"), (3, "b")]


def test_a_sequence_that_stands_still_does_not_hold_the_ticks_of_others(demo: Session) -> None:
    """The first tick of a life is taken even if it is empty, and no other may ever come."""
    ticks = Ring(demo, "tick")
    demo.execute("select trunkline._tick_take('tube_entry')")
    for number in range(8):
        write(demo, str(number))
        tick(demo)
        assert ticks.rotate()
    write(demo, "8")
    tick(demo)
    while ask(demo, "select trunkline.rings_rotate()"):
        pass
    assert ticks.rows() == {ticks.current: 2}


def test_ticks_do_not_wait_for_a_slot_of_rows_that_somebody_holds(
    demo: Session, other: Session, ring: Ring
) -> None:
    ticks = Ring(demo, "tick")
    write(demo, "a")
    tick(demo)
    ring.rotate()
    ticks.rotate()
    other.execute("lock table trunkline.demo_0 in access share mode")
    assert not ring.clear()
    write(demo, "b")
    tick(demo)
    assert ticks.clear()
    assert column(demo, "select first_position from trunkline.tick") == [2]
