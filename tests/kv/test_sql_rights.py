"""Who may do what with keys: nobody forges an origin, and only admins learn how to reach others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.fixtures.asking import ask, call, column, refused
from tests.fixtures.roles import unprivileged
from tests.kv.sql_steps import (
    changes,
    delete,
    get,
    head,
    patch,
    put,
    put_many,
    read,
    scan,
    stamps,
    tick,
)

if TYPE_CHECKING:
    from tests.fixtures.asking import Session
    from tests.fixtures.roles import Role

READING = (
    "kv_get('default', 'k')",
    "kv_get_many('default', '{k}')",
    "kv_scan('default')",
    "kv_cuts('default')",
    "kv_ends()",
    "kv_changes('default', kv_head)",
    "kv_head()",
    "kv_policies()",
    "kv_topology()",
)
WRITING = (
    "kv_put('default', 'k', '1')",
    "kv_put_many('default', '{k}', array['1'::jsonb])",
    "kv_delete('default', 'k')",
    "kv_patch_numeric('default', 'n', '{\"n\": 1}')",
)
TELLING = (
    "kv_hello('a/s')",
    "kv_copy_begin('a/s', 1)",
    "kv_copy('a/s', 1)",
    "kv_export('a/s', 1, kv_head)",
    "kv_confirm('a/s', 1, 0)",
    "kv_digest()",
    "kv_bucket('a/s', 1, 1, '{0}')",
)
RULING = (
    "kv_instance_put('b', 's', 'dbname=b')",
    "kv_instance_drop('b', 's')",
    "kv_instance_here('a', 's')",
    "kv_namespace_put('n')",
    "kv_pulled('a/s')",
    "kv_witness('a/s', '{}')",
    "kv_heard('a/s')",
    "kv_begin_anew(1)",
    "kv_make_whole()",
    "kv_expire()",
    "kv_release()",
    "kv_forget()",
)
MANAGING = (
    "kv_policy_put('default', 'p', '1 hour')",
    "kv_policy_drop('default', 'p')",
)
NEVER = (
    "_kv_write('default', '{k}', array['1'::jsonb], null)",
    "_kv_write('parade', '{k}', array['1'::jsonb], null)",
    "_kv_parade_write('k', '1')",
    "_kv_merge('[]', 1)",
    "_kv_take_in('[]', 1)",
    "_kv_note('default', '{k}', 1)",
    "_kv_life_begin()",
    "_kv_clock()",
)
APPLY = "kv_apply('a/s', 1, 0, '{\"origin\": 1}', '[]', 0)"
TABLES = ("kv_entry", "kv_counter", "kv_change", "kv_life", "kv_held", "kv_peer", "kv_clock")


@pytest.fixture
def parade(session: Session) -> Session:
    """A parade of one instance, whose dsn has a password."""
    call(
        session,
        "kv_instance_put",
        zone="a",
        shard="s",
        dsn="postgresql://replicator:secret@host/base",
    )
    call(session, "kv_instance_here", zone="a", shard="s")
    tick(session)
    return session


def allowed(session: Session, *texts: str) -> None:
    position = head(session) if "kv_changes" in " ".join(texts) else 0
    for text in texts:
        session.execute(f"select * from trunkline.{text.replace('kv_head)', f'{position})')}")


def forbidden(session: Session, *texts: str, state: str = "42501") -> None:
    for text in texts:
        with refused(state):
            session.execute(f"select * from trunkline.{text.replace('kv_head)', '0)')}")


def test_a_reader_reads_and_does_no_more(parade: Session, role: Role) -> None:
    reader = role("trunkline_reader")
    allowed(reader, *READING, "kv_status()", "kv_held()", "kv_tick()")
    forbidden(reader, *WRITING, *TELLING, *RULING, *MANAGING, *NEVER, APPLY)


def test_a_writer_reads_and_writes_and_does_no_more(parade: Session, role: Role) -> None:
    writer = role("trunkline_writer")
    allowed(writer, *READING, *WRITING)
    forbidden(writer, *TELLING, *RULING, *NEVER, APPLY)
    forbidden(writer, *MANAGING, state="TL403")


def test_a_client_of_the_store_reads_and_writes_keys_and_does_no_more(
    parade: Session, role: Role
) -> None:
    client = role("trunkline_kv_client")
    allowed(client, *READING, *WRITING)
    forbidden(client, *TELLING, *RULING, *MANAGING, *NEVER, APPLY, "kv_tick()", "broker_tick()")


def test_a_replicator_is_told_what_there_is_and_does_no_more(parade: Session, role: Role) -> None:
    replicator = role("trunkline_kv_replicator")
    put(parade, "k", 1)
    tick(parade)
    position = ask(replicator, "select trunkline.kv_copy_begin('a/s', 1)")
    allowed(replicator, *[text for text in TELLING if "export" not in text], "kv_topology()")
    allowed(replicator, f"kv_export('a/s', 1, {position})")
    told = ask(replicator, "select states from trunkline.kv_copy('a/s', 1)")
    assert {state["namespace"] for state in told} == {"default", "parade"}
    forbidden(replicator, *READING[:4], *WRITING, *RULING, *NEVER, APPLY)


def test_an_admin_rules_the_parade(parade: Session, role: Role) -> None:
    admin = role("trunkline_admin")
    allowed(admin, *READING, *WRITING, *RULING, "kv_status()")
    forbidden(admin, *NEVER)


@pytest.mark.parametrize(
    "group", ["trunkline_reader", "trunkline_writer", "trunkline_kv_client", "trunkline_admin"]
)
def test_nobody_touches_the_tables(parade: Session, role: Role, group: str) -> None:
    somebody = role(group)
    for table in TABLES:
        for statement in (
            f"select * from trunkline.{table}",
            f"delete from trunkline.{table}",
            f"truncate trunkline.{table}",
        ):
            with refused("42501"):
                somebody.execute(statement)
    with refused("42501"):
        somebody.execute("update trunkline.kv_entry set origin = 1")
    with refused("42501"):
        somebody.execute("select nextval('trunkline.kv_seq')")


def test_a_stranger_does_nothing(parade: Session, role: Role) -> None:
    forbidden(role(), *READING, *WRITING, *TELLING, *RULING, *MANAGING, *NEVER, APPLY)


@pytest.mark.parametrize("group", ["trunkline_kv_client", "trunkline_writer", "trunkline_admin"])
def test_nobody_writes_the_namespace_of_the_parade(parade: Session, role: Role, group: str) -> None:
    somebody = role(group)
    for text in WRITING:
        with refused("TL403"):
            somebody.execute(f"select trunkline.{text.replace('default', 'parade')}")
    assert ask(parade, "select count(*) from trunkline.kv_topology()") == 1


def test_whoever_writes_is_stamped_as_this_copy(parade: Session, role: Role) -> None:
    client = role("trunkline_kv_client")
    here = ask(parade, "select (trunkline._kv_life()).origin")
    put(client, "a", 1)
    put_many(client, {"b": 1})
    delete(client, "c")
    patch(client, {"n": 1}, "d")
    patch(client, {"a": None}, "e")
    assert {stamps(parade, key)[1] for key in "abc"} == {here}
    assert set(column(parade, "select origin from trunkline.kv_counter")) == {here}


@pytest.mark.parametrize("group", ["trunkline_kv_client", "trunkline_reader", "trunkline_writer"])
def test_only_admins_learn_as_whom_instances_are_reached(
    parade: Session, role: Role, group: str
) -> None:
    somebody = role(group)
    (place,) = column(somebody, "select dsn from trunkline.kv_topology()")
    assert "secret" not in place
    for attempt in (
        lambda: get(somebody, "instance/a/s", "parade"),
        lambda: scan(somebody, namespace="parade"),
        lambda: call(somebody, "kv_get_many", namespace="parade", keys=["instance/a/s"]),
        lambda: changes(somebody, 0, namespace="parade"),
    ):
        with refused("TL403"):
            attempt()
    admin = role("trunkline_admin")
    assert "secret" in get(admin, "instance/a/s", "parade")["dsn"]
    assert "secret" in column(admin, "select dsn from trunkline.kv_topology()")[0]


@pytest.mark.parametrize(
    ("dsn", "place"),
    [
        ("postgresql://me:secret@db.east:5433/kv?sslmode=require", "postgresql://db.east:5433/kv"),
        (
            "postgresql://me@/kv?password=secret&host=/run/pg&port=5",
            "postgresql:///kv?host=/run/pg&port=5",
        ),
        ("postgres://db.east", "postgres://db.east"),
        (
            "host=a,b port=1,2 dbname='my db' user=me password='se cret'",
            "host=a,b port=1,2 dbname='my db'",
        ),
        ("user=me passfile=/x host = a", "host=a"),
        ("postgresql://me:p@ss@db.east/kv", "postgresql://db.east/kv"),
        (r"password='it\'s host=evil' dbname=kv", "dbname=kv"),
        ("postgresql://puller:sec?ret@db.x/kv", "postgresql://db.x/kv"),
        (r"password=abc\ dbname=secretrest host=a", "host=a"),
        ("password=ab'cd host=a", "host=a"),
    ],
)
def test_a_place_is_told_without_who_goes_there(parade: Session, dsn: str, place: str) -> None:
    assert ask(parade, "select trunkline._kv_place(%s)", [dsn]) == place


def test_what_a_client_puts_in_front_deceives_nobody(parade: Session, role: Role) -> None:
    client = role("trunkline_kv_client")
    for table in ("kv_entry", "kv_counter", "kv_life", "kv_clock", "config"):
        client.execute(f"create temp table {table} (x int)")
    client.execute("set search_path = pg_temp, public")
    assert put(client, "k", 1) == "INSERT"
    patch(client, {"n": 1}, "n")
    assert get(client, "k") == 1
    assert read(parade) is not None


def test_an_installation_without_superuser_keeps_keys(bare_dsn: str) -> None:
    with unprivileged(bare_dsn) as (admin, installer, owner):
        admin.execute(f"set role {owner}")
        assert put(admin, "k", 1) == "INSERT"
        assert patch(admin, {"n": 1}, "n") == "INSERT"
        admin.execute(f"set role {installer}")
        assert tick(admin) == 2
        admin.execute("call trunkline.maintain()")
        assert column(admin, "select error from trunkline.duty where error is not null") == []
        admin.execute("reset role")
