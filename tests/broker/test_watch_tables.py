"""Watched tables of every kind, and what becomes of them when they change."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.broker.watching import ORDERS, Seen, watch
from tests.fixtures.asking import ask, call, column, refused

from trunkline.testing import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.asking import Session

TRIGGERS = "select tgname from pg_trigger where tgname ~ '^trunkline_watch_' order by 1"
FUNCTIONS = "select proname from pg_proc where proname ~ '^trunkline_watch_' order by 1"


def faults(session: Session) -> list[str | None]:
    return column(session, "select fault from trunkline.broker_watched()")


def maintain(session: Session) -> None:
    session.execute("call trunkline.maintain()")
    assert column(session, "select error from trunkline.duty where error is not null") == []


# Names


def test_n4_topics_are_in_lower_case_and_metadata_has_the_name_as_it_is(session: Session) -> None:
    session.execute('create schema "Shop"; create table "Shop"."Order Item" ("Id" int primary key)')
    watch(session, '"Shop"."Order Item"')
    seen = Seen(session)
    session.execute('insert into "Shop"."Order Item" values (1)')
    (one,) = seen.new()
    assert (one.topic, one.key, one.payload) == ("shop.order item.insert", "1", {"Id": 1})
    assert one.metadata["table"] == '"Shop"."Order Item"'


def test_any_name_of_schema_table_and_column_will_do(session: Session) -> None:
    session.execute('create schema "My % Schema"')
    names = [
        "select",
        "Mixed Case",
        "100%",
        'quo"te',
        "new_rows",
        "it's",
        "table",
        "r",
        "t",
        "user",
    ]
    for number, name in enumerate(names):
        quoted = ask(session, "select quote_ident(%s)", [name])
        table = f'"My % Schema".{quoted}'
        plain = table.replace("%", "%%")
        key = quoted.replace("%", "%%")
        session.execute(f"create table {plain} ({key} int primary key, v int)", [])
        watch(session, table, condition=f"{quoted} > 0 and r.{quoted} < 99", columns=[name])
        seen = Seen(session)
        session.execute(f"insert into {plain} values (%s), (0)", [number + 1])
        session.execute(f"update {plain} set {key} = 50 where {key} > 0", [])
        found = seen.new()
        assert [one.topic.rsplit(".", 1) for one in found] == [
            [f"my % schema.{name.lower()}", kind] for kind in ("insert", "delete", "insert")
        ]
        assert [one.payload for one in found] == [{name: number + 1}] * 2 + [{name: 50}]


def test_a_name_that_is_no_topic_is_refused(session: Session) -> None:
    session.execute('create table "a\nb" (id int)')
    with refused("TL422"):
        watch(session, '"a\nb"')


def test_a_renamed_table_keeps_its_topics_until_it_is_watched_again(session: Session) -> None:
    """Whoever subscribed to them must not lose events because of a new name."""
    session.execute(ORDERS)
    number = watch(session)
    seen = Seen(session)
    session.execute("create schema archive")
    session.execute("alter table orders rename to old_orders")
    session.execute("alter table old_orders set schema archive")
    with psycopg.connect(session.info.dsn, autocommit=True) as fresh:
        fresh.execute("insert into archive.old_orders values (1)")
    assert [one.topic for one in seen.new()] == ["public.orders.insert"]
    assert watch(session, "archive.old_orders") == number
    session.execute("update archive.old_orders set total = 1")
    (one,) = seen.new()
    assert (one.topic, one.metadata["table"]) == (
        "archive.old_orders.update",
        "archive.old_orders",
    )
    call(session, "broker_unwatch", relation="archive.old_orders")
    assert column(session, FUNCTIONS) == []


def test_a_table_that_left_its_schema_takes_its_function_along_when_it_is_watched_again(
    session: Session,
) -> None:
    """Until then it is a fault: who drops the old schema with all that is in it ends the watch."""
    session.execute("create schema old")
    session.execute("create schema new")
    session.execute("create table old.orders (id bigint primary key)")
    watch(session, "old.orders")
    seen = Seen(session)
    session.execute("alter table old.orders set schema new")
    assert "schema old" in faults(session)[0]
    with pytest.raises(psycopg.errors.DependentObjectsStillExist):
        session.execute("drop schema old")

    watch(session, "new.orders")

    assert faults(session) == [None]
    session.execute("drop schema old")
    session.execute("insert into new.orders values (1)")
    assert seen.outline() == [("insert", "1")]
    call(session, "broker_unwatch", relation="new.orders")
    assert column(session, FUNCTIONS) == []


def test_a_schema_that_is_dropped_with_the_function_of_a_table_that_left_it_stops_no_write(
    session: Session,
) -> None:
    session.execute("create schema old")
    session.execute("create table old.orders (id bigint primary key)")
    watch(session, "old.orders")
    seen = Seen(session)
    session.execute("alter table old.orders set schema public")
    session.execute("drop schema old cascade")
    session.execute("insert into orders values (1)")
    assert "lost its triggers" in faults(session)[0]
    watch(session)
    session.execute("insert into orders values (2)")
    assert seen.outline() == [("insert", "2")]


# Columns that change


def test_columns_that_are_added_dropped_or_widened_do_not_disturb(session: Session) -> None:
    session.execute(ORDERS)
    watch(session)
    seen = Seen(session)
    session.execute("insert into orders values (1, 'a', 'b', 1)")
    session.execute("alter table orders drop column note, add column extra text default 'x'")
    session.execute("alter table orders alter column id type numeric")
    session.execute("insert into orders values (99999999999999999999, 'c', 2)")
    session.execute("update orders set extra = 'y' where id = 1")
    assert [(key, payload) for _, key, payload in seen.brief()][1:] == [
        (
            "99999999999999999999",
            {"id": 99999999999999999999, "status": "c", "total": 2, "extra": "x"},
        ),
        ("1", {"id": 1, "extra": "y"}),
    ]


def test_a_renamed_column_never_refuses_a_write(session: Session) -> None:
    """Its events are told by the columns that are there, and say what is wrong."""
    session.execute(ORDERS)
    watch(session, columns=["status", "total"], condition="total > 0")
    seen = Seen(session)
    session.execute("alter table orders rename id to number")
    session.execute("alter table orders rename total to amount")
    session.execute("insert into orders values (1, 'a', 'secret', 0)")
    session.execute("update orders set status = 'b'")
    session.execute("delete from orders")
    found = seen.new()
    assert [(one.topic.rsplit(".", 1)[1], one.key, one.payload) for one in found] == [
        ("insert", None, {"status": "a"}),
        ("update", None, {"status": "b", "id": None}),
        ("delete", None, {"status": "b"}),
    ]
    assert 'column "total" does not exist' in found[0].metadata["error"]
    assert faults(session) == ["column id is gone or has another name: watch the table again."]
    watch(session, columns=["status", "amount"], condition="amount > 0")
    session.execute("insert into orders values (1, 'a', 'secret', 5)")
    assert seen.brief() == [("insert", "1", {"number": 1, "status": "a", "amount": 5})]
    assert faults(session) == [None]


def test_stored_and_virtual_generated_columns_are_told(session: Session) -> None:
    virtual = session.info.server_version >= 180000
    session.execute(
        "create table box (id int primary key, a int, twice int generated always as (a * 2) stored)"
    )
    if virtual:
        session.execute("alter table box add inverse int generated always as (100 / a)")
    watch(session, "box", condition="twice > 1")
    seen = Seen(session)
    session.execute("insert into box values (1, 10), (2, 0)")
    session.execute("update box set a = 20 where id = 1")
    told = {"inverse": 10} if virtual else {}
    changed = {"inverse": 5} if virtual else {}
    assert seen.brief() == [
        ("insert", "1", {"id": 1, "a": 10, "twice": 20} | told),
        ("update", "1", {"id": 1, "a": 20, "twice": 40} | changed),
    ]
    if virtual:
        with refused("TL422"):
            watch(session, "box", condition="inverse > 1")
        watch(session, "box", columns=["inverse"])
        session.execute("insert into box values (3, 50)")
        assert seen.brief() == [("insert", "3", {"id": 3, "inverse": 2})]
        session.execute("insert into box values (4, 0)")  # its virtual column cannot be computed
        (one,) = seen.new()
        assert (one.key, one.metadata["error"]) == ("4", "division by zero")


@pytest.mark.parametrize(
    ("columns", "change"),
    [
        ("id int primary key", "add at timestamptz"),
        ("id int primary key", "alter id type timestamptz using 'epoch'"),
        ("id int primary key, a int", "alter a type real"),
    ],
)
def test_a_column_that_would_be_told_as_the_writer_shows_it_is_a_fault_until_watched_again(
    session: Session, columns: str, change: str
) -> None:
    session.execute(f"create table things ({columns})")
    watch(session, "things")
    assert faults(session) == [None]
    session.execute(f"alter table things {change}")
    assert "not what they were" in str(faults(session))
    watch(session, "things")
    assert faults(session) == [None]


def test_a_type_named_like_one_of_the_server_is_none(session: Session) -> None:
    session.execute("create type texts as (at timestamptz)")
    session.execute("create table things (id int primary key, it texts)")
    watch(session, "things")
    assert faults(session) == [None]
    seen = Seen(session)
    session.execute("set timezone = 'Asia/Tokyo'")
    session.execute("insert into things values (1, row('2026-01-01 00:00Z'))")
    session.execute("reset timezone")
    assert seen.brief() == [("insert", "1", {"id": 1, "it": {"at": "2026-01-01T00:00:00+00:00"}})]


def test_a_virtual_column_that_is_computed_in_another_way_is_a_fault_until_watched_again(
    session: Session,
) -> None:
    if session.info.server_version < 180000:
        pytest.skip("virtual columns came with 18")
    session.execute("create table things (id int primary key, b int generated always as (id * 2))")
    watch(session, "things")
    assert faults(session) == [None]
    for change in ("alter b set expression as (id * 3)", "add c int generated always as (id + 1)"):
        session.execute(f"alter table things {change}")
        assert "not what they were" in str(faults(session))
        watch(session, "things")
        assert faults(session) == [None]
    seen = Seen(session)
    session.execute("insert into things values (1)")
    assert seen.brief() == [("insert", "1", {"id": 1, "b": 3, "c": 2})]


def test_types_of_users_are_told_as_json(session: Session) -> None:
    session.execute(
        "create type mood as enum ('happy', 'sad'); create type pair as (a int, b text);"
        "create domain short as text check (length(value) < 9);"
        "create table person (id short primary key, mood mood, moods mood[], pair pair, j json,"
        " at point, n numeric)"
    )
    watch(session, "person")
    seen = Seen(session)
    session.execute(
        "insert into person values ('me', 'sad', '{sad,happy}', (1, 'b'), '{\"x\": 1}',"
        " '(1,2)', 'NaN')"
    )
    session.execute("update person set j = '{\"x\":1}', mood = 'happy', at = '(1,3)'")
    told: dict[str, Any] = {
        "id": "me",
        "mood": "sad",
        "moods": ["sad", "happy"],
        "pair": {"a": 1, "b": "b"},
        "j": {"x": 1},
        "at": "(1,2)",
        "n": "NaN",
    }
    assert seen.brief() == [
        ("insert", "me", told),
        ("update", "me", {"id": "me", "mood": "happy", "at": "(1,3)"}),
    ]


# Partitions and inheritance


@pytest.mark.parametrize("columns", [None, ["doc"]])
def test_what_json_cannot_hold_is_told_as_text_and_refuses_no_write(
    session: Session, columns: list[str] | None
) -> None:
    """The type json takes what jsonb does not."""
    session.execute("create table papers (id int primary key, doc json)")
    watch(session, "papers", columns=columns)
    seen = Seen(session)
    zero, vast = r'{"a": "\u0000"}', '{"a": 1e1000000}'
    session.execute("insert into papers values (1, %s), (2, '[]'), (3, %s)", [zero, vast])
    first, second, third = seen.new()
    assert (first.key, first.payload) == ("1", {"id": 1, "doc": zero})
    assert (second.key, second.payload, third.payload["doc"]) == ("2", {"id": 2, "doc": []}, vast)
    assert "Unicode" in first.metadata["error"]
    assert "error" not in second.metadata
    session.execute("update papers set doc = '{}' where id = 1")
    (changed,) = seen.new()
    assert (changed.payload, changed.metadata["old"]["doc"]) == ({"id": 1, "doc": {}}, zero)


@pytest.fixture
def partitioned(session: Session) -> Seen:
    session.execute(
        "create table event (id int, at int, note text, primary key (id, at))"
        " partition by range (at);"
        "create table event_a partition of event for values from (0) to (10);"
        "create table event_b (note text, at int not null, extra int, id int not null);"
        "alter table event_b drop column extra;"
        "alter table event attach partition event_b for values from (10) to (20)"
    )
    watch(session, "event", condition="at >= 0 and 10 / (at - 5) is not null")
    return Seen(session)


def test_writes_to_a_partitioned_table_and_to_its_partitions_are_seen_once(
    session: Session, partitioned: Seen
) -> None:
    session.execute("insert into event values (1, 1), (2, 12)")
    session.execute("insert into event_b (id, at) values (3, 13)")
    session.execute("update event_a set note = 'x'")
    session.execute("update event set note = 'y'")
    session.execute("delete from event where id = 3")
    found = partitioned.new()
    assert {one.topic.rsplit(".", 1)[0] for one in found} == {"public.event"}
    assert [(one.topic.rsplit(".", 1)[1], one.key) for one in found[:4]] == [
        ("insert", "[1, 1]"),
        ("insert", "[2, 12]"),
        ("insert", "[3, 13]"),
        ("update", "[1, 1]"),
    ]
    assert found[2].payload == {"id": 3, "at": 13, "note": None}
    assert sorted(one.payload["note"] for one in found[4:7]) == ["y"] * 3
    assert (len(found), found[7].key) == (8, "[3, 13]")


def test_a_row_that_moves_between_partitions_goes_and_comes(
    session: Session, partitioned: Seen
) -> None:
    session.execute("insert into event values (1, 1), (2, 2), (3, 3)")
    partitioned.new()
    session.execute("update event set at = at + 10 where id <> 2")
    session.execute("update event set note = 'x' where id = 1")
    assert [one[:2] for one in partitioned.brief()] == [
        ("delete", "[1, 1]"),
        ("delete", "[3, 3]"),
        ("insert", "[1, 11]"),
        ("insert", "[3, 13]"),
        ("update", "[1, 11]"),
    ]


def test_a_row_that_does_not_arrive_in_another_partition_is_gone_and_mixes_up_no_other(
    session: Session, partitioned: Seen
) -> None:
    session.execute(
        "create function refuse() returns trigger language plpgsql as"
        " $$ begin if new.id = 2 then return null; end if; return new; end $$;"
        "create trigger refuse before insert on event_b for each row execute function refuse()"
    )
    session.execute("insert into event values (1, 1), (2, 2), (3, 3)")
    partitioned.new()
    session.execute("update event set at = at + 10, note = 'n' || id")
    assert [(kind, key, payload["note"]) for kind, key, payload in partitioned.brief()] == [
        ("delete", "[1, 1]", None),
        ("delete", "[2, 2]", None),
        ("delete", "[3, 3]", None),
        ("insert", "[1, 11]", "n1"),
        ("insert", "[3, 13]", "n3"),
    ]


def test_rows_of_any_partition_are_judged_one_by_one_when_a_condition_fails(
    session: Session, partitioned: Seen
) -> None:
    session.execute("insert into event values (1, 5), (2, 6), (3, 15)")
    session.execute("insert into event_b (id, at) values (4, 14)")
    session.execute("insert into event_a (id, at) values (5, 5), (6, 1)")
    assert sorted(str(key) for _, key in partitioned.outline()) == [
        *("[1, 5]", "[2, 6]", "[3, 15]", "[4, 14]", "[5, 5]", "[6, 1]")
    ]
    session.execute("update event set note = 'z' where at = 5")
    assert partitioned.outline() == [("update", "[1, 5]"), ("update", "[5, 5]")]


def test_a_truncate_of_one_partition_names_it(session: Session, partitioned: Seen) -> None:
    session.execute("truncate event_b")
    (one,) = partitioned.new()
    assert one.topic == "public.event.truncate"
    assert one.metadata == {"op": "truncate", "table": "public.event", "part": "public.event_b"}
    session.execute("truncate event")
    assert "part" not in partitioned.new()[0].metadata


def test_tables_are_named_alike_to_and_by_who_quotes_all_identifiers(
    session: Session, partitioned: Seen
) -> None:
    session.execute("set quote_all_identifiers = on")
    assert faults(session) == [None]
    watch(session, "event")
    session.execute("truncate event_b")
    (one,) = partitioned.new()
    assert one.metadata == {"op": "truncate", "table": "public.event", "part": "public.event_b"}
    session.execute("reset quote_all_identifiers")
    assert faults(session) == [None]


def test_maintenance_gives_new_partitions_their_triggers_and_takes_those_of_others(
    session: Session, partitioned: Seen
) -> None:
    session.execute("create table event_c partition of event for values from (20) to (30)")
    session.execute("insert into event values (1, 21)")
    assert partitioned.outline() == [("insert", "[1, 21]")]
    assert "misses triggers" in str(faults(session)[0])
    session.execute("alter table event detach partition event_b")
    maintain(session)
    assert faults(session) == [None]
    session.execute("insert into event_c values (2, 22)")
    session.execute("insert into event_b (id, at) values (3, 13)")
    assert partitioned.outline() == [("insert", "[2, 22]")]
    assert ask(session, "select parts from trunkline.broker_watched()") == 2


def test_a_partition_whose_lock_is_held_gets_its_triggers_later(
    session: Session, partitioned: Seen, other: Session
) -> None:
    session.execute("create table event_c partition of event for values from (20) to (30)")
    other.execute("insert into event_c values (2, 22)")
    session.execute("select trunkline.config_set('maintain.lock_timeout', '5 milliseconds')")
    maintain(session)
    assert faults(session) != [None]
    other.commit()
    maintain(session)
    session.execute("insert into event_c values (3, 23)")
    assert partitioned.outline() == [("insert", "[3, 23]")]


def test_children_by_inheritance_are_seen_with_the_columns_of_the_table(session: Session) -> None:
    session.execute("create table animal (id int primary key, name text)")
    session.execute("create table dog (breed text) inherits (animal)")
    watch(session, "animal")
    seen = Seen(session)
    session.execute("insert into dog values (1, 'Rex', 'mutt')")
    session.execute("insert into animal values (2, 'Dumbo')")
    session.execute("update animal set name = upper(name)")
    session.execute("delete from animal where id = 1")
    assert sorted(seen.brief(), key=lambda one: (one[0], str(one[1]))) == [
        ("delete", "1", {"id": 1, "name": "REX"}),
        ("insert", "1", {"id": 1, "name": "Rex"}),
        ("insert", "2", {"id": 2, "name": "Dumbo"}),
        ("update", "1", {"id": 1, "name": "REX"}),
        ("update", "2", {"id": 2, "name": "DUMBO"}),
    ]


def test_what_writes_could_bypass_cannot_be_watched(session: Session) -> None:
    """A write to the parent does not fire the statement triggers of its parts."""
    session.execute(
        "create table whole (id int primary key) partition by range (id);"
        "create table part partition of whole for values from (0) to (10);"
        "create view seen as select 1 as id; create temp table mine (id int)"
    )
    with refused("TL422") as caught:
        watch(session, "part")
    assert (caught.value.diag.message_hint or "") == "Watch whole."
    for relation in ("seen", "mine", "trunkline.event", "pg_class"):
        with refused("TL422"):
            watch(session, relation)


def test_a_table_that_became_a_part_of_another_has_a_fault(session: Session) -> None:
    session.execute("create table part (id int primary key)")
    watch(session, "part")
    session.execute(
        "create table whole (id int primary key) partition by range (id);"
        "alter table whole attach partition part for values from (0) to (10)"
    )
    assert "became a part of public.whole" in str(faults(session)[0])


def test_a_foreign_part_is_a_fault_and_holds_up_no_other_table(session: Session) -> None:
    session.execute("create table far (id int) partition by range (id)")
    session.execute("create table near (id int) partition by range (id)")
    watch(session, "far")
    watch(session, "near")
    session.execute(
        "create foreign data wrapper nowhere; create server away foreign data wrapper nowhere;"
        "create foreign table far_1 partition of far for values from (0) to (10) server away;"
        "create table near_1 partition of near for values from (0) to (10)"
    )
    try:
        maintain(session)
        first, second = faults(session)
        assert "public.far_1" in str(first)
        assert second is None
        seen = Seen(session)
        session.execute("insert into near_1 values (1)")
        assert seen.outline() == [("insert", None)]
    finally:
        session.execute("drop foreign data wrapper nowhere cascade")


def test_disabled_triggers_are_a_fault_until_they_are_enabled(session: Session) -> None:
    session.execute(ORDERS)
    watch(session)
    session.execute("alter table orders disable trigger user")
    assert "are disabled" in str(faults(session)[0])
    session.execute("alter table orders enable trigger user")
    assert faults(session) == [None]


def test_another_primary_key_is_a_fault_until_the_table_is_watched_again(session: Session) -> None:
    session.execute(ORDERS)
    watch(session)
    session.execute("alter table orders drop constraint orders_pkey, add primary key (note)")
    assert "primary key of table public.orders is another" in str(faults(session)[0])
    watch(session)
    seen = Seen(session)
    session.execute("insert into orders (id, note) values (1, 'n')")
    assert (seen.outline(), faults(session)) == ([("insert", "n")], [None])


def test_triggers_that_were_dropped_come_when_the_table_is_watched_again(session: Session) -> None:
    session.execute(ORDERS)
    number = watch(session)
    session.execute(f"drop function trunkline_watch_{number} cascade")
    maintain(session)
    assert "has lost its triggers" in str(faults(session)[0])
    watch(session)
    assert faults(session) == [None]


# Dropped, and altered under load


def test_a_dropped_table_is_no_longer_watched_and_leaves_nothing(session: Session) -> None:
    session.execute(ORDERS)
    watch(session)
    seen = Seen(session)
    session.execute("insert into orders values (1)")
    session.execute("drop table orders")
    assert call(session, "broker_watched") == []
    maintain(session)
    assert ask(session, "select count(*) from trunkline.broker_watched_table") == 0
    assert column(session, FUNCTIONS) == []
    assert seen.outline() == [("insert", "1")]
    session.execute(ORDERS)
    watch(session)
    session.execute("insert into orders values (2)")
    assert seen.outline() == [("insert", "2")]


def test_a_table_is_watched_altered_and_renamed_under_load_without_losing_a_write(
    session: Session, connect: Callable[..., Session]
) -> None:
    session.execute(ORDERS)
    watch(session)
    seen = Seen(session)
    written: list[int] = []
    names = ["orders"]
    stop = threading.Event()

    def write(first: int) -> None:
        own = connect()
        for number in itertools.count(first, 3):
            if stop.is_set():
                return
            with suppress(psycopg.errors.UndefinedTable):  # it has just been renamed
                own.execute(f"insert into {names[-1]} values ({number})")
                written.append(number)

    with ThreadPoolExecutor(3) as threads:
        writers = [threads.submit(write, first) for first in range(3)]
        try:
            for change in (
                "alter table orders add column extra text default 'x'",
                "alter table orders drop column note",
                "alter table orders rename to purchase",
                "alter table purchase rename column status to state",
                "alter table purchase alter column total type bigint",
                "alter table purchase rename column id to number",
                "alter table purchase rename column number to id",
            ):
                session.execute(change)
                if change.endswith("to purchase"):
                    names.append("purchase")
                enough = len(written) + 5
                wait_until(lambda enough=enough: len(written) >= enough)  # type: ignore[misc]
                watch(session, names[-1], condition="total is null" if "drop" in change else None)
        finally:
            stop.set()
        for one in writers:
            one.result(10)
    found = seen.new()
    told = [one.payload["number" if "number" in one.payload else "id"] for one in found]
    assert sorted(told) == sorted(written)
    assert ask(session, "select count(*) from purchase") == len(written)
