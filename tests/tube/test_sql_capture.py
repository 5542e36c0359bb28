"""Capturing in SQL: what was written is in the tube, with its transaction or not at all."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.fixtures.asking import Session, ask, call, column, refused
from tests.tube.sql_steps import (
    TUBE,
    Reader,
    attach,
    documents,
    ensure,
    finish,
    gaps,
    read,
    schedule,
    step,
    tick,
    touch,
)

from trunkline.testing import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.postgres import TwoSessions

FILL = "insert into orders select g, 'new', g %% 3, g from generate_series(%s::int, %s::int) g"


# Which statements touch what


def test_an_insert_of_two_rows_is_one_entry_with_both_keys(session: Session, feed: Reader) -> None:
    session.execute("insert into orders (id) values (1), (2)")
    (entry,) = feed.new()
    assert (entry.op, sorted(entry.keys), entry.shard) == ("I", ["1", "2"], 0)
    assert (entry.relation, entry.control, entry.payload) == ("orders", None, None)


def test_updates_and_deletes_touch_their_rows(session: Session, feed: Reader) -> None:
    session.execute(FILL, [1, 3])
    feed.new()
    session.execute("update orders set status = 'paid' where id < 3")
    session.execute("delete from orders where id = 3")
    assert feed.touches() == [("U", ["1", "2"]), ("D", ["3"])]


def test_a_statement_that_touches_no_row_writes_nothing(session: Session, feed: Reader) -> None:
    for statement in (
        "insert into orders select 1 where false",
        "update orders set status = 'paid'",
        "delete from orders",
        "insert into orders values (1) on conflict do nothing",
    ):
        session.execute(statement)
    assert feed.touches() == [("I", ["1"])]
    session.execute("insert into orders values (1) on conflict do nothing")
    assert feed.new() == []


def test_copy_merge_and_upsert_are_captured(session: Session, feed: Reader) -> None:
    with session.cursor().copy("copy orders (id, total) from stdin") as copy:
        for number in (1, 2, 3):
            copy.write_row((number, number))
    assert feed.touches() == [("I", ["1", "2", "3"])]
    session.execute(
        "insert into orders values (3), (4) on conflict (id) do update set status = 'again'"
    )
    assert sorted(feed.touches()) == [("I", ["4"]), ("U", ["3"])]
    session.execute(
        "merge into orders o using (values (1), (2), (9)) v (id) on o.id = v.id"
        " when matched and v.id = 1 then delete"
        " when matched then update set status = 'merged'"
        " when not matched then insert (id) values (v.id)"
    )
    assert sorted(feed.touches()) == [("D", ["1"]), ("I", ["9"]), ("U", ["2"])]


def test_writes_inside_a_query_and_by_a_foreign_key_are_captured(session: Session) -> None:
    session.execute(
        "create table item (id int primary key, order_id bigint references orders"
        " on delete cascade on update cascade)"
    )
    attach(session)
    attach(session, "item")
    feed = Reader(session)
    session.execute(
        "with placed as (insert into orders (id) values (1), (2) returning id)"
        " insert into item select 10 + id, id from placed"
    )
    assert sorted((entry.relation, entry.op, sorted(entry.keys)) for entry in feed.new()) == [
        ("item", "I", ["11", "12"]),
        ("orders", "I", ["1", "2"]),
    ]
    session.execute("delete from orders where id = 1")
    session.execute("update orders set id = 5 where id = 2")
    assert sorted((entry.relation, entry.op, sorted(entry.keys)) for entry in feed.new()) == [
        ("item", "D", ["11"]),
        ("item", "U", ["12"]),
        ("orders", "D", ["1"]),
        ("orders", "U", ["2", "5"]),
    ]


def test_an_update_that_changes_the_id_touches_both_ids(session: Session, feed: Reader) -> None:
    session.execute(FILL, [1, 2])
    feed.new()
    session.execute("update orders set id = id + 10")
    assert feed.touches() == [("U", ["1", "11", "12", "2"])]


def test_a_large_statement_is_cut_into_entries_of_bounded_size(
    session: Session, feed: Reader
) -> None:
    session.execute(FILL, [1, 10_000])
    entries = feed.new()
    assert [len(entry.keys) for entry in entries] == [250] * 40
    assert len({key for entry in entries for key in entry.keys}) == 10_000
    session.execute("select trunkline.config_set('tube.entry_keys', '3')")
    session.execute("delete from orders where id <= 7")
    assert [len(entry.keys) for entry in feed.new()] == [3, 3, 1]


def test_a_key_that_a_statement_meets_twice_is_in_the_tube_once(session: Session) -> None:
    session.execute("create table visit (page text not null, at int)")
    attach(session, "visit", key_columns=["page"])
    feed = Reader(session)
    session.execute("insert into visit values ('home', 1), ('home', 2), ('about', 3)")
    assert feed.touches() == [("I", ["about", "home"])]
    session.execute("update visit set at = at + 1")
    assert feed.touches() == [("U", ["about", "home"])]


# With the business transaction or not at all


def test_what_is_rolled_back_was_never_in_the_tube(session: Session, feed: Reader) -> None:
    with session.transaction(force_rollback=True):
        session.execute("insert into orders values (1)")
    with session.transaction():
        session.execute("insert into orders values (2)")
        with session.transaction(force_rollback=True):
            session.execute("insert into orders values (3)")
        with session.transaction():
            session.execute("insert into orders values (4)")
    assert feed.touches() == [("I", ["2"]), ("I", ["4"])]


def test_an_open_transaction_delays_its_own_touches_and_nobody_elses(
    session: Session, feed: Reader, connect: Callable[..., Session]
) -> None:
    slow = connect(autocommit=False)
    slow.execute("insert into orders values (1)")
    session.execute("insert into orders values (2)")
    assert feed.keys() == ["2"]
    slow.commit()
    assert feed.keys() == ["1"]


def test_a_prepared_transaction_touches_when_it_is_committed(
    session: Session, feed: Reader
) -> None:
    for number, gid in ((1, "kept"), (2, "dropped")):
        session.execute("begin")
        session.execute("insert into orders values (%s)", [number])
        session.execute(f"prepare transaction '{gid}'")
    assert feed.new() == []
    session.execute("commit prepared 'kept'")
    session.execute("rollback prepared 'dropped'")
    assert feed.keys() == ["1"]


def test_no_writer_waits_for_another_when_a_new_life_of_the_server_is_first_seen(
    two_sessions: TwoSessions,
) -> None:
    """After a failover the first writers must not queue behind whoever notes it."""
    a, b, watcher = two_sessions.a, two_sessions.b, two_sessions.watcher
    watcher.execute("create table orders (id int primary key)")
    ensure(watcher)
    attach(watcher)
    watcher.execute("select trunkline.incarnation()")
    watcher.execute("update trunkline.incarnation set timeline = timeline + 7")
    a.execute("insert into orders values (1)")
    b.execute("set lock_timeout = '1ms'")
    b.execute("insert into orders values (2)")
    b.commit()
    tick(watcher)
    a.commit()
    tick(watcher)
    assert [entry.keys for entry in read(watcher)] == [["2"], ["1"]]


# Conditions


@pytest.fixture
def paid(session: Session) -> Reader:
    """Only orders of the tube's and of the table's condition."""
    ensure(session, condition="status = 'paid'")
    attach(session, condition="total > 0")
    return Reader(session)


def test_rows_that_do_not_meet_the_condition_are_not_touched(
    session: Session, paid: Reader
) -> None:
    session.execute("insert into orders values (1, 'paid', 0, 1), (2, 'new', 0, 1)")
    session.execute("insert into orders values (3, 'paid', 0, 0), (4, null, null, null)")
    session.execute("delete from orders where id > 1")
    assert paid.touches() == [("I", ["1"])]


def test_a_row_that_enters_or_leaves_one_of_the_conditions_is_touched(
    session: Session, paid: Reader
) -> None:
    session.execute("insert into orders values (1, 'new', 0, 1), (2, 'paid', 0, 0)")
    for change in (
        "update orders set status = 'paid' where id = 1",  # enters
        "update orders set total = 0 where id = 1",  # leaves the table's condition
        "update orders set region = 5",  # outside before and after
        "update orders set total = 2 where id = 2",  # enters
        "update orders set status = 'sent'",  # 2 leaves the tube's condition
    ):
        session.execute(change)
    assert paid.touches() == [("U", ["1"]), ("U", ["1"]), ("U", ["2"]), ("U", ["2"])]


def test_a_condition_over_a_column_named_like_a_word_of_ours_is_about_the_column(
    session: Session,
) -> None:
    session.execute(
        "create table odd (id int primary key, keys int, shards int, image int, one int)"
    )
    attach(session, "odd", condition="keys > 1 and shards > 1 and image > 1 and one > 1")
    feed = Reader(session)
    session.execute("insert into odd values (1, 1, 1, 1, 1), (2, 2, 2, 2, 2)")
    assert feed.keys() == ["2"]


@pytest.mark.parametrize("condition", ["10 / total > 1", "status::int > 5", "total > 5 -- why not"])
def test_a_condition_that_fails_for_a_row_touches_it_and_judges_the_others(
    session: Session, condition: str
) -> None:
    attach(session, condition=condition)
    feed = Reader(session)
    session.execute("insert into orders values (1, '9', 0, 9), (2, 'x', 0, 0), (3, '1', 0, 12)")
    wanted = {"10 / total > 1": ["2"], "status::int > 5": ["1", "2"]}
    assert feed.keys() == wanted.get(condition, ["1", "3"])
    session.execute("update orders set region = 1")
    assert feed.keys() == wanted.get(condition, ["1", "3"])


def test_a_condition_is_text_and_nothing_more(session: Session) -> None:
    """Neither quotes of any kind nor percent signs end it early."""
    condition = "status not in ('$trunkline$', '%s %I', 'it''s', $q$ ) $q$) --)"
    ensure(session, condition=condition)
    attach(session, condition=condition)
    feed = Reader(session)
    session.execute(
        "insert into orders values (1, 'it''s'), (2, '%s %I'), (3, '$trunkline$'), (4, null)"
    )
    session.execute("insert into orders values (5, 'its'), (6, '%')")
    assert feed.keys() == ["5", "6"]
    assert ask(session, "select condition from trunkline.tube_list()") == condition


# Shards


def test_a_computed_shard_divides_the_keys_of_a_statement(session: Session) -> None:
    attach(session, shard="region")
    feed = Reader(session)
    session.execute(FILL, [1, 6])
    assert feed.places() == [(0, "3"), (0, "6"), (1, "1"), (1, "4"), (2, "2"), (2, "5")]


def test_a_row_that_moves_to_another_shard_is_touched_in_both(session: Session) -> None:
    attachment = attach(session, shard="region")
    session.execute(FILL, [1, 2])
    feed = Reader(session)
    session.execute("update orders set region = 7 where id = 1")
    assert feed.places() == [(1, "1"), (7, "1")]
    assert documents(session, attachment, "1", shards=[1]) == {"1": None}
    assert documents(session, attachment, "1", shards=[7])["1"]["region"] == 7
    session.execute("update orders set id = 3, region = 8 where id = 1")
    assert feed.places() == [(7, "1"), (8, "3")]


def test_a_shard_that_is_null_negative_or_fails_is_0_and_the_others_stay(
    session: Session,
) -> None:
    attach(session, shard="100 / total - 1")
    feed = Reader(session)
    session.execute(
        "insert into orders (id, total) values (1, null), (2, -5), (3, 0), (4, 10), (5, 20)"
    )
    assert feed.places() == [(0, "1"), (0, "2"), (0, "3"), (4, "5"), (9, "4")]
    session.execute("update orders set total = 0 where id = 4")
    assert feed.places() == [(0, "4"), (9, "4")]


def test_a_condition_that_fails_does_not_move_rows_to_another_shard(session: Session) -> None:
    """The document of the row is in its shard; a touch elsewhere would leave it as it is."""
    attach(session, shard="region", condition="10 / total > 1")
    feed = Reader(session)
    session.execute("insert into orders values (1, '', 4, 0), (2, '', 5, 1), (3, '', 6, 100)")
    assert feed.places() == [(4, "1"), (5, "2")]


def test_one_table_in_two_tubes_and_one_id_in_two_shards_are_separate_touches(
    session: Session,
) -> None:
    session.execute("create table other (id int primary key)")
    ensure(session, "second")
    attach(session, shard="3")
    attach(session, "other", shard="4")
    attach(session, tube="second", shard="region")
    feed, second = Reader(session), Reader(session, "second")
    session.execute("insert into orders (id, region) values (1, 9)")
    session.execute("insert into other values (1)")
    assert [(entry.relation, entry.shard, entry.keys) for entry in feed.new()] == [
        ("orders", 3, ["1"]),
        ("other", 4, ["1"]),
    ]
    assert [(entry.relation, entry.shard, entry.keys) for entry in second.new()] == [
        ("orders", 9, ["1"])
    ]


# Keys


TEXTS = ["it's", 'a "b", {c}', "back\\slash", "ä\u2003\U0001f418", "", "NULL", "%s", "  x ", "a\nb"]
KEYS: list[tuple[str, list[Any]]] = [
    ("uuid", ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
    ("text", TEXTS),
    ("varchar(20)", TEXTS),
    ("char(5)", ["ab", "abcde"]),
    ("numeric(30, 3)", ["12345678901234567890.125"]),
    ("smallint", [-5]),
    ("date", ["2024-02-29", "infinity"]),
    ("timestamp", ["2024-02-29 12:00:00.000001"]),
    ("timestamptz", ["2024-02-29 12:00:00.5+03", "-infinity"]),
    ("bytea", [b"\x00\xff\\"]),
    ("boolean", [True]),
    ("inet", ["10.0.0.1/24"]),
    ("float8", [0.1, "NaN", "-Infinity", 1e300]),
    ("interval", ["1 day 02:03:04"]),
    ("int4range", ["[1,5)"]),
    ("daterange", ["[2024-02-29,2024-03-01)", "empty", "(,)", "[2024-02-29,infinity)"]),
    ("tsrange", ["(2024-02-29 12:00:00.5,2024-03-01]", "[2024-02-29,)"]),
    ("tstzrange", ["[2024-02-29 12:00+03,infinity]", "empty", "(-infinity,2024-02-29 12:00+00)"]),
    ("timestamptz[]", [["2024-02-29 12:00+00", "infinity"]]),
    ("text[]", [["a", 'b "c"', "{d}"], []]),
    ("jsonb", ['"a"', '{"a": [1, null]}', "null"]),
]


@pytest.mark.parametrize(("kind", "values"), KEYS, ids=[kind for kind, _ in KEYS])
def test_a_key_of_any_type_leads_back_to_its_row(
    session: Session, kind: str, values: list[Any]
) -> None:
    session.execute(f"create table one (k {kind} primary key, n int)")
    session.execute(f"create table two (k {kind}, l {kind}, n int, primary key (l, k))")
    first, second = attach(session, "one"), attach(session, "two")
    for attachment, table, marks in ((first, "one", "%s"), (second, "two", "%s, %s")):
        feed = Reader(session)
        for number, value in enumerate(values):
            row = [value] * marks.count("%s")
            session.execute(f"insert into {table} values ({marks}, {number})", row)
        keys = [key for entry in feed.new() for key in entry.keys]
        found = documents(session, attachment, *keys)
        assert [found[key]["n"] for key in keys] == list(range(len(values)))
        again = call(session, "tube_touch", tube=TUBE, relation=table, keys=keys)
        assert again == [(len(values),)]
        assert [key for entry in feed.new() for key in entry.keys] == keys


def test_the_text_of_a_key_does_not_depend_on_the_settings_of_the_writer(
    session: Session,
) -> None:
    """Or one row would be two documents."""
    session.execute(
        "create table moment (at timestamptz, day date, local timestamp, raw bytea,"
        " primary key (at, day, local, raw))"
    )
    session.execute("create domain instant as timestamptz")
    session.execute("create table tick (at instant primary key, n int)")
    attach(session, "moment")
    attachment = attach(session, "tick")
    feed = Reader(session)
    moment = (
        "insert into moment values ('2024-07-01 12:00+00', '2024-07-02', '2024-07-02 3:00', 'a')"
    )
    session.execute(moment)
    session.execute("insert into tick values ('2024-07-01 12:00+00', 1)")
    session.execute(
        "set timezone = 'Asia/Tokyo'; set datestyle = 'German, DMY'; set bytea_output = 'escape';"
        "set standard_conforming_strings = off; set backslash_quote = on"
    )
    session.execute("update moment set raw = raw")
    session.execute("update tick set n = 2")
    session.execute("set datestyle = 'ISO'")
    entries = feed.new()
    assert entries[0].keys == entries[2].keys
    assert entries[1].keys == entries[3].keys == ["2024-07-01T12:00:00Z"]
    assert documents(session, attachment, *entries[1].keys)[entries[1].keys[0]]["n"] == 2


STRANGE = (
    "set timezone = 'Asia/Tokyo'; set datestyle = 'German, DMY'; set bytea_output = 'escape';"
    "set intervalstyle = 'sql_standard'; set extra_float_digits = -5"
)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("float8", "0.30000000000000004"),
        ("real[]", "{0.1234567}"),
        ("interval", "1 day 02:03:04"),
        ("daterange", "[2024-07-01,2024-07-02)"),
        ("tsrange", "[2024-07-01 12:00,)"),
        ("tstzrange", "[2024-07-01 12:00+00,2024-07-02 12:00+00)"),
    ],
)
def test_a_row_has_one_key_whoever_writes_touches_or_backfills_it(
    session: Session, kind: str, value: str
) -> None:
    session.execute(f"create table one (k {kind} primary key, n int)")
    session.execute(f"create table two (k {kind}, l int, n int, primary key (l, k))")
    for table in ("one", "two"):
        attach(session, table)
        feed = Reader(session)
        session.execute(f"insert into {table} values (%s, 1)", [value])
        (key,) = feed.keys()
        backfill = schedule(session, relation=table)
        session.execute(STRANGE)
        session.execute(f"update {table} set n = 2")
        call(session, "tube_touch", tube=TUBE, relation=table, keys=[key])
        step(session, backfill)
        session.execute("reset all")
        assert feed.keys() == [key] * 3


def test_a_key_touched_by_hand_is_the_key_that_capture_writes(session: Session) -> None:
    session.execute("create table person (id uuid primary key)")
    session.execute("create table seat (hall text, n int, primary key (hall, n))")
    attach(session)
    attach(session, "person")
    attach(session, "seat")
    feed = Reader(session)
    session.execute("insert into seat values ('Süd \"1\"', 7)")
    (captured,) = feed.keys()
    upper = "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"
    call(session, "tube_touch", tube=TUBE, relation="orders", keys=["007", " 7", "7"])
    call(session, "tube_touch", tube=TUBE, relation="person", keys=[upper, upper.lower()])
    written = '["S\\u00fcd \\"1\\"",  7]'
    call(session, "tube_touch", tube=TUBE, relation="seat", keys=[written, captured])
    assert [entry.keys for entry in feed.new()] == [["7"], [upper.lower()], [captured]]
    for relation, rubbish in (("orders", "x"), ("seat", "7"), ("seat", "{"), ("person", "1")):
        with refused("TL422"):
            call(session, "tube_touch", tube=TUBE, relation=relation, keys=[rubbish])
    assert feed.new() == []


# Names


def test_any_name_of_schema_table_and_column_will_do(session: Session) -> None:
    session.execute('create schema "My % Schema"')
    names = ["select", "Mixed Case", "100%", 'quo"te', "new_rows", "it's", "table"]
    for number, name in enumerate(names):
        quoted = ask(session, "select quote_ident(%s)", [name])
        table = f'"My % Schema".{quoted}'
        plain = table.replace("%", "%%")
        session.execute(f"create table {plain} ({quoted.replace('%', '%%')} int primary key)", [])
        attachment = attach(
            session, table, shard=f"{quoted} + 5", condition=f"{quoted} > 0 and r.{quoted} < 9"
        )
        feed = Reader(session)
        session.execute(f"insert into {plain} values (%s), (0)", [number + 1])
        (entry,) = feed.new()
        assert (entry.relation, entry.shard, entry.keys) == (table, number + 6, [str(number + 1)])
        assert documents(session, attachment, str(number + 1)) == {
            str(number + 1): {name: number + 1}
        }
        backfill = schedule(session, relation=table, order_by=name)
        finish(session, backfill)
        assert feed.places() == [(number + 6, str(number + 1))]


def test_the_name_of_a_table_is_the_same_whatever_the_search_path(session: Session) -> None:
    """Documents are kept under it: tables of two schemas must not share one."""
    session.execute("create schema north; create schema south")
    for place in ("north", "south"):
        session.execute(f"create table {place}.stock (id int primary key)")
        session.execute(f"set search_path = {place}")
        attach(session, "stock")
    feed = Reader(session)
    session.execute("insert into south.stock values (1); insert into north.stock values (1)")
    assert [entry.relation for entry in feed.new()] == ["south.stock", "north.stock"]


def test_a_table_is_attached_alike_by_who_quotes_all_identifiers(session: Session) -> None:
    session.execute("create table visit (day date, raw bytea, primary key (day, raw))")
    session.execute("set quote_all_identifiers = on")
    (quoted,) = call(session, "tube_attach", tube=TUBE, relation="visit")
    feed = Reader(session)
    session.execute("insert into visit values ('2024-07-01', 'a')")
    session.execute("reset quote_all_identifiers")
    assert [(entry.relation, entry.keys) for entry in feed.new()] == [
        ("visit", ['["2024-07-01", "\\\\x61"]'])
    ]
    (plain,) = call(session, "tube_attach", tube=TUBE, relation="visit")
    assert plain[3:] == quoted[3:]


def test_a_renamed_or_moved_table_is_captured_under_the_name_it_had(session: Session) -> None:
    """Its documents stay where they are."""
    attachment = attach(session, shard="region", condition="total > 0")
    feed = Reader(session)
    session.execute("create schema archive")
    session.execute("alter table orders rename to old_orders")
    session.execute("alter table old_orders set schema archive")
    with psycopg.connect(session.info.dsn, autocommit=True) as fresh:
        fresh.execute("insert into archive.old_orders values (1, 'new', 3, 5)")
    (entry,) = feed.new()
    assert (entry.relation, entry.shard, entry.keys) == ("orders", 3, ["1"])
    assert documents(session, attachment, "1")["1"]["total"] == 5
    ensure(session, condition="status = 'new'")
    session.execute("insert into archive.old_orders values (2, 'paid', 3, 5), (3, 'new', 3, 5)")
    assert feed.keys() == ["3"]
    call(session, "tube_detach", tube=TUBE, relation="archive.old_orders")
    assert column(session, "select proname from pg_proc where proname ~ '^trunkline_tube_'") == []


def test_a_moved_table_takes_its_function_along_when_it_is_attached_again(session: Session) -> None:
    session.execute(
        "create schema old; create schema new; create table old.orders (id int primary key)"
    )
    attach(session, "old.orders")
    feed = Reader(session)
    session.execute("alter table old.orders set schema new")
    attach(session, "new.orders")
    session.execute("drop schema old")
    session.execute("insert into new.orders values (1)")
    assert feed.keys() == ["1"]


def test_a_table_whose_function_went_with_a_schema_has_a_gap_and_holds_up_no_other(
    session: Session,
) -> None:
    session.execute(
        "create schema old; create schema new; create table old.orders (id int primary key)"
    )
    session.execute("create table parted (id int primary key) partition by list (id)")
    attachment = attach(session, "old.orders")
    attach(session, "parted")
    feed = Reader(session)
    session.execute("alter table old.orders set schema new; drop schema old cascade")
    session.execute("create table part partition of parted for values in (7)")
    while call(session, "tube_tables_check")[0][0]:
        pass
    session.execute("insert into part values (7)")
    assert feed.keys() == ["7"]
    gap = "select error from trunkline.tube_gap where attachment = %s"
    assert "has lost its triggers and their function" in ask(session, gap, [attachment])
    attach(session, "new.orders")
    session.execute("insert into new.orders values (1)")
    assert feed.keys() == ["1"]


def test_a_renamed_key_column_refuses_writes_until_the_table_is_attached_again(
    session: Session, feed: Reader
) -> None:
    session.execute("alter table orders rename id to number")
    for condition in (None, "total is null"):
        with refused("TL409") as caught:
            session.execute("insert into orders values (1)")
        assert 'tube "feed"' in str(caught.value)
        assert "tube_attach('feed', 'orders')" in str(caught.value.diag.message_hint)
        attach(session, condition=condition)
        session.execute("alter table orders rename number to id")
        attach(session)
        session.execute("alter table orders rename id to number")
    attach(session)
    session.execute("insert into orders values (1)")
    assert feed.keys() == ["1"]


def test_a_renamed_key_column_is_a_gap_for_a_table_that_prefers_gaps(session: Session) -> None:
    attach(session, on_error="gap")
    session.execute("alter table orders rename id to number")
    session.execute("insert into orders values (1)")
    assert gaps(session) == 1


def test_a_renamed_column_of_the_condition_touches_anyway(session: Session) -> None:
    attach(session, condition="total > 5")
    feed = Reader(session)
    session.execute("alter table orders rename total to amount")
    session.execute("insert into orders values (1, '', 0, 1)")
    assert feed.keys() == ["1"]


def test_a_column_that_is_added_dropped_or_widened_does_not_disturb(session: Session) -> None:
    attachment = attach(session, condition="10 / total > 0")
    feed = Reader(session)
    session.execute("insert into orders values (1, '', 0, 1)")
    session.execute("alter table orders drop column region, add column note text default 'x'")
    session.execute("alter table orders alter column id type numeric")
    session.execute("insert into orders values (99999999999999999999, '', 1), (5, '', 0)")
    assert feed.keys() == ["1", "5", "99999999999999999999"]
    found = documents(session, attachment, "99999999999999999999")
    assert found["99999999999999999999"]["note"] == "x"


def test_stored_generated_columns_count_and_virtual_ones_are_refused(session: Session) -> None:
    """Triggers see virtual columns as NULL: such a condition would lose rows."""
    session.execute(
        "create table sum (id int primary key, a int, b int,"
        " c int generated always as (a + b) stored not null)"
    )
    attach(session, "sum", shard="c", condition="c > 5")
    feed = Reader(session)
    session.execute("insert into sum values (1, 1, 1), (2, 3, 4)")
    assert feed.places() == [(7, "2")]
    attach(session, "sum", key_columns=["c"])
    session.execute("insert into sum values (3, 5, 5)")
    assert feed.keys() == ["10"]
    if session.info.server_version < 180000:
        return
    session.execute("alter table sum add v int generated always as (a * 2)")
    for settings in ({"condition": "v > 2"}, {"shard": "v"}, {"key_columns": ["v"]}):
        with refused("TL422"):
            attach(session, "sum", **settings)


# Truncate and drop


def test_truncate_is_a_control_entry_and_cascades(session: Session) -> None:
    session.execute("create table item (id int primary key, order_id bigint references orders)")
    attach(session, shard="6")
    attach(session, "item", shard="7", on_error="gap")
    feed = Reader(session)
    session.execute("truncate orders cascade")
    assert sorted(feed.controls()) == [("truncate", 6), ("truncate", 7)]
    with session.transaction(force_rollback=True):
        session.execute("truncate item")
    assert feed.new() == []


def test_a_truncate_of_computed_shards_reaches_every_lane(session: Session) -> None:
    ensure(session, lanes=3)
    attach(session, shard="region")
    feed = Reader(session)
    session.execute("truncate orders")
    assert feed.controls() == [("truncate", 0), ("truncate", 1), ("truncate", 2)]


def test_a_dropped_table_leaves_the_tube_as_after_a_truncate(session: Session) -> None:
    attachment = attach(session)
    feed = Reader(session)
    session.execute("insert into orders values (1)")
    session.execute("drop table orders")
    assert documents(session, attachment, "1") == {"1": None}
    session.execute("call trunkline.maintain()")
    assert [(entry.op, entry.keys, entry.control) for entry in feed.new()] == [
        ("I", ["1"], None),
        ("T", [], "truncate"),
    ]
    assert call(session, "tube_list")[0][3] is None
    assert column(session, "select error from trunkline.duty where error is not null") == []
    assert column(session, "select proname from pg_proc where proname ~ '^trunkline_tube_'") == []


def test_a_table_that_takes_the_place_of_a_dropped_one_keeps_its_documents(
    session: Session,
) -> None:
    """What is left to check of the old table is answered by the new one."""
    old = attach(session)
    session.execute("drop table orders")
    session.execute("create table orders (id int primary key)")
    attach(session)
    session.execute("insert into orders values (1)")
    session.execute("call trunkline.maintain()")
    assert documents(session, old, "1", "2") == {"1": {"id": 1}, "2": None}


# Partitions and inheritance


@pytest.fixture
def partitioned(session: Session) -> Reader:
    session.execute(
        "create table event (id int, at int, note text, primary key (id, at))"
        " partition by range (at);"
        "create table event_a partition of event for values from (0) to (10);"
        "create table event_b (note text, at int not null, extra int, id int not null);"
        "alter table event_b drop column extra;"
        "alter table event attach partition event_b for values from (10) to (20)"
    )
    attach(session, "event", condition="at >= 0 and 10 / (at - 5) is not null")
    return Reader(session)


def test_writes_to_a_partitioned_table_and_to_its_partitions_are_captured_once(
    session: Session, partitioned: Reader
) -> None:
    session.execute("insert into event values (1, 1), (2, 12)")
    session.execute("insert into event_b (id, at) values (3, 13)")
    session.execute("update event_a set note = 'x'")
    session.execute("delete from event where id = 3")
    assert partitioned.touches() == [
        ("I", ["[1, 1]", "[2, 12]"]),
        ("I", ["[3, 13]"]),
        ("U", ["[1, 1]"]),
        ("D", ["[3, 13]"]),
    ]


def test_a_row_that_moves_between_partitions_is_touched_under_both_keys(
    session: Session, partitioned: Reader
) -> None:
    session.execute("insert into event values (1, 1)")
    session.execute("update event set at = 11")
    assert partitioned.touches() == [("I", ["[1, 1]"]), ("U", ["[1, 11]", "[1, 1]"])]


def test_rows_of_any_partition_are_judged_one_by_one_when_a_condition_fails(
    session: Session, partitioned: Reader
) -> None:
    session.execute("insert into event values (1, 5), (2, 6), (3, 15)")
    session.execute("insert into event_b (id, at) values (4, 14)")
    session.execute("insert into event_a (id, at) values (5, 5), (6, 1)")
    assert partitioned.keys() == ["[1, 5]", "[2, 6]", "[3, 15]", "[4, 14]", "[5, 5]", "[6, 1]"]


@pytest.mark.parametrize("statement", ["truncate event", "truncate event_b"])
def test_truncating_a_partitioned_table_or_one_partition_is_captured(
    session: Session, partitioned: Reader, statement: str
) -> None:
    session.execute(statement)
    assert {control for control, _ in partitioned.controls()} == {"truncate"}


def test_maintenance_gives_new_partitions_their_triggers(
    session: Session, partitioned: Reader
) -> None:
    session.execute("create table event_c partition of event for values from (20) to (30)")
    session.execute("insert into event values (1, 21)")
    session.execute("delete from event where id = 1")
    session.execute("call trunkline.maintain()")
    session.execute("insert into event_c values (2, 22)")
    assert partitioned.keys() == ["[1, 21]", "[1, 21]", "[2, 22]"]
    assert gaps(session) == 0


def test_a_partition_that_comes_with_rows_is_a_gap_until_a_backfill(
    session: Session, partitioned: Reader
) -> None:
    session.execute("create table event_c (like event)")
    session.execute("insert into event_c values (2, 22)")
    session.execute("alter table event attach partition event_c for values from (20) to (30)")
    attach(session, "event", condition="at >= 0 and 10 / (at - 5) is not null")
    assert gaps(session) == 1
    finish(session, schedule(session))
    assert partitioned.keys() == ["[2, 22]"]
    assert gaps(session) == 0


def test_maintenance_closes_a_gap_by_a_backfill_and_not_again_and_again(session: Session) -> None:
    attach(session, on_error="gap")
    session.execute("alter table orders rename id to number")
    session.execute("insert into orders values (1)")
    session.execute("alter table orders rename number to id")
    session.execute("call trunkline.maintain()")
    session.execute("call trunkline.maintain()")
    scheduled = "select array_agg(backfill) from trunkline.tube_backfill"
    assert len(ask(session, scheduled)) == 1
    finish(session, ask(session, scheduled)[0])
    assert gaps(session) == 0
    session.execute("select trunkline._tube_note_gap(attachment, 'x') from trunkline.tube_table")
    session.execute("call trunkline.maintain()")
    assert len(ask(session, scheduled)) == 1
    session.execute("select trunkline.config_set('tube.gap_pause', '0')")
    session.execute("call trunkline.maintain()")
    assert len(ask(session, scheduled)) == 2


@pytest.mark.parametrize(
    "statement", ["drop table event_b", "alter table event detach partition event_b"]
)
def test_a_partition_that_leaves_has_the_documents_checked(
    session: Session, partitioned: Reader, statement: str
) -> None:
    session.execute(statement)
    session.execute("call trunkline.maintain()")
    session.execute("call trunkline.maintain()")
    assert partitioned.controls() == [("truncate", 0)]
    assert call(session, "tube_detach", tube=TUBE, relation="event") == [(True,)]
    assert column(session, "select tgname from pg_trigger where tgname ~ '^trunkline_tube_'") == []


def test_a_partition_whose_lock_is_held_gets_its_triggers_later(
    session: Session, partitioned: Reader, connect: Callable[..., Session]
) -> None:
    session.execute("create table event_c partition of event for values from (20) to (30)")
    writer = connect(autocommit=False)
    writer.execute("insert into event_c values (2, 22)")
    session.execute("select trunkline.config_set('maintain.lock_timeout', '5 milliseconds')")
    session.execute("call trunkline.maintain()")
    assert column(session, "select error from trunkline.duty where error is not null") == []
    writer.commit()
    session.execute("call trunkline.maintain()")
    assert gaps(session) == 1  # the row came directly, before the triggers
    session.execute("insert into event_c values (3, 23)")
    assert partitioned.keys() == ["[3, 23]"]


def test_children_by_inheritance_are_captured(session: Session) -> None:
    session.execute("create table animal (id int primary key, name text)")
    session.execute("create table dog (breed text) inherits (animal)")
    attachment = attach(session, "animal")
    feed = Reader(session)
    session.execute("insert into dog values (1, 'Rex', 'mutt')")
    session.execute("insert into animal values (2, 'Dumbo')")
    session.execute("update animal set name = upper(name)")
    session.execute("delete from animal where id = 1")
    session.execute("truncate dog")
    assert [(e.op, sorted(e.keys), e.control) for e in feed.new()] == [
        ("I", ["1"], None),
        ("I", ["2"], None),
        ("U", ["1", "2"], None),
        ("D", ["1"], None),
        ("T", [], "truncate"),
    ]
    assert documents(session, attachment, "2")["2"]["name"] == "DUMBO"


def test_what_writes_could_bypass_cannot_be_attached(session: Session) -> None:
    """A write to the parent does not fire the statement triggers of its parts."""
    session.execute(
        "create table whole (id int primary key) partition by range (id);"
        "create table part partition of whole for values from (0) to (10);"
        "create table animal (id int primary key);"
        "create table dog (primary key (id)) inherits (animal);"
        "create foreign data wrapper nothing; create server nowhere foreign data wrapper nothing;"
        "create table split (id int) partition by range (id);"
        "create foreign table far partition of split for values from (0) to (10) server nowhere;"
        "alter table split alter id set not null"
    )
    for relation in ("part", "dog"):
        with refused("TL422") as caught:
            attach(session, relation)
        assert "Attach " in (caught.value.diag.message_hint or "")
    with refused("TL422") as caught:
        attach(session, "split", key_columns=["id"])
    assert "far" in str(caught.value)


def test_a_table_that_became_a_part_of_another_has_a_gap(session: Session) -> None:
    session.execute("create table part (id int primary key)")
    attach(session, "part")
    session.execute(
        "create table whole (id int primary key) partition by range (id);"
        "alter table whole attach partition part for values from (0) to (10)"
    )
    for _ in range(2):
        session.execute("call trunkline.maintain()")
    assert gaps(session) == 1
    finish(session, schedule(session))
    session.execute("call trunkline.maintain()")
    assert gaps(session) == 1


@pytest.mark.parametrize("state", ["disable", "enable replica"])
def test_a_table_whose_triggers_are_disabled_has_a_gap_until_they_are_enabled(
    session: Session, feed: Reader, state: str
) -> None:
    for event in ("insert", "update", "delete", "truncate"):
        name = f"trunkline_tube_{ask(session, 'select max(attachment) from trunkline.tube_table')}"
        session.execute(f"alter table orders {state} trigger {name}_{event}")
    session.execute("insert into orders values (1)")
    for _ in range(2):
        session.execute("call trunkline.maintain()")
    assert (feed.keys(), gaps(session)) == ([], 1)
    assert ask(session, "select count(*) from trunkline.tube_backfill") == 0
    session.execute("alter table orders enable trigger user")
    session.execute("call trunkline.maintain()")
    finish(session, ask(session, "select max(backfill) from trunkline.tube_backfill"))
    assert (feed.keys(), gaps(session)) == (["1"], 0)
    session.execute("call trunkline.maintain()")
    assert gaps(session) == 0


# Priorities


def test_a_session_named_backfill_writes_backfill_touches(
    session: Session, feed: Reader, connect: Callable[..., Session]
) -> None:
    job = connect(application_name="some/backfill")
    job.execute("insert into orders values (1)")
    touch(job, "2", op="I")
    session.execute("insert into orders values (3)")
    tick(session)
    assert [(entry.op, entry.keys) for entry in read(session, priority=1)] == [
        ("I", ["1"]),
        ("I", ["2"]),
    ]
    assert [entry.keys for entry in read(session, priority=0)] == [["3"]]


def test_one_transaction_may_lower_its_priority(session: Session, feed: Reader) -> None:
    with session.transaction():
        session.execute("set local trunkline.priority = 'backfill'")
        session.execute("insert into orders values (1)")
    session.execute("insert into orders values (2)")
    tick(session)
    assert [entry.keys for entry in read(session, priority=1)] == [["1"]]
    assert [entry.keys for entry in read(session, priority=0)] == [["2"]]


# When capture fails

BROKEN = "alter table trunkline.tube_entry add constraint broken check (at is null) not valid"
MENDED = "alter table trunkline.tube_entry drop constraint broken"


def test_a_capture_that_fails_refuses_the_write(session: Session, feed: Reader) -> None:
    session.execute(BROKEN)
    for statement in ("insert into orders values (1)", "truncate orders"):
        with refused("23514"):
            session.execute(statement)
    session.execute(MENDED)
    assert ask(session, "select count(*) from orders") == 0
    assert feed.new() == []


def test_with_gaps_allowed_the_write_goes_through_and_a_backfill_closes_the_gap(
    session: Session,
) -> None:
    attach(session, on_error="gap")
    feed = Reader(session)
    session.execute(BROKEN)
    session.execute("insert into orders values (1)")
    session.execute("truncate orders")
    session.execute("insert into orders values (2)")
    assert (feed.new(), gaps(session)) == ([], 3)
    assert "broken" in ask(session, "select error from trunkline.tube_gap limit 1")
    session.execute(MENDED)
    session.execute("insert into orders values (3)")
    assert (feed.keys(), gaps(session)) == (["3"], 3)
    finish(session, schedule(session))
    assert (feed.keys(), gaps(session)) == (["2", "3"], 0)


def test_a_gap_stays_when_its_backfill_is_given_up_or_began_before_it(
    session: Session, connect: Callable[..., Session]
) -> None:
    attach(session, on_error="gap")
    session.execute(BROKEN)
    session.execute("insert into orders values (1)")
    late = connect(autocommit=False)
    late.execute("insert into orders values (2)")
    late.execute(MENDED)
    late.commit()
    assert gaps(session) == 2
    schedule(session)
    call(session, "tube_backfill_cancel", tube=TUBE)
    assert gaps(session) == 2
    backfill = schedule(session)
    session.execute(
        "insert into trunkline.tube_gap (attachment, error)"
        " select attachment, 'later' from trunkline.tube_table"
    )
    finish(session, backfill)
    assert gaps(session) == 1


# Attaching and detaching under load


def test_detaching_under_load_fails_no_write_and_loses_none_before_it(
    session: Session, feed: Reader, connect: Callable[..., Session]
) -> None:
    stop, ready = threading.Event(), threading.Barrier(5)

    def write(number: int) -> list[int]:
        writer, written = connect(), []
        ready.wait(10)
        while not stop.is_set():
            key = number + 10 * len(written)
            writer.execute("insert into orders (id) values (%s)", [key])
            written.append(key)
        return written

    with ThreadPoolExecutor(4) as threads:
        writers = [threads.submit(write, number) for number in range(4)]
        ready.wait(10)
        wait_until(lambda: ask(session, "select count(*) > 40 from orders"))
        call(session, "tube_detach", tube=TUBE, relation="orders")
        reached = ask(session, "select count(*) from orders")
        wait_until(lambda: ask(session, f"select count(*) > {reached} + 40 from orders"))
        stop.set()
        written = [writer.result(10) for writer in writers]
    captured = set(map(int, feed.keys()))
    for numbers in written:  # of each writer a first part was captured, and no more
        kept = [number in captured for number in numbers]
        assert kept == sorted(kept, reverse=True)
    assert 0 < len(captured) < sum(map(len, written))


def test_tubes_come_and_go_while_a_transaction_and_other_writers_go_on(
    session: Session, connect: Callable[..., Session]
) -> None:
    writer = connect(prepare_threshold=0)
    for number in range(3):
        writer.execute("insert into orders values (%s)", [10 * number])
        attach(session)
        feed = Reader(session)
        writer.execute("insert into orders values (%s)", [10 * number + 1])
        assert feed.keys() == [str(10 * number + 1)]
        call(session, "tube_detach", tube=TUBE, relation="orders")
        writer.execute("insert into orders values (%s)", [10 * number + 2])
        assert feed.new() == []


def test_attaching_waits_for_a_writer_in_small_tries(two_sessions: TwoSessions) -> None:
    """Others that write meanwhile wait behind one try at most, not behind the open transaction."""
    a, b, watcher = two_sessions.a, two_sessions.b, two_sessions.watcher
    watcher.execute("create table orders (id int primary key)")
    ensure(watcher)
    a.execute("insert into orders values (1)")
    attaching = two_sessions.later(b, "select trunkline.tube_attach('feed', 'orders')")
    two_sessions.blocked_by(a, b)
    watcher.execute("set lock_timeout = '5s'")
    for number in range(2, 6):
        watcher.execute("insert into orders values (%s)", [number])
    assert not attaching.done()
    a.commit()
    attaching.result(10)
    b.commit()
    watcher.execute("insert into orders values (9)")
    tick(watcher)
    assert [entry.keys for entry in read(watcher)] == [["9"]]


def test_attaching_gives_up_when_its_patience_is_over(
    session: Session, connect: Callable[..., Session]
) -> None:
    session.execute("select trunkline.config_set('tube.attach_patience', '0')")
    session.execute("select trunkline.config_set('tube.attach_lock_timeout', '5 milliseconds')")
    session.execute("set lock_timeout = '3s'")
    writer = connect(autocommit=False)
    writer.execute("insert into orders values (1)")
    with refused("TL409") as caught:
        attach(session)
    assert "orders" in str(caught.value)
    assert call(session, "tube_list", relation="orders") == []
    writer.commit()
    with session.transaction():
        attach(session)
        assert ask(session, "show lock_timeout") == "3s"


def test_locks_of_several_tables_are_taken_together_or_not_at_all(
    session: Session, connect: Callable[..., Session]
) -> None:
    """Whoever waits for the second table must not hold the first one meanwhile."""
    session.execute("create table item (id int primary key)")
    attach(session)
    attach(session, "item")
    writer, dropper = connect(autocommit=False), connect()
    writer.execute("insert into item values (1)")
    with ThreadPoolExecutor(1) as threads:
        dropping = threads.submit(call, dropper, "tube_drop", tube=TUBE, force=True)
        waits = "select %s = any (pg_blocking_pids(%s))"
        pids = [writer.info.backend_pid, dropper.info.backend_pid]
        wait_until(lambda: ask(session, waits, pids))
        writer.execute("set lock_timeout = '5s'")
        writer.execute("insert into orders values (1)")
        writer.commit()
        dropping.result(10)
    assert call(session, "tube_list") == []
