"""Backfill: every row is emitted once more, in chunks, whatever is written meanwhile."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from tests.fixtures.asking import Session, ask, call, column, refused
from tests.tube.sql_steps import (
    ORDERS,
    TUBE,
    Reader,
    attach,
    ensure,
    finish,
    read,
    schedule,
    status,
    step,
    tick,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.postgres import TwoSessions

FILL = (
    "insert into orders select g, 'new', g %% 3, 1000 - g from generate_series(%s::int, %s::int) g"
)


def emitted(feed: Reader) -> list[str]:
    """The keys of new backfill entries in their order."""
    return [key for entry in feed.new() if entry.op == "B" for key in entry.keys]


# What is emitted


def test_rows_are_emitted_in_the_order_of_a_column_in_chunks_between_control_entries(
    session: Session, feed: Reader
) -> None:
    session.execute("alter table orders alter total set not null")
    session.execute("select trunkline.config_set('tube.entry_keys', '4')")
    session.execute(FILL, [1, 17])
    feed.new()
    before = ask(session, "select pg_current_wal_insert_lsn()")
    backfill = schedule(session, order_by="total", chunk=10)
    finish(session, backfill)
    entries = feed.new()
    assert [entry.control for entry in entries] == [
        "backfill_start",
        *[None] * 5,
        "backfill_end",
    ]
    assert [entry.keys for entry in entries[1:-1]] == [
        ["17", "16", "15", "14"],
        ["13", "12", "11", "10"],
        ["9", "8"],
        ["7", "6", "5", "4"],
        ["3", "2", "1"],
    ]
    end = entries[-1].payload
    assert (end["backfill"], end["relation"]) == (backfill, "orders")
    assert end["generation"] == ask(session, "select (trunkline.tube_version()).generation")
    assert ask(session, "select %s::pg_lsn >= %s::pg_lsn", [end["lsn"], before])
    assert entries[0].payload == {"backfill": backfill, "relation": "orders"}
    tick(session)
    assert read(session, priority=0)[-1].op == "I"  # all of it is in the other priority


def test_a_backfill_honours_both_conditions_and_the_shard(session: Session) -> None:
    ensure(session, condition="id <> 13")
    attach(session, shard="region", condition="id <> 17")
    session.execute(FILL, [1, 18])
    feed = Reader(session)
    backfill = schedule(session, chunk=5)
    finish(session, backfill)
    assert feed.places() == sorted((n % 3, str(n)) for n in range(1, 19) if n not in (13, 17))
    assert status(session, backfill)["keys_done"] == 16


def test_a_chunk_looks_at_no_more_rows_when_few_meet_the_condition(session: Session) -> None:
    """Else one step could read the whole table in one transaction."""
    attach(session, condition="id = 90")
    session.execute(FILL, [1, 100])
    feed = Reader(session)
    backfill = schedule(session, chunk=10)
    assert step(session, backfill)
    assert ask(session, "select reached from trunkline.tube_backfill") == ["10"]
    finish(session, backfill)
    assert emitted(feed) == ["90"]


def test_a_row_whose_expressions_fail_is_emitted_and_the_others_are_judged(
    session: Session,
) -> None:
    attach(session, shard="100 / region", condition="100 / total > 20")
    session.execute(
        "insert into orders values (1, '', 50, 1), (2, '', 50, 0), (3, '', 0, 2), (4, '', 5, 90)"
    )
    feed = Reader(session)
    finish(session, schedule(session, chunk=3))
    assert feed.places() == [(0, "3"), (2, "1"), (2, "2")]


@pytest.mark.parametrize("chunk", [1, 2, 7])
def test_composite_keys_and_partitions_are_emitted_completely(session: Session, chunk: int) -> None:
    session.execute(
        "create table event (kind text, at timestamptz, n int, primary key (kind, at))"
        " partition by range (at);"
        "create table event_a partition of event for values from ('2024-01-01') to ('2024-06-01');"
        "create table event_b partition of event for values from ('2024-06-01') to ('2025-01-01');"
        "insert into event select k, timestamptz '2024-05-31 22:00Z' + g * interval '30 minutes', g"
        " from unnest(array['a', 'B', 'it''s']) k, generate_series(0, 5) g"
    )
    attach(session, "event")
    feed = Reader(session)
    backfill = schedule(session, relation="event", chunk=chunk)
    session.execute("set timezone = 'America/New_York'")
    assert step(session, backfill)
    session.execute("set timezone = 'Asia/Tokyo'")
    finish(session, backfill)
    keys = emitted(feed)
    assert len(keys) == len(set(keys)) == 18
    assert status(session, backfill)["keys_done"] == 18


def test_a_table_without_a_primary_key_is_emitted_by_the_columns_named(session: Session) -> None:
    session.execute("create table visit (page text not null, at int not null)")
    session.execute("insert into visit select 'p' || g % 4, g from generate_series(1, 20) g")
    attach(session, "visit", key_columns=["page"])
    feed = Reader(session)
    finish(session, schedule(session, relation="visit", chunk=3))
    assert sorted(set(emitted(feed))) == ["p0", "p1", "p2", "p3"]


def test_an_empty_table_is_done_at_once(session: Session, feed: Reader) -> None:
    backfill = schedule(session)
    finish(session, backfill)
    assert [entry.control for entry in feed.new()] == ["backfill_start", "backfill_end"]
    assert status(session, backfill)["keys_done"] == 0


def test_two_tables_on_one_shard_are_both_emitted(session: Session, feed: Reader) -> None:
    session.execute("create table other (id int primary key)")
    session.execute("insert into other values (7)")
    session.execute("insert into orders values (7)")
    attach(session, "other")
    feed.new()
    rows = call(session, "tube_backfill_schedule", tube=TUBE)
    assert len(rows) == 2
    for row in rows:
        finish(session, row[0])
    entries = feed.new()
    for relation in ("orders", "other"):
        found = [(e.control, e.keys) for e in entries if e.relation == relation]
        assert found == [("backfill_start", []), (None, ["7"]), ("backfill_end", [])]


def test_two_tubes_emit_one_table_independently(session: Session, feed: Reader) -> None:
    ensure(session, "second")
    attach(session, tube="second")
    session.execute("insert into orders values (1)")
    feed.new()
    second = Reader(session, "second")
    first_one, second_one = schedule(session), schedule(session, "second")
    finish(session, second_one)
    finish(session, first_one)
    assert emitted(feed) == emitted(second) == ["1"]


# Going on


def test_scheduling_twice_is_one_backfill(session: Session, feed: Reader) -> None:
    session.execute(FILL, [1, 20])
    feed.new()
    backfill = schedule(session, chunk=5)
    assert schedule(session, chunk=7) == backfill
    step(session, backfill)
    assert schedule(session) == backfill
    assert status(session, backfill)["chunk"] == 5
    assert [entry.control for entry in feed.new()].count("backfill_start") == 1


def test_a_backfill_after_one_that_is_done_is_a_new_one(session: Session, feed: Reader) -> None:
    """Also while the end of the first is not delivered: it may be what somebody needs."""
    session.execute("insert into orders values (1)")
    first = schedule(session)
    finish(session, first)
    second = schedule(session)
    assert second != first
    finish(session, second)
    assert emitted(feed) == ["1", "1"]


def test_a_backfill_goes_on_where_it_was_after_its_session_died(
    session: Session, feed: Reader, connect: Callable[..., Session]
) -> None:
    session.execute(FILL, [1, 25])
    feed.new()
    backfill = schedule(session, chunk=10)
    for commits in (True, False):
        worker = connect(autocommit=False)
        step(worker, backfill)
        if commits:
            worker.commit()
        worker.close()
    assert status(session, backfill)["keys_done"] == 10
    finish(session, backfill)
    assert emitted(feed) == [str(n) for n in range(1, 26)]


def test_of_two_who_step_at_once_one_works_and_the_other_does_not_wait(
    two_sessions: TwoSessions,
) -> None:
    a, b, watcher = two_sessions.a, two_sessions.b, two_sessions.watcher
    watcher.execute("create table orders (id int primary key)")
    watcher.execute("insert into orders select g from generate_series(1, 30) g")
    ensure(watcher)
    attach(watcher)
    backfill = schedule(watcher, chunk=10)
    assert step(a, backfill) is True
    b.execute("set lock_timeout = '1ms'")
    assert step(b, backfill) is False
    a.commit()
    assert step(b, backfill) is True
    b.commit()
    assert status(watcher, backfill)["keys_done"] == 20


def test_many_steppers_emit_every_row_once(
    session: Session, feed: Reader, connect: Callable[..., Session]
) -> None:
    session.execute(FILL, [1, 300])
    feed.new()
    backfill = schedule(session, chunk=10)

    def work(_: int) -> None:
        own = connect()
        while status(own, backfill)["status"] != "done":
            step(own, backfill)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    assert emitted(feed) == [str(n) for n in range(1, 301)]


def test_a_throttled_backfill_does_nothing_before_its_time(session: Session, feed: Reader) -> None:
    session.execute(FILL, [1, 30])
    backfill = schedule(session, chunk=10, throttle=timedelta(hours=1))
    assert step(session, backfill) is True
    assert step(session, backfill) is False
    session.execute(
        "update trunkline.tube_backfill set stepped_at = stepped_at - interval '1 hour'"
    )
    assert step(session, backfill) is True
    assert status(session, backfill)["keys_done"] == 20


def test_a_backfill_is_paused_resumed_and_given_up(session: Session, feed: Reader) -> None:
    session.execute(FILL, [1, 30])
    backfill = schedule(session, chunk=10)
    step(session, backfill)
    assert call(session, "tube_backfill_pause", tube=TUBE) == [(1,)]
    assert call(session, "tube_backfill_pause", tube=TUBE) == [(0,)]
    assert step(session, backfill) is False
    assert (status(session, backfill)["status"], schedule(session)) == ("paused", backfill)
    assert call(session, "tube_backfill_pause", tube=TUBE, pause=False) == [(1,)]
    assert step(session, backfill) is True
    assert call(session, "tube_backfill_cancel", tube=TUBE) == [(1,)]
    assert call(session, "tube_backfill_cancel", tube=TUBE) == [(0,)]
    assert step(session, backfill) is False
    assert status(session, backfill)["status"] == "cancelled"
    assert status(session, backfill)["finished_at"] is not None
    assert emitted(feed) == [str(n) for n in range(1, 21)]
    assert schedule(session) != backfill


def test_the_progress_is_told(session: Session, feed: Reader) -> None:
    session.execute(FILL, [1, 40])
    session.execute("analyze orders")
    backfill = schedule(session, chunk=10)
    for done in (10, 20, 30, 40, 40):
        assert step(session, backfill) is True
        told = status(session, backfill)
        assert (told["keys_done"], told["keys_estimate"]) == (done, 40)
    assert status(session, backfill)["status"] == "finishing"
    finish(session, backfill)


def test_a_table_that_is_dropped_ends_its_backfill(session: Session, feed: Reader) -> None:
    session.execute(FILL, [1, 30])
    backfill = schedule(session, chunk=10)
    step(session, backfill)
    session.execute("drop table orders")
    finish(session, backfill)
    assert [entry.control for entry in feed.new() if entry.control] == [
        "backfill_start",
        "backfill_end",
    ]


# What is written meanwhile


def test_a_late_commit_with_a_lower_id_is_emitted_by_capture(
    session: Session, feed: Reader, connect: Callable[..., Session]
) -> None:
    session.execute(FILL, [10, 20])
    feed.new()
    late = connect(autocommit=False)
    late.execute("insert into orders values (1)")
    backfill = schedule(session, chunk=5)
    while status(session, backfill)["status"] == "running":
        step(session, backfill)
    assert emitted(feed) == [str(n) for n in range(10, 21)]
    late.execute("insert into orders values (2)")
    step(session, backfill)
    assert status(session, backfill)["status"] == "finishing"
    late.commit()
    finish(session, backfill)
    entries = feed.new()
    # the end comes after it: whoever checks documents then finds the row
    assert [(entry.keys, entry.control) for entry in entries] == [
        (["1"], None),
        (["2"], None),
        ([], "backfill_end"),
    ]


def test_a_backfill_waits_for_open_transactions_and_names_them(
    session: Session, feed: Reader, connect: Callable[..., Session]
) -> None:
    open_one = connect(autocommit=False, application_name="slow report")
    open_one.execute("insert into orders values (1)")
    session.execute("begin")
    session.execute("insert into orders values (2)")
    session.execute("prepare transaction 'two phases'")
    backfill = schedule(session)
    younger = connect(autocommit=False, application_name="younger")
    younger.execute("insert into orders values (3)")
    step(session, backfill)
    assert step(session, backfill) is False
    waits = status(session, backfill)["waits_for"]
    assert f"pid {open_one.info.backend_pid}" in waits
    assert "slow report" in waits
    assert "prepared transaction two phases" in waits
    assert "younger" not in waits
    open_one.commit()
    step(session, backfill)
    waits = status(session, backfill)["waits_for"]
    assert "slow report" not in waits
    assert "prepared transaction two phases" in waits
    session.execute("commit prepared 'two phases'")
    finish(session, backfill)
    told = status(session, backfill)
    assert (told["status"], told["waits_for"]) == ("done", None)
    younger.rollback()


def test_rows_written_during_a_backfill_are_captured_or_emitted(
    session: Session, feed: Reader
) -> None:
    session.execute(FILL, [1, 20])
    feed.new()
    backfill = schedule(session, chunk=5)
    step(session, backfill)
    session.execute("insert into orders (id, total) values (0, 1), (100, 1)")
    session.execute("delete from orders where id in (2, 12)")
    session.execute("update orders set id = -3 where id = 15")
    finish(session, backfill)
    seen = feed.keys()
    present = column(session, "select id::text from orders")
    assert set(present) <= set(seen)
    assert {"2", "12", "15"} <= set(seen)


def test_a_new_unfinished_life_of_the_table_does_not_stop_other_backfills(
    session: Session, feed: Reader
) -> None:
    """A column that is gone stops its own backfill, with a word."""
    session.execute("create table other (id int primary key)")
    session.execute("insert into other values (1)")
    session.execute("alter table orders alter total set not null")
    session.execute(FILL, [1, 10])
    attach(session, "other")
    broken = schedule(session, relation="orders", order_by="total", chunk=5)
    sound = schedule(session, relation="other")
    step(session, broken)
    session.execute("alter table orders drop column total")
    with refused("TL422") as caught:
        step(session, broken)
    assert "total" in str(caught.value)
    finish(session, sound)


@pytest.mark.parametrize("emitted", [5, 10])
def test_a_backfill_begins_anew_when_the_key_becomes_another(
    session: Session, feed: Reader, emitted: int
) -> None:
    session.execute("alter table orders alter total set not null")
    session.execute("insert into orders select g, 'new', 0, -g from generate_series(1, 10) g")
    backfill = schedule(session, relation="orders", chunk=5)
    for _ in range(0, emitted + 1, 5):
        step(session, backfill)
    feed.new()
    attach(session, key_columns=["total"])
    finish(session, backfill)
    assert feed.keys() == sorted(str(-n) for n in range(1, 11))


@pytest.mark.parametrize("of_the_tube", [True, False])
def test_a_backfill_begins_anew_when_the_condition_becomes_another(
    session: Session, feed: Reader, of_the_tube: bool
) -> None:
    change = ensure if of_the_tube else attach
    change(session, condition="id > 8")
    session.execute(FILL, [1, 10])
    backfill = schedule(session, relation="orders", chunk=5)
    step(session, backfill)
    feed.new()
    change(session, condition="")
    assert schedule(session, relation="orders") == backfill
    finish(session, backfill)
    assert len(feed.keys()) == 10
    assert status(session, backfill)["keys_done"] == 10


def test_a_restored_backfill_waits_for_no_transaction_of_the_server_before(
    two_sessions: TwoSessions,
) -> None:
    """Its numbers may be far above those of this one."""
    session = two_sessions.watcher
    session.execute(ORDERS)
    ensure(session)
    attach(session)
    backfill = schedule(session, relation="orders")
    step(session, backfill)
    session.execute("update trunkline.tube_backfill set start_xid = '9000000000'")
    session.execute("update trunkline.incarnation set system_identifier = 1")
    finish(session, backfill)


def test_a_table_is_attached_otherwise_once_those_who_write_to_it_are_done(
    two_sessions: TwoSessions,
) -> None:
    """Else a backfill that follows could miss what they commit in the shard of before."""
    a, b, watcher = two_sessions.a, two_sessions.b, two_sessions.watcher
    watcher.execute(ORDERS)
    ensure(watcher)
    attach(watcher, shard="1")
    a.execute("insert into orders values (1)")
    watcher.execute("select trunkline.config_set('tube.attach_patience', '0')")
    with refused("TL409"):
        attach(b, shard="2")
    b.rollback()
    a.commit()
    attach(b, shard="2")


@pytest.mark.parametrize("of_the_tube", [True, False])
def test_a_condition_is_changed_once_those_who_write_by_the_one_before_are_done(
    two_sessions: TwoSessions, of_the_tube: bool
) -> None:
    """Else a backfill that follows could miss what they commit: the condition of before let it."""
    a, b, watcher = two_sessions.a, two_sessions.b, two_sessions.watcher
    watcher.execute(ORDERS)
    change = ensure if of_the_tube else attach
    ensure(watcher)
    attach(watcher)
    change(watcher, condition="id > 100")
    a.execute("insert into orders values (1)")
    watcher.execute("select trunkline.config_set('tube.attach_patience', '0')")
    with refused("TL409"):
        change(b, condition="id > 0")
    b.rollback()
    change(watcher, condition="id > 100")  # the same again waits for nobody
    a.commit()
    change(b, condition="id > 0")
