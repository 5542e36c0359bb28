"""Tubes and their tables: making, changing, listing and dropping them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.fixtures.asking import Session, ask, call, column, connections, refused, writing_nothing
from tests.tube.sql_steps import (
    TUBE,
    Reader,
    ack,
    attach,
    documents,
    ensure,
    join,
    member,
    read,
    schedule,
    tick,
    touch,
)

from trunkline.core import migrate

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.postgres import TwoSessions

TRIGGERS = (
    "select tgname from pg_trigger where tgname ~ '^trunkline_tube_' and tgrelid = %s::regclass"
    " order by 1"
)
FUNCTIONS = "select proname from pg_proc where proname ~ '^trunkline_tube_' order by 1"


def listed(session: Session, *columns: str, **arguments: Any) -> list[tuple[Any, ...]]:
    """Columns of the listing."""
    names = ", ".join(f"{name}::text" for name in columns)
    query = f"select {names} from trunkline.tube_list(%s::regclass)"
    return session.execute(query, [arguments.get("relation")]).fetchall()


# Making and changing


def test_a_tube_is_made_again_with_other_lanes_and_the_listing_shows_the_last(
    session: Session,
) -> None:
    for lanes in (None, 3, 4):
        ensure(session, lanes=lanes)
    assert listed(session, "tube", "lanes") == [(TUBE, "4")]


def test_making_a_tube_again_keeps_what_is_left_out(session: Session) -> None:
    ensure(session, lanes=3, condition="total > 5")
    ensure(session)
    ensure(session, lanes=4)
    assert listed(session, "lanes", "condition") == [("4", "total > 5")]
    ensure(session, condition="")
    assert listed(session, "lanes", "condition") == [("4", None)]


def test_a_tube_without_tables_is_listed_once_and_an_unattached_table_not_at_all(
    session: Session,
) -> None:
    assert listed(session, "tube", "relation", "shard", "gaps") == [(TUBE, None, None, "0")]
    assert listed(session, "tube", relation="orders") == []


def test_a_table_in_two_tubes_carries_the_triggers_of_both(session: Session) -> None:
    """Four each: ours also see TRUNCATE. The function of each attachment is beside the table."""
    ensure(session, "second")
    first, second = attach(session), attach(session, tube="second")
    assert column(session, TRIGGERS, ["orders"]) == sorted(
        f"trunkline_tube_{number}_{event}"
        for number in (first, second)
        for event in ("insert", "update", "delete", "truncate")
    )
    assert column(session, FUNCTIONS) == sorted(f"trunkline_tube_{n}" for n in (first, second))
    assert listed(session, "tube", "relation", relation="orders") == [
        (TUBE, "orders"),
        ("second", "orders"),
    ]


def test_detaching_removes_the_triggers_of_one_tube_or_of_all(session: Session) -> None:
    for tube in ("second", "third"):
        ensure(session, tube)
        attach(session, tube=tube)
    left = attach(session)
    assert call(session, "tube_detach", tube="second", relation="orders") == [(True,)]
    assert call(session, "tube_detach", tube="second", relation="orders") == [(False,)]
    call(session, "tube_detach", tube="third", relation="orders")
    assert len(column(session, TRIGGERS, ["orders"])) == 4
    assert column(session, FUNCTIONS) == [f"trunkline_tube_{left}"]
    attach(session, tube="second")
    assert call(session, "tube_detach", tube=None, relation="orders") == [(True,)]
    assert call(session, "tube_detach", tube=None, relation="orders") == [(False,)]
    assert column(session, TRIGGERS, ["orders"]) == column(session, FUNCTIONS) == []


def test_what_was_touched_before_a_detach_is_still_in_the_tube(
    session: Session, feed: Reader
) -> None:
    session.execute("insert into orders values (1)")
    attachment = ask(session, "select attachment from trunkline.tube_table")
    call(session, "tube_detach", tube=TUBE, relation="orders")
    session.execute("insert into orders values (2)")
    assert feed.keys() == ["1"]
    assert documents(session, attachment, "1")["1"]["id"] == 1


def test_the_shard_is_taken_from_the_end_of_the_schema_or_table_name(session: Session) -> None:
    session.execute('create schema myschema0042; create schema "My Shop 7"; create schema v2_x')
    wanted = {
        "myschema0042.orders": 42,
        "myschema0042.orders_3": 42,
        '"My Shop 7".orders': 7,
        "v2_x.orders": 0,
        "v2_x.orders_0012": 12,
        "v2_x.a1b2": 0,
    }
    for relation, shard in wanted.items():
        session.execute(f"create table {relation} (id int primary key)")
        attach(session, relation)
        assert listed(session, "shard", relation=relation) == [(str(shard),)]
    attach(session, "myschema0042.orders", shard="6")
    assert listed(session, "shard", relation="myschema0042.orders") == [("6",)]


def test_conditions_are_listed_word_for_word(session: Session) -> None:
    condition = "status <> 'it''s'\n  and total > 0 -- paid ones"
    ensure(session, condition=condition)
    attach(session, condition="region = 1", shard="region + 1", on_error="gap")
    assert listed(session, "condition", "table_condition", "shard", "on_error", "key_columns") == [
        (condition, "region = 1", "region + 1", "gap", "{id}")
    ]


def test_attaching_again_changes_what_is_named_and_keeps_the_rest(session: Session) -> None:
    attachment = attach(
        session, shard="5", condition="total > 5", key_columns=["id"], on_error="gap"
    )
    assert attach(session, condition="total > 7") == attachment
    assert attach(session) == attachment
    assert listed(session, "table_condition", "on_error", "shard") == [("total > 7", "gap", "5")]
    feed = Reader(session)
    session.execute("insert into orders (id, total) values (1, 6), (2, 8)")
    assert feed.keys() == ["2"]


def test_a_new_condition_of_the_tube_counts_for_all_its_tables_from_then_on(
    session: Session, feed: Reader
) -> None:
    session.execute("create table other (id int primary key, status text)")
    attach(session, "other")
    ensure(session, condition="status = 'paid'")
    for table in ("orders", "other"):
        session.execute(f"insert into {table} (id, status) values (1, 'paid'), (2, 'new')")
    assert [entry.keys for entry in feed.new()] == [["1"], ["1"]]
    with refused("TL422"):
        ensure(session, condition="total > 5")  # the second table has no such column
    assert listed(session, "condition")[0] == ("status = 'paid'",)
    ensure(session, condition="")
    session.execute("insert into orders (id) values (3)")
    assert feed.keys() == ["3"]


def test_a_table_that_moves_to_another_shard_has_the_documents_of_the_old_one_checked(
    session: Session,
) -> None:
    attachment = attach(session, shard="4")
    session.execute("insert into orders values (1)")
    feed = Reader(session)
    attach(session, shard="5")
    assert feed.controls() == [("truncate", 4)]
    assert documents(session, attachment, "1", shards=[4]) == {"1": None}
    assert documents(session, attachment, "1", shards=[5])["1"]["id"] == 1
    ensure(session, lanes=2)
    attach(session, shard="region")
    assert feed.controls() == [("truncate", 5)]
    attach(session, shard="region + 1")
    assert feed.controls() == [("truncate", 0), ("truncate", 1)]


# Locks


def test_an_unchanged_call_writes_nothing_and_waits_for_nobody(
    session: Session, connect: Callable[..., Session]
) -> None:
    settings = {"shard": "region", "condition": "total > 5", "on_error": "gap"}
    ensure(session, lanes=3, condition="total > 1")
    attach(session, **settings)
    other = connect(autocommit=False)
    other.execute("lock table orders in access exclusive mode")
    other.execute("select 1 from trunkline.tube for update")
    session.execute("set lock_timeout = '1ms'")
    with writing_nothing(session):
        ensure(session, lanes=3, condition="total > 1")
        ensure(session)
        attach(session, **settings)


def test_a_changed_condition_counts_from_then_on(session: Session, feed: Reader) -> None:
    session.execute("insert into orders (id, total) values (1, 1)")
    ensure(session, condition="total > 5")
    attach(session, condition="total > 6")
    session.execute("insert into orders (id, total) values (2, 6), (3, 7)")
    assert feed.keys() == ["1", "3"]


def test_a_table_attached_while_the_condition_changes_gets_the_new_one(
    two_sessions: TwoSessions,
) -> None:
    a, b, watcher = two_sessions.a, two_sessions.b, two_sessions.watcher
    watcher.execute("create table orders (id int primary key)")
    ensure(watcher)
    ensure(a, condition="id > 5")
    attaching = two_sessions.later(b, "select trunkline.tube_attach('feed', 'orders')")
    two_sessions.blocked_by(a, b)
    a.commit()
    attaching.result(10)
    b.commit()
    watcher.execute("insert into orders values (1), (9)")
    tick(watcher)
    assert [entry.keys for entry in read(watcher)] == [["9"]]


def test_making_and_attaching_twice_at_once_is_harmless(
    session: Session, connect: Callable[..., Session]
) -> None:
    def make(number: int) -> int:
        own = connect()
        ensure(own, "made", lanes=number % 2 + 1)
        return attach(own, tube="made")

    with ThreadPoolExecutor(4) as threads:
        made = set(threads.map(make, range(8)))
    assert len(made) == 1
    assert len(column(session, TRIGGERS, ["orders"])) == 4


# Dropping


def test_dropping_a_tube_takes_its_triggers_from_all_tables(session: Session) -> None:
    session.execute("create table other (id int primary key)")
    ensure(session, "second")
    attach(session)
    attach(session, "other")
    kept = attach(session, "other", tube="second")
    call(session, "tube_drop", tube=TUBE)
    assert column(session, TRIGGERS, ["orders"]) == []
    assert column(session, FUNCTIONS) == [f"trunkline_tube_{kept}"]
    assert listed(session, "tube") == [("second",)]
    for table in ("cursor_key", "owner", "tube_hook", "tube_table"):
        left = ask(session, f"select count(*) from trunkline.{table} t where t::text ~ %s", [TUBE])
        assert left == 0


@pytest.mark.parametrize("numbered", [True, False])
@pytest.mark.parametrize("force", [None, False])
def test_a_tube_with_entries_that_are_not_delivered_is_dropped_only_by_force(
    session: Session, feed: Reader, numbered: bool, force: bool | None
) -> None:
    session.execute("insert into orders values (1)")
    if numbered:
        tick(session)
    with refused("TL409") as caught:
        call(session, "tube_drop", tube=TUBE, force=force)
    assert '"entries": 1' in (caught.value.diag.message_detail or "")
    assert len(column(session, TRIGGERS, ["orders"])) == 4
    call(session, "tube_drop", tube=TUBE, force=True)
    assert listed(session, "tube") == []


def test_a_tube_is_dropped_when_everything_was_acknowledged(session: Session, feed: Reader) -> None:
    session.execute("insert into orders values (1)")
    tick(session)
    (share,) = join(session, member(session))
    ack(session, share, live_up_to=feed.new()[-1].up_to)
    call(session, "tube_drop", tube=TUBE)
    assert listed(session, "tube") == []


def test_a_tube_whose_table_is_gone_is_dropped_and_changed_like_any_other(
    session: Session, feed: Reader
) -> None:
    session.execute("create table other (id int primary key)")
    attach(session, "other")
    session.execute("drop table orders")
    ensure(session, condition="id > 1")
    assert len(call(session, "tube_backfill_schedule", tube=TUBE)) == 1
    call(session, "tube_drop", tube=TUBE, force=True)
    assert listed(session, "tube") == []


def test_a_tube_that_is_made_anew_knows_nothing_of_the_old_one(
    session: Session, feed: Reader
) -> None:
    session.execute("insert into orders values (1)")
    tick(session)
    call(session, "tube_drop", tube=TUBE, force=True)
    ensure(session)
    attach(session)
    session.execute("insert into orders values (2)")
    tick(session)
    assert [entry.keys for entry in read(session)] == [["2"]]


def test_an_attachment_that_ended_stays_until_nothing_of_it_can_be_asked_for(
    session: Session, feed: Reader
) -> None:
    there = "select attachment from trunkline.tube_table where tube_id in (select tube_id from"
    there += " trunkline.tube) order by 1"
    old = ask(session, there)
    call(session, "tube_detach", tube=TUBE, relation="orders")
    session.execute("update trunkline.tube_table set detached_at = '2020-01-01'")
    session.execute(
        "insert into trunkline.tube_parked select tube_id, %s, 0, 'k', 1, 'e' from trunkline.tube",
        [old],
    )
    session.execute("call trunkline.maintain()")
    assert column(session, there) == [old]
    session.execute("delete from trunkline.tube_parked")
    session.execute("call trunkline.maintain()")
    assert column(session, there) == []


def test_uninstalling_leaves_tables_that_can_be_written_to(dsn: str) -> None:
    with connections(dsn) as open_one:
        session = open_one()
        session.execute("create table orders (id int primary key)")
        session.execute("create table other (id int primary key)")
        for tube in ("one", "two"):
            ensure(session, tube)
            attach(session, tube=tube)
            attach(session, "other", tube=tube)
        session.execute("drop table other")
        migrate.uninstall(dsn)
        session.execute("insert into orders values (1)")
        assert column(session, TRIGGERS, ["orders"]) == column(session, FUNCTIONS) == []


# Downstreams


def test_a_downstream_is_stored_changed_and_forgotten(session: Session) -> None:
    put = "select trunkline.tube_downstream(%s, %s, %s)"
    rows = "select tube, kind, options, changed_at from trunkline.tube_downstreams()"
    session.execute(put, [TUBE, "postgres", '{"table": "copy"}'])
    (first,) = session.execute(rows).fetchall()
    assert first[:3] == (TUBE, "postgres", {"table": "copy"})
    session.execute(put, [TUBE, "postgres", '{"table": "copy"}'])
    assert session.execute(rows).fetchall() == [first]
    session.execute(put, [TUBE, "redis", "{}"])
    (second,) = session.execute(rows).fetchall()
    assert second[1] == "redis"
    assert second[3] > first[3]
    session.execute(put, [TUBE, None, "{}"])
    assert session.execute(rows).fetchall() == []


def test_a_detach_ends_the_backfill_of_the_table(session: Session, feed: Reader) -> None:
    session.execute("insert into orders select g from generate_series(1, 20) g")
    backfill = schedule(session, chunk=5)
    session.execute("select trunkline.tube_backfill_step(%s)", [backfill])
    call(session, "tube_detach", tube=TUBE, relation="orders")
    assert ask(session, "select trunkline.tube_backfill_step(%s)", [backfill]) is False
    assert ask(session, "select status from trunkline.tube_backfill_status()") == "cancelled"


def test_a_touch_by_hand_needs_no_table(session: Session) -> None:
    feed = Reader(session)
    assert touch(session, "a", "b", "a", None, payload='{"why": 1}', shard=3) == 2
    (entry,) = feed.new()
    assert (entry.relation, entry.attachment, entry.shard) == (None, None, 3)
    assert (entry.op, entry.keys, entry.payload) == ("T", ["a", "b"], {"why": 1})


def test_of_two_who_drop_a_tube_at_once_the_second_is_told(two_sessions: TwoSessions) -> None:
    a, b, watcher = two_sessions.a, two_sessions.b, two_sessions.watcher
    ensure(watcher)
    a.execute("select trunkline.tube_drop(%s)", [TUBE])
    waiting = two_sessions.later(b, "select trunkline.tube_drop(%s)", [TUBE])
    two_sessions.blocked_by(a, b)
    a.commit()
    with refused("TL404"):
        waiting.result(10)


@pytest.mark.parametrize("name", ["tube_stats", "tube_parked", "tube_backfill_status"])
def test_a_tube_that_is_not_there_is_not_one_with_nothing_to_show(
    session: Session, name: str
) -> None:
    with refused("TL404"):
        call(session, name, tube="nowhere")
    ensure(session)
    call(session, name, tube=TUBE)
    call(session, name)
