"""Watched tables: what is written is an event, with its transaction or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.broker.groups import received, subscribe
from tests.broker.steps import publish
from tests.broker.watching import ORDERS, Seen, watch
from tests.fixtures.asking import ask, call, refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.asking import Session
    from tests.fixtures.postgres import TwoSessions


@pytest.fixture
def orders(session: Session) -> Seen:
    """A watched table."""
    session.execute(ORDERS)
    watch(session)
    return Seen(session)


# What becomes of a statement


def test_an_insert_of_some_rows_is_an_event_for_each_in_order_with_the_whole_row(
    session: Session, orders: Seen
) -> None:
    session.execute("insert into orders values (2, 'b', null, 5), (1, 'a', 'x', null)")
    two, one = orders.new()
    assert (two.topic, two.key) == ("public.orders.insert", "2")
    assert two.payload == {"id": 2, "status": "b", "note": None, "total": 5}
    assert two.metadata == {"op": "insert", "table": "public.orders"}
    assert (one.key, one.payload["note"], one.payload["total"]) == ("1", "x", None)


def test_an_update_says_what_changed_and_the_key_and_keeps_the_old_row(
    session: Session, orders: Seen
) -> None:
    session.execute("insert into orders values (1, 'a', 'x', 3)")
    orders.new()
    session.execute("update orders set status = 'b', total = 3")
    (changed,) = orders.new()
    assert (changed.topic, changed.key) == ("public.orders.update", "1")
    assert changed.payload == {"id": 1, "status": "b"}
    assert changed.metadata == {
        "op": "update",
        "table": "public.orders",
        "old": {"id": 1, "status": "a", "note": "x", "total": 3},
    }


def test_w15_a_change_to_null_is_a_change(session: Session, orders: Seen) -> None:
    session.execute("insert into orders values (1, 'a', 'x', 3)")
    orders.new()
    session.execute("update orders set note = null")
    session.execute("update orders set status = null, total = 4")
    session.execute("update orders set note = 'y'")
    assert orders.brief() == [
        ("update", "1", {"id": 1, "note": None}),
        ("update", "1", {"id": 1, "status": None, "total": 4}),
        ("update", "1", {"id": 1, "note": "y"}),
    ]


def test_a_delete_is_the_old_row(session: Session, orders: Seen) -> None:
    session.execute("insert into orders values (1, 'a', null, 3), (2, 'b', null, 4)")
    orders.new()
    session.execute("delete from orders where id = 2")
    (gone,) = orders.new()
    assert (gone.topic, gone.key) == ("public.orders.delete", "2")
    assert gone.payload == {"id": 2, "status": "b", "note": None, "total": 4}
    assert gone.metadata == {"op": "delete", "table": "public.orders"}


def test_w15_a_truncate_is_an_event(session: Session, orders: Seen) -> None:
    session.execute("truncate orders")
    (emptied,) = orders.new()
    assert (emptied.topic, emptied.key, emptied.payload) == ("public.orders.truncate", None, {})


def test_what_changes_nothing_is_no_event(session: Session, orders: Seen) -> None:
    session.execute("insert into orders values (1, 'a', null, 3), (2, 'b', null, 4)")
    orders.new()
    for statement in (
        "update orders set status = status, note = null",
        "update orders set total = total + 0",
        "update orders set status = 'c' where false",
        "delete from orders where false",
        "insert into orders select * from orders where false",
        "insert into orders values (1) on conflict do nothing",
    ):
        session.execute(statement)
    assert orders.new() == []
    session.execute("update orders set status = case id when 2 then 'c' else status end")
    assert orders.outline() == [("update", "2")]


def test_copy_merge_and_upsert_are_seen(session: Session, orders: Seen) -> None:
    with session.cursor().copy("copy orders (id, total) from stdin") as copy:
        for number in (3, 1, 2):
            copy.write_row((number, number))
    assert orders.outline() == [("insert", "3"), ("insert", "1"), ("insert", "2")]
    session.execute(
        "insert into orders values (3), (4) on conflict (id) do update set status = 'again'"
    )
    assert sorted(orders.outline()) == [("insert", "4"), ("update", "3")]
    session.execute(
        "merge into orders o using (values (1), (2), (9)) v (id) on o.id = v.id"
        " when matched and v.id = 1 then delete"
        " when matched then update set status = 'merged'"
        " when not matched then insert (id) values (v.id)"
    )
    assert sorted(orders.outline()) == [("delete", "1"), ("insert", "9"), ("update", "2")]


def test_writes_by_a_foreign_key_and_inside_a_query_are_seen(session: Session) -> None:
    session.execute(ORDERS)
    session.execute(
        "create table item (id int primary key, order_id bigint references orders"
        " on delete cascade on update cascade)"
    )
    watch(session)
    watch(session, "item")
    seen = Seen(session)
    session.execute(
        "with placed as (insert into orders (id) values (1) returning id)"
        " insert into item select 10, id from placed"
    )
    assert {one.topic for one in seen.new()} == {"public.orders.insert", "public.item.insert"}
    session.execute("delete from orders")
    assert {(one.topic, one.key) for one in seen.new()} == {
        ("public.orders.delete", "1"),
        ("public.item.delete", "10"),
    }


# Order and transactions


def test_a_large_statement_keeps_its_order(session: Session, orders: Seen) -> None:
    session.execute("insert into orders select 1000 - g from generate_series(1, 950) g")
    inserted = orders.new()
    assert [one.payload["id"] for one in inserted] == [1000 - g for g in range(1, 951)]
    session.execute("update orders set total = id")
    assert [one.payload for one in orders.new()] == [
        {"id": one.payload["id"], "total": one.payload["id"]} for one in inserted
    ]
    session.execute("delete from orders")
    assert len(orders.new()) == 950


@pytest.mark.parametrize("rows", [199, 200, 201, 400])
def test_a_statement_at_the_edge_of_a_part_gives_every_row_once(
    session: Session, orders: Seen, rows: int
) -> None:
    session.execute("insert into orders select g from generate_series(1, %s) g", [rows])
    assert orders.outline() == [("insert", str(n)) for n in range(1, rows + 1)]
    session.execute("update orders set total = 1")
    assert orders.outline() == [("update", str(n)) for n in range(1, rows + 1)]


def test_n1_what_is_rolled_back_was_never_an_event(session: Session, orders: Seen) -> None:
    with session.transaction(force_rollback=True):
        session.execute("insert into orders values (1)")
    with session.transaction():
        session.execute("insert into orders values (2)")
        with session.transaction(force_rollback=True):
            session.execute("insert into orders values (3)")
        session.execute("insert into orders values (4)")
    assert orders.outline() == [("insert", "2"), ("insert", "4")]


def test_an_open_transaction_delays_its_own_events_and_nobody_elses(
    session: Session, orders: Seen, other: Session
) -> None:
    other.execute("insert into orders values (1)")
    session.execute("insert into orders values (2)")
    assert orders.outline() == [("insert", "2")]
    other.commit()
    assert orders.outline() == [("insert", "1")]


def test_two_writers_of_one_row_are_in_the_order_in_which_they_had_it(
    two_sessions: TwoSessions,
) -> None:
    """The one who comes second waits for the row, and publishes after that."""
    a, b, watcher = two_sessions.a, two_sessions.b, two_sessions.watcher
    watcher.execute(ORDERS)
    watch(watcher)
    watcher.execute("insert into orders values (1, '', '', 0)")
    seen = Seen(watcher)
    b.execute("select pg_current_xact_id()")  # the older transaction writes last
    a.execute("update orders set total = total + 1")
    waiting = two_sessions.later(b, "update orders set total = total * 10")
    two_sessions.blocked_by(a, b)
    a.commit()
    waiting.result(10)
    b.commit()
    assert [one.payload["total"] for one in seen.new()] == [1, 10]


def test_events_of_tables_and_published_ones_keep_their_order(
    session: Session, orders: Seen
) -> None:
    with session.transaction():
        publish(session, "before")
        session.execute("insert into orders values (1)")
        publish(session, "after")
    assert [one.topic for one in orders.new()] == ["before", "public.orders.insert", "after"]


def test_a_trace_goes_along(session: Session, orders: Seen) -> None:
    with session.transaction():
        session.execute("set local trunkline.traceparent = '00-aa-bb-01'")
        session.execute("insert into orders values (1)")
    (one,) = orders.new()
    assert one.metadata["traceparent"] == "00-aa-bb-01"


def test_a21_a_group_gets_the_events_until_the_table_is_unwatched(session: Session) -> None:
    session.execute(ORDERS)
    watch(session)
    subscribe(session, condition={"topic": "public.orders.*"})
    session.execute("insert into orders (id, status) values (1, 'a')")
    session.execute("update orders set status = 'b'")
    session.execute("delete from orders")
    assert [sorted(payload) for payload in received(session)] == [
        ["id", "note", "status", "total"],
        ["id", "status"],
        ["id", "note", "status", "total"],
    ]
    assert call(session, "broker_unwatch", relation="orders") == [(True,)]
    session.execute("insert into orders values (2)")
    assert len(received(session)) == 3


def test_fifteen_hundred_rows_of_100_kb_in_one_transaction_are_events(
    session: Session, orders: Seen
) -> None:
    """In parts: neither the server's memory nor the largest value it can hold is the limit."""
    with session.transaction():
        session.execute(
            "insert into orders select g, 'new', repeat(chr(65 + g % 26), 100000), g"
            " from generate_series(1, 1500) g"
        )
    found = ask(
        session,
        "select array[count(*), sum(length(payload ->> 'note')), count(distinct key)]"
        " from trunkline.event",
    )
    assert found == [1500, 150_000_000, 1500]


# Keys


def test_a_changed_primary_key_is_a_delete_and_an_insert_that_name_each_other(
    session: Session, orders: Seen
) -> None:
    session.execute("insert into orders values (1, 'a', null, 3)")
    orders.new()
    session.execute("update orders set id = 7, status = 'b'")
    gone, come = orders.new()
    assert (gone.topic, gone.key) == ("public.orders.delete", "1")
    assert gone.payload == {"id": 1, "status": "a", "note": None, "total": 3}
    assert gone.metadata == {"op": "update", "table": "public.orders", "new_key": "7"}
    assert (come.topic, come.key) == ("public.orders.insert", "7")
    assert come.payload == {"id": 7, "status": "b", "note": None, "total": 3}
    assert come.metadata == {
        "op": "update",
        "table": "public.orders",
        "old_key": "1",
        "old": {"id": 1, "status": "a", "note": None, "total": 3},
    }


def test_rows_that_take_each_others_keys_leave_what_is_in_the_table(session: Session) -> None:
    """Whoever applies the events in order must not delete what has just come."""
    session.execute("create table seat (n int primary key deferrable, who text)")
    watch(session, "seat")
    seen = Seen(session)
    session.execute("insert into seat values (1, 'a'), (2, 'b'), (3, 'c')")
    session.execute("update seat set n = n % 3 + 1")
    copy = {}
    for kind, key, payload in seen.brief():
        if kind == "delete":
            del copy[key]
        else:
            copy[key] = payload["who"]
    assert copy == {"2": "a", "3": "b", "1": "c"}


def test_a_key_of_several_columns_is_a_json_array(session: Session) -> None:
    session.execute("create table seat (hall text, n int, who text, primary key (n, hall))")
    watch(session, "seat")
    seen = Seen(session)
    session.execute("insert into seat values ('Süd \"1\"', 7, 'me')")
    session.execute("update seat set who = 'you'")
    assert seen.brief() == [
        ("insert", '[7, "Süd \\"1\\""]', {"hall": 'Süd "1"', "n": 7, "who": "me"}),
        ("update", '[7, "Süd \\"1\\""]', {"hall": 'Süd "1"', "n": 7, "who": "you"}),
    ]


def test_a_table_without_a_primary_key_has_events_without_a_key(session: Session) -> None:
    session.execute("create table visit (page text, at int)")
    watch(session, "visit")
    seen = Seen(session)
    session.execute("insert into visit values ('home', 1), ('home', 1), (null, 2)")
    session.execute("update visit set at = 3 where page is null")
    session.execute("delete from visit where page = 'home'")
    assert seen.brief() == [
        ("insert", None, {"page": "home", "at": 1}),
        ("insert", None, {"page": "home", "at": 1}),
        ("insert", None, {"page": None, "at": 2}),
        ("update", None, {"at": 3}),
        ("delete", None, {"page": "home", "at": 1}),
        ("delete", None, {"page": "home", "at": 1}),
    ]


def test_a_key_that_is_too_long_is_told_by_its_digest(session: Session) -> None:
    """A write must not fail because of what becomes of it."""
    session.execute("create table word (word text primary key)")
    watch(session, "word")
    seen = Seen(session)
    session.execute("insert into word values (repeat('a', 1000)), (repeat('a', 1001))")
    whole, digest = seen.new()
    assert whole.key == "a" * 1000
    assert digest.key == ask(
        session, "select encode(sha256(convert_to(repeat('a', 1001), 'UTF8')), 'hex')"
    )
    assert digest.payload == {"word": "a" * 1001}


def test_what_is_written_does_not_depend_on_the_settings_of_the_writer(session: Session) -> None:
    session.execute(
        "create table moment (at timestamptz primary key, lasts interval, raw bytea,"
        " days daterange, n int)"
    )
    watch(session, "moment")
    seen = Seen(session)
    row = "('2024-07-01 12:00+00', '1 day 2:00', 'a', '[2024-07-02,2024-07-04)', 1)"
    session.execute(f"insert into moment values {row}")
    session.execute(
        "set timezone = 'Asia/Tokyo'; set datestyle = 'German, DMY'; set bytea_output = 'escape';"
        "set intervalstyle = 'postgres_verbose'"
    )
    session.execute("delete from moment")
    session.execute("set datestyle = 'ISO'")
    inserted, deleted = seen.new()
    assert (deleted.key, deleted.payload) == (inserted.key, inserted.payload)
    assert inserted.key == "2024-07-01T12:00:00Z"
    assert inserted.payload["at"] == "2024-07-01T12:00:00+00:00"


def test_numbers_do_not_depend_on_the_digits_that_the_writer_shows(session: Session) -> None:
    session.execute("create table measure (at float8 primary key, value real)")
    watch(session, "measure")
    seen = Seen(session)
    session.execute("set extra_float_digits = -10")
    session.execute("insert into measure values (0.1234567890123456, 0.25)")
    assert seen.brief() == [
        ("insert", "0.1234567890123456", {"at": 0.1234567890123456, "value": 0.25})
    ]


# What is chosen


@pytest.mark.parametrize("operation", ["insert", "update", "delete", "truncate"])
def test_n2_only_what_is_chosen_is_an_event(session: Session, operation: str) -> None:
    session.execute(ORDERS)
    every = ("insert", "update", "delete", "truncate")
    watch(session, **{f"on_{one}": one == operation for one in every})
    seen = Seen(session)
    session.execute("insert into orders values (1)")
    session.execute("update orders set status = 'a'")
    session.execute("delete from orders")
    session.execute("truncate orders")
    assert [kind for kind, _ in seen.outline()] == [operation]


def test_n2_chosen_columns_are_all_that_is_told_and_all_that_counts(session: Session) -> None:
    session.execute(ORDERS)
    watch(session, columns=["total", "status"])
    seen = Seen(session)
    session.execute("insert into orders values (1, 'a', 'secret', 3)")
    session.execute("update orders set note = 'other'")
    session.execute("update orders set note = null, status = null")
    session.execute("delete from orders")
    found = seen.new()
    assert [one.payload for one in found] == [
        {"id": 1, "status": "a", "total": 3},
        {"id": 1, "status": None},
        {"id": 1, "status": None, "total": 3},
    ]
    assert found[1].metadata["old"] == {"id": 1, "status": "a", "total": 3}


def test_n2_rows_that_do_not_meet_the_condition_are_no_events(session: Session) -> None:
    session.execute(ORDERS)
    watch(session, condition="status = 'paid' and r.total > 0")
    seen = Seen(session)
    session.execute(
        "insert into orders values (1, 'paid', '', 1), (2, 'new', '', 1), (3, null, '', 1)"
    )
    session.execute("update orders set note = 'x'")
    session.execute("delete from orders")
    assert seen.outline() == [("insert", "1"), ("update", "1"), ("delete", "1")]


def test_f11_a_row_that_enters_the_condition_comes_and_one_that_leaves_it_goes(
    session: Session,
) -> None:
    session.execute(ORDERS)
    watch(session, condition="total > 0")
    session.execute("insert into orders values (1, 'a', null, 0)")
    seen = Seen(session)
    for total in (5, 6, 0, -1):
        session.execute("update orders set total = %s", [total])
    entered, changed, left = seen.new()
    assert (entered.topic, entered.metadata["op"]) == ("public.orders.insert", "update")
    assert entered.payload == {"id": 1, "status": "a", "note": None, "total": 5}
    assert (changed.topic, changed.payload) == ("public.orders.update", {"id": 1, "total": 6})
    assert (left.topic, left.metadata["op"]) == ("public.orders.delete", "update")
    assert left.payload["total"] == 6


def test_a_condition_over_columns_named_like_words_of_ours_is_about_the_columns(
    session: Session,
) -> None:
    session.execute(
        "create table odd (id int primary key, keys int, n int, key int, image int, seen int,"
        " base int, part int, tg_op int)"
    )
    watch(
        session,
        "odd",
        condition="keys + n + key + image + seen + base + part + tg_op > 8",
        columns=["keys", "tg_op"],
    )
    seen = Seen(session)
    session.execute("insert into odd select 1, 1, 1, 1, 1, 1, 1, 1, 1")
    session.execute("insert into odd select 3, 2, 2, 2, 2, 2, 2, 2, 2")
    session.execute("update odd set tg_op = 9 where id = 3")
    assert seen.brief() == [
        ("insert", "3", {"id": 3, "keys": 2, "tg_op": 2}),
        ("update", "3", {"id": 3, "tg_op": 9}),
    ]


def test_a_condition_is_text_and_nothing_more(session: Session) -> None:
    """Neither quotes of any kind nor percent signs end it early."""
    session.execute(ORDERS)
    condition = "status not in ('$trunkline$', '%s %I', 'it''s', $q$ ) $q$) --)"
    watch(session, condition=condition)
    seen = Seen(session)
    session.execute(
        "insert into orders values (1, 'it''s'), (2, '%s %I'), (3, '$trunkline$'), (4, null)"
    )
    session.execute("insert into orders values (5, 'its'), (6, '%')")
    session.execute("update orders set note = '%s'")
    assert [key for _, key in seen.outline()] == ["5", "6", "5", "6"]
    assert ask(session, "select condition from trunkline.broker_watched()") == condition


@pytest.mark.parametrize(
    "condition", ["total > 0) or (true", "total > 0) r; drop table orders; select (true", "true /*"]
)
def test_a_condition_that_leaves_its_place_is_refused(session: Session, condition: str) -> None:
    session.execute(ORDERS)
    with refused("TL422"):
        watch(session, condition=condition)
    assert ask(session, "select count(*) from orders") == 0


@pytest.mark.parametrize("rows", [3, 450])
def test_a_condition_that_fails_for_a_row_gives_its_event_anyway_and_judges_the_others(
    session: Session, rows: int
) -> None:
    session.execute(ORDERS)
    watch(session, condition="10 / total > 1")
    seen = Seen(session)
    session.execute(
        "insert into orders select g, 's', null, case g when 1 then 1 when %s then 0 else 20 end"
        " from generate_series(1, %s) g",
        [rows, rows],
    )
    fine, failed = seen.new()
    assert (fine.key, fine.metadata) == ("1", {"op": "insert", "table": "public.orders"})
    assert (failed.key, failed.payload["total"]) == (str(rows), 0)
    assert failed.metadata["error"] == "division by zero"
    session.execute("update orders set note = 'x'")
    assert seen.outline() == [("update", "1"), ("update", str(rows))]
    session.execute("delete from orders where id in (2, %s)", [rows])
    (gone,) = seen.new()
    assert (gone.key, gone.metadata["error"]) == (str(rows), "division by zero")


def test_f15_an_unwatched_table_pays_nothing(
    session: Session, orders: Seen, connect: Callable[..., Session]
) -> None:
    """No trigger, no function, nothing to check: the table is as it was before."""
    session.execute("create table bare (id int primary key)")
    call(session, "broker_unwatch", relation="orders")
    for table in ("orders", "bare"):
        assert (
            ask(session, f"select count(*) from pg_trigger where tgrelid = '{table}'::regclass")
            == 0
        )
    connect().execute("insert into bare values (1)")
    assert orders.new() == []
