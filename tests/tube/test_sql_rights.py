"""Who may do what: writers of a table need nothing, and nobody gets more than he has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.fixtures.asking import Session, ask, call, column, refused
from tests.fixtures.roles import login_roles, name_of, unprivileged
from tests.tube.sql_steps import (
    TUBE,
    Reader,
    ack,
    attach,
    documents,
    ensure,
    finish,
    gaps,
    join,
    member,
    schedule,
    tick,
    touch,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.asking import Connect
    from tests.fixtures.roles import Role


@pytest.fixture
def role(session: Session, connect: Connect) -> Iterator[Role]:
    with login_roles(session, connect) as make:
        yield make


# Writers


def test_a_writer_needs_no_right_but_on_the_table(
    session: Session, feed: Reader, role: Role
) -> None:
    writer = role()
    session.execute(f"grant insert, update, delete, truncate on orders to {name_of(writer)}")
    session.execute("grant select on orders to public")
    writer.execute("insert into orders values (1), (2)")
    writer.execute("update orders set total = 1 where id = 1")
    writer.execute("delete from orders where id = 2")
    writer.execute("truncate orders")
    assert [(e.op, sorted(e.keys), e.control) for e in feed.new()] == [
        ("I", ["1", "2"], None),
        ("U", ["1"], None),
        ("D", ["2"], None),
        ("T", [], "truncate"),
    ]
    for statement in (
        "select * from trunkline.tube_entry",
        "insert into trunkline.tube_gap values (1, 'x')",
        "select trunkline.tube_touch('feed', null, array['1'], shard => 0)",
        "select * from trunkline.tube_read('feed', 0, 0, 1, 9)",
        "select trunkline._tube_put_entries(1, 1, 0, null, array['1'], 'U', null, 0)",
        "select nextval('trunkline.tube_seq')",
    ):
        with refused("42501"):
            writer.execute(statement)


def test_expressions_run_as_whoever_writes_and_never_as_the_owner_of_the_schema(
    session: Session, role: Role
) -> None:
    writer = role()
    session.execute(f"grant insert, select on orders to {name_of(writer)}")
    session.execute(
        "create table seen (who text); grant insert on seen to public;"
        "create function note() returns int language sql as"
        " $$ insert into seen values (current_user) returning 7 $$"
    )
    attach(session, shard="note()", condition="note() = 7")
    feed = Reader(session)
    writer.execute("insert into public.orders values (1)")
    assert feed.places() == [(7, "1")]
    assert column(session, "select distinct who from seen") == [name_of(writer)]
    # what the writer may not do fails, and the row is touched anyway
    session.execute("revoke insert on seen from public")
    writer.execute("insert into public.orders values (2)")
    assert feed.places() == [(0, "2")]


def test_a_gap_is_noted_for_a_writer_without_rights(session: Session, role: Role) -> None:
    attach(session, on_error="gap")
    writer = role()
    session.execute(f"grant insert on orders to {name_of(writer)}")
    session.execute("revoke execute on function trunkline._tube_capture from public")
    try:
        writer.execute("insert into orders values (1)")
    finally:
        session.execute("grant execute on function trunkline._tube_capture to public")
    assert gaps(session) == 1


def test_without_rights_one_can_touch_rows_again_and_forge_nothing_else(
    session: Session, feed: Reader, role: Role
) -> None:
    """Everybody may call what the triggers call; it brings keys up once more, no data."""
    stranger = role()
    attachment = ask(
        session, "select attachment from trunkline.tube_table where detached_at is null"
    )
    capture = "select trunkline._tube_capture(%s, %s, %s::int[], array['1'])"
    stranger.execute(capture, [attachment, "UPDATE", None])
    stranger.execute("select trunkline._tube_capture_truncate(%s)", [attachment])
    entries = feed.new()
    assert [(e.op, e.keys, e.payload, e.control) for e in entries] == [
        ("U", ["1"], None, None),
        ("T", [], None, "truncate"),
    ]
    assert documents(session, attachment, "1") == {"1": None}  # the row decides, not the touch
    stranger.execute(capture, [attachment + 1_000, "UPDATE", None])  # no such attachment
    for operation, shards in (("XXX", None), ("UPDATE", [-1])):
        with refused("TL422"):
            stranger.execute(capture, [attachment, operation, shards])
    assert feed.new() == []


def test_the_server_mirrors_with_the_rights_of_whoever_asks(
    session: Session, feed: Reader, role: Role
) -> None:
    reader = role("trunkline_reader")
    reader.execute(
        "create temp table copied (relation text, shard int, key text, document jsonb,"
        " version bigint, written_at timestamptz, primary key (relation, shard, key))"
    )
    attachment = ask(
        session, "select attachment from trunkline.tube_table where detached_at is null"
    )
    mirror = "select trunkline._tube_mirror(%s, '{1}', '{0}', 'copied')"
    with refused("42501"):
        reader.execute(mirror, [attachment])
    session.execute(f"grant select on orders to {name_of(reader)}")
    reader.execute(mirror, [attachment])
    assert column(reader, "select key from copied") == ["1"]


def test_what_a_writer_puts_in_front_deceives_nobody(
    session: Session, feed: Reader, role: Role
) -> None:
    writer = role()
    session.execute(f"grant insert on orders to {name_of(writer)}")
    for table in ("tube_table", "tube_entry", "config", "ring"):
        writer.execute(f"create temp table {table} (x int)")
    writer.execute("set search_path = pg_temp, public")
    writer.execute("insert into public.orders values (1)")
    assert feed.keys() == ["1"]


# Owners of tables


def test_an_owner_with_the_role_of_a_writer_does_everything_with_his_table(
    session: Session, role: Role
) -> None:
    owner = role("trunkline_writer", owns="orders")
    ensure(owner, "mine", condition="total > 0", lanes=2)
    attachment = attach(owner, tube="mine", shard="region", condition="total < 100")
    owner.execute("insert into orders values (1, '', 0, 1), (2, '', 1, 0), (3, '', 1, 5)")
    feed = Reader(owner, "mine")
    ensure(owner, "mine", condition="total > 2")
    touch(owner, "1", tube="mine", relation="orders", shard=0)
    call(owner, "tube_insert", tubes=["mine"], query="select id from orders", shard=0)
    backfill = schedule(owner, "mine", relation="orders")
    finish(owner, backfill)
    assert feed.places() == [(0, "1"), (0, "1"), (0, "2"), (0, "3"), (1, "3")]
    assert documents(owner, attachment, "1", "3")["1"] is None
    shares = join(owner, member(owner), "mine")
    tick(owner)
    ack(owner, shares[0], "mine", live_up_to=1)
    with refused("TL422"):  # and mistakes are explained
        attach(owner, tube="mine", condition="nonsense(")
    with refused("TL409"):
        call(owner, "tube_drop", tube="mine")
    assert call(owner, "tube_detach", tube="mine", relation="orders") == [(True,)]
    call(owner, "tube_drop", tube="mine", force=True)


def test_only_the_owner_of_a_table_attaches_and_detaches_it(session: Session, role: Role) -> None:
    call(session, "grant_on", object="tube:feed", privilege="manage", role="trunkline_writer")
    owner = role("trunkline_writer", owns="orders")
    other = role("trunkline_writer")
    friend = role("trunkline_writer", name_of(owner))
    session.execute(f"grant all on orders to {name_of(other)}")
    with refused("TL403") as caught:
        attach(other)
    assert name_of(owner) in str(caught.value)
    attach(friend)
    with refused("TL403"):
        call(other, "tube_detach", tube=TUBE, relation="orders")
    with refused("TL403"):
        call(other, "tube_drop", tube=TUBE, force=True)
    with refused("42501"):  # it would replace a function of the owner
        ensure(other, condition="total > 5")
    assert ask(session, "select condition from trunkline.tube_list()") is None
    assert call(owner, "tube_detach", tube=TUBE, relation="orders") == [(True,)]


def test_the_capture_function_belongs_to_who_attached_and_is_no_definer(
    session: Session, role: Role
) -> None:
    call(session, "grant_on", object="tube:feed", privilege="manage", role="trunkline_writer")
    owner = role("trunkline_writer", owns="orders")
    attach(owner)
    row = session.execute(
        "select proowner::regrole::text, pronamespace::regnamespace::text, prosecdef"
        " from pg_proc where proname ~ '^trunkline_tube_'"
    ).fetchone()
    assert row == (name_of(owner), "public", False)


# Workers


def test_a_worker_reads_with_its_own_rights(session: Session, feed: Reader, role: Role) -> None:
    worker = role("trunkline_reader")
    session.execute("insert into orders values (1)")
    attachment = ask(
        session, "select attachment from trunkline.tube_table where detached_at is null"
    )
    (share,) = join(worker, member(worker))
    (entry,) = Reader.new(feed)
    tick(worker)
    for call_it in (
        lambda: documents(worker, attachment, "1"),
        lambda: worker.execute("select trunkline.tube_backfill_step(%s)", [schedule(session)]),
    ):
        with refused("42501"):
            call_it()
    session.execute(f"grant select on orders to {name_of(worker)}")
    assert documents(worker, attachment, "1")["1"]["id"] == 1
    finish(worker, ask(session, "select max(backfill) from trunkline.tube_backfill"))
    ack(worker, share, live_up_to=entry.up_to)
    for statement in (
        "select trunkline.tube_ensure('x')",
        "select trunkline.tube_touch('feed', null, array['1'], shard => 0)",
        "select trunkline.tube_drop('feed', true)",
    ):
        with refused("42501"):
            worker.execute(statement)


def test_an_installation_without_superuser_captures_for_tables_of_others(
    bare_dsn: str,
) -> None:
    """Only what it may not do itself is left to the owner of the table, and said."""
    with unprivileged(bare_dsn) as (admin, installer, owner):
        admin.execute(f"set role {owner}")
        admin.execute("create table event (id int primary key) partition by range (id)")
        ensure(admin)
        attach(admin, "event")
        admin.execute("create table event_a partition of event for values from (0) to (9)")
        admin.execute(f"set role {installer}")
        for _ in range(2):
            admin.execute("call trunkline.maintain()")
        assert column(admin, "select error from trunkline.tube_gap") == [
            "table public.event_a has no triggers, and the owner of schema trunkline may not"
            " make them: its owner has to call tube_attach() again."
        ]
        assert column(admin, "select error from trunkline.duty where error is not null") == []
        admin.execute(f"set role {owner}")
        attach(admin, "event")
        admin.execute("insert into event_a values (1)")
        admin.execute(f"set role {installer}")
        assert tick(admin) == 1
        admin.execute("reset role")
