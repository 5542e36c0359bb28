"""Who may watch, who may write, as whom conditions run; and who waits for whom."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.broker.steps import events, tick
from tests.broker.watching import ORDERS, Seen, watch
from tests.fixtures.asking import call, column, connections, refused, writing_nothing
from tests.fixtures.roles import login_roles, name_of, unprivileged

from trunkline.core import migrate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures.asking import Connect, Session
    from tests.fixtures.roles import Role

TRIGGERS = "select tgname from pg_trigger where tgname ~ '^trunkline_watch_' order by 1"
FUNCTIONS = "select proname from pg_proc where proname ~ '^trunkline_watch_' order by 1"


@pytest.fixture
def role(session: Session, connect: Connect) -> Iterator[Role]:
    session.execute(ORDERS)
    with login_roles(session, connect) as make:
        yield make


# Writers


def test_a_writer_needs_no_right_but_on_the_table(session: Session, role: Role) -> None:
    owner, writer = role("trunkline_writer", owns="orders"), role()
    watch(owner, condition="total is null or 10 / total > 1", columns=["status", "total"])
    seen = Seen(session)
    session.execute(
        f"grant insert, update, delete, truncate, select on orders to {name_of(writer)}"
    )
    writer.execute("insert into orders values (1), (2)")
    writer.execute("insert into orders values (3, 'fails', '', 0)")
    writer.execute("update orders set status = 'a' where id = 1")
    writer.execute("delete from orders where id = 2")
    writer.execute("truncate orders")
    assert seen.outline() == [
        ("insert", "1"),
        ("insert", "2"),
        ("insert", "3"),
        ("update", "1"),
        ("delete", "2"),
        ("truncate", None),
    ]


def test_without_rights_nobody_can_forge_an_event(session: Session, role: Role) -> None:
    owner, stranger = role("trunkline_writer", owns="orders"), role()
    number = watch(owner)
    session.execute(f"grant insert on orders to {name_of(stranger)}")
    stranger.execute("create table mine (id bigint primary key, status text, note text, total int)")
    for statement in (
        "select trunkline._broker_capture('public.orders.insert', '{}', '{1}', '{\"{}\"}')",
        "insert into trunkline.event (topic, payload) values ('public.orders.insert', '{}')",
        "create trigger t after insert on mine referencing new table as new_rows"
        f" for each statement execute function trunkline_watch_{number}()",
        "select * from trunkline.broker_watched_table",
        "delete from trunkline.broker_watched_table",
        "select trunkline.broker_watch('mine')",
    ):
        with refused("42501"):
            stranger.execute(statement)
    tick(session)
    assert events(session) == []


def test_conditions_run_as_the_owner_of_the_table_whoever_writes(
    session: Session, role: Role
) -> None:
    """Never as the owner of the schema; the answer does not depend on who writes."""
    owner, writer = role("trunkline_writer", owns="orders"), role()
    session.execute(f"grant insert, select on orders to {name_of(writer)}")
    owner.execute(
        "create table seen (who text); create function note() returns boolean language sql as"
        " $$ insert into public.seen values (current_user) returning true $$"
    )
    watch(owner, condition="note()")
    feed = Seen(session)
    writer.execute("insert into public.orders values (1)")
    session.execute("insert into orders values (2)")
    assert feed.outline() == [("insert", "1"), ("insert", "2")]
    assert column(session, "select distinct who from seen") == [name_of(owner)]


def test_what_a_writer_puts_in_front_deceives_nobody(session: Session, role: Role) -> None:
    owner, writer = role("trunkline_writer", owns="orders"), role()
    session.execute(f"grant insert on orders to {name_of(writer)}")
    owner.execute("create function wanted(int) returns boolean language sql as 'select true'")
    watch(owner, condition="wanted(total)")
    seen = Seen(session)
    for table in ("event", "ring", "config", "new_rows"):
        writer.execute(f"create temp table {table} (x int)")
    writer.execute(
        "create function pg_temp.wanted(int) returns boolean language sql as 'select false';"
        "create function pg_temp.to_jsonb(anyelement) returns jsonb language sql as"
        " $$ select '{}'::jsonb $$"
    )
    writer.execute("set search_path = pg_temp, public, pg_catalog")
    writer.execute("insert into public.orders values (1, 'a')")
    assert seen.brief() == [("insert", "1", {"id": 1, "status": "a", "note": None, "total": None})]


# Owners


def test_only_the_owner_of_a_table_watches_and_unwatches_it(session: Session, role: Role) -> None:
    owner = role("trunkline_writer", owns="orders")
    other = role("trunkline_writer")
    friend = role("trunkline_writer", name_of(owner))
    session.execute(f"grant all on orders to {name_of(other)}")
    with refused("TL403") as caught:
        watch(other)
    assert name_of(owner) in str(caught.value)
    watch(friend)
    with refused("TL403"):
        call(other, "broker_unwatch", relation="orders")
    owned = (
        "select proowner::regrole::text, pronamespace::regnamespace::text from pg_proc"
        " where proname ~ '^trunkline_watch_'"
    )
    assert session.execute(owned).fetchall() == [(name_of(owner), "public")]
    session.execute("insert into orders values (1)")
    assert call(owner, "broker_unwatch", relation="orders") == [(True,)]
    assert column(session, FUNCTIONS) == []


def test_who_may_write_cannot_change_what_others_watch(session: Session, role: Role) -> None:
    owner, other = role("trunkline_writer", owns="orders"), role("trunkline_writer")
    number = watch(owner)
    for statement in (
        "select trunkline._broker_watch_end(%s)",
        "select trunkline._broker_watch_put((w.watch, w.relation, 'x', 'x', '{}', null, '{}',"
        " null, null, now())::trunkline.broker_watched_table)"
        " from trunkline.broker_watched() w where w.watch = %s",
    ):
        with refused("TL403"):
            other.execute(statement, [number])
    session.execute("call trunkline.maintain()")
    assert len(column(session, TRIGGERS)) == 4


def test_the_owner_of_a_table_must_be_allowed_to_publish(session: Session, role: Role) -> None:
    """Events are published for the owner, also when somebody mightier watches."""
    owner = role(owns="orders")
    with refused("TL403") as caught:
        watch(session)
    hint = caught.value.diag.message_hint or ""
    assert hint == f"Have a DBA run: grant trunkline_writer to {name_of(owner)};"
    session.execute(f"grant trunkline_writer to {name_of(owner)}")
    watch(session)
    session.execute("insert into orders values (1)")
    owner.execute("insert into orders values (2)")
    assert tick(session) == 2


def test_a_table_that_changes_hands_stays_watched(session: Session, role: Role) -> None:
    role("trunkline_writer", owns="orders")
    watch(session)
    seen = Seen(session)
    second = role("trunkline_writer", owns="orders")
    second.execute("insert into orders values (1)")
    watch(session)
    owned = "select proowner::regrole::text from pg_proc where proname ~ '^trunkline_watch_'"
    assert column(session, owned) == [name_of(second)]
    second.execute("insert into orders values (2)")
    assert seen.outline() == [("insert", "1"), ("insert", "2")]


def test_readers_see_what_is_watched_and_change_nothing(session: Session, role: Role) -> None:
    watch(session)
    reader = role("trunkline_reader", owns="orders")
    assert [row[3] for row in call(reader, "broker_watched")] == ["public.orders"]
    for name in ("broker_watch", "broker_unwatch"):
        with refused("42501"):
            call(reader, name, relation="orders")


def test_an_installation_without_superuser_watches_tables_of_others(bare_dsn: str) -> None:
    """Only what it may not do itself is left to the owner of the table, and said."""
    with unprivileged(bare_dsn) as (admin, installer, owner):
        admin.execute(f"set role {owner}")
        admin.execute("create table event (id int primary key) partition by range (id)")
        watch(admin, "event")
        admin.execute("create table event_a partition of event for values from (0) to (9)")
        admin.execute(f"set role {installer}")
        for _ in range(2):
            admin.execute("call trunkline.maintain()")
        assert column(admin, "select fault from trunkline.broker_watched()") == [
            "the triggers of public.event_a are not as they should be, and the owner of schema"
            " trunkline may not change them: its owner has to call broker_watch() again."
        ]
        assert column(admin, "select error from trunkline.duty where error is not null") == []
        admin.execute(f"set role {owner}")
        watch(admin, "event")
        admin.execute("insert into event_a values (1)")
        admin.execute(f"set role {installer}")
        assert tick(admin) == 1
        assert column(admin, "select fault from trunkline.broker_watched()") == [None]
        admin.execute("reset role")


# Locks, and watching again


SETTINGS: dict[str, Any] = {"columns": ["status"], "condition": "total > 5", "on_delete": False}


@pytest.mark.parametrize("more", ["", "add at timestamptz, add y bytea", "add f real"])
def test_n2_an_unchanged_call_writes_nothing_and_waits_for_nobody(
    session: Session, other: Session, more: str
) -> None:
    session.execute(ORDERS)
    if more:
        session.execute(f"alter table orders {more}")
    number = watch(session, **SETTINGS)
    other.execute("lock table orders in access exclusive mode")
    session.execute("set lock_timeout = '1ms'")
    with writing_nothing(session):
        assert watch(session, **SETTINGS) == number


def test_a_changed_condition_takes_no_lock_on_the_table(session: Session, other: Session) -> None:
    session.execute(ORDERS)
    watch(session)
    seen = Seen(session)
    other.execute("insert into orders (id, total) values (1, 1)")
    session.execute("set lock_timeout = '1ms'")
    watch(session, condition="total > 5")
    session.execute("insert into orders (id, total) values (2, 5), (3, 6)")
    other.commit()
    assert sorted(str(key) for _, key in seen.outline()) == ["1", "3"]


def test_operations_come_and_go_with_the_last_call(session: Session) -> None:
    session.execute(ORDERS)
    number = watch(session, on_update=False, on_delete=False, on_truncate=False)
    assert column(session, TRIGGERS) == [f"trunkline_watch_{number}_insert"]
    assert watch(session, on_insert=False) == number
    names = ("delete", "truncate", "update")
    assert column(session, TRIGGERS) == [f"trunkline_watch_{number}_{name}" for name in names]
    assert call(session, "broker_unwatch", relation="orders") == [(True,)]
    assert call(session, "broker_unwatch", relation="orders") == [(False,)]
    assert column(session, TRIGGERS) == column(session, FUNCTIONS) == []


def test_a_table_in_use_is_watched_in_small_tries_or_refused(
    session: Session, other: Session, connect: Callable[..., Session]
) -> None:
    session.execute(ORDERS)
    session.execute("select trunkline.config_set('broker.watch_patience', '100 milliseconds')")
    session.execute("select trunkline.config_set('broker.watch_lock_timeout', '5 milliseconds')")
    other.execute("insert into orders values (1)")
    with refused("TL409") as caught:
        watch(session)
    assert "broker.watch_patience" in (caught.value.diag.message_hint or "")
    assert call(session, "broker_watched") == []
    third = connect()
    third.execute("set lock_timeout = '1s'")
    third.execute("insert into orders values (2)")
    other.commit()
    watch(session)


def test_watching_twice_at_once_is_harmless(
    session: Session, connect: Callable[..., Session]
) -> None:
    session.execute(ORDERS)

    def make(number: int) -> int:
        return watch(connect(), condition=f"total > {number % 2}")

    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(make, range(8)))) == 1
    assert len(column(session, TRIGGERS)) == 4
    session.execute("insert into orders (id, total) values (1, 5)")
    assert tick(session) == 1


@pytest.mark.parametrize(
    "given",
    [
        {"columns": ["nonsense"]},
        {"columns": []},
        {"condition": "nonsense > 1"},
        {"condition": "total"},
        {"condition": "count(*) > 1"},
        {"condition": "true; drop table orders"},
        {"on_insert": False, "on_update": False, "on_delete": False, "on_truncate": False},
        {"on_insert": None, "on_update": None, "on_delete": None, "on_truncate": None},
        {"relation": None},
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused_in_words_and_leaves_nothing(
    session: Session, given: dict[str, Any]
) -> None:
    session.execute(ORDERS)
    with refused("TL422"):
        watch(session, **{"relation": "orders", **given})
    assert call(session, "broker_watched") == []
    assert column(session, TRIGGERS) == column(session, FUNCTIONS) == []


def test_uninstalling_leaves_tables_that_can_be_written_to(dsn: str) -> None:
    with connections(dsn) as open_one:
        session = open_one()
        for table in ("orders", "other", "third"):
            session.execute(f"create table {table} (id int primary key)")
            watch(session, table)
        session.execute("drop table other")
        migrate.uninstall(dsn)
        session.execute("insert into orders values (1); insert into third values (1)")
        assert column(session, TRIGGERS) == column(session, FUNCTIONS) == []
