"""What each role may do, and that nobody may do more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import pytest
from tests.fixtures.asking import ask, column, refused
from tests.fixtures.postgres import new_database

from trunkline.core.calls import Call, nothing, scalar
from trunkline.core.db import Db
from trunkline.core.errors import Forbidden

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.postgres import AnyServer

Session = psycopg.Connection[Any]
# Defaults of a table are computed with the rights of who inserts.
READ_BY_DEFAULTS = ["event_seq", "event_slot"]


@pytest.fixture(scope="module")
def dsn(server: AnyServer, template: str) -> Iterator[str]:
    """One database for all tests."""
    with new_database(server, template=template) as name:
        yield server.dsn(name)


@pytest.fixture
def session(dsn: str) -> Iterator[Session]:
    with psycopg.connect(dsn, autocommit=True) as opened:
        opened.execute("truncate trunkline.lease, trunkline.owner, trunkline.party")
        opened.execute("update trunkline.config set value = default_value")
        opened.execute("select trunkline.log_create('orders')")
        yield opened


class User:
    """A login role of one group and nothing else, and a session of its own."""

    def __init__(self, dsn: str, group: str | None):
        self.name = f"user_{uuid4().hex}"
        self.session = psycopg.connect(dsn, autocommit=True)
        self.session.execute(f"create role {self.name} login")
        if group:
            self.session.execute(f"grant {group} to {self.name}")
        self.session.execute(f"set session authorization {self.name}")

    def close(self) -> None:
        self.session.execute("reset session authorization")
        self.session.execute(f"drop owned by {self.name}")
        self.session.execute(f"drop role {self.name}")
        self.session.close()


@pytest.fixture
def reader(dsn: str, session: Session) -> Iterator[Session]:
    yield from _session_of(dsn, "trunkline_reader")


@pytest.fixture
def writer(dsn: str, session: Session) -> Iterator[Session]:
    yield from _session_of(dsn, "trunkline_writer")


@pytest.fixture
def admin(dsn: str, session: Session) -> Iterator[Session]:
    yield from _session_of(dsn, "trunkline_admin")


@pytest.fixture
def nobody(dsn: str, session: Session) -> Iterator[Session]:
    yield from _session_of(dsn, None)


def _session_of(dsn: str, group: str | None) -> Iterator[Session]:
    user = User(dsn, group)
    yield user.session
    user.close()


APPEND = "select trunkline.log_append('orders', 0, array['x'::bytea])"


def consume(session: Session) -> None:
    """Join a group, read a message and commit it."""
    process = uuid4()
    session.execute("select trunkline.lease_renew(%s)", [process])
    joined = "select epoch from trunkline.log_join('orders', 'g', %s) where partition = 0"
    epoch = ask(session, joined, [process])
    assert session.execute("select * from trunkline.log_read('orders', 0, 1)").fetchall()
    session.execute("select trunkline.log_commit('orders', 'g', 0, %s, 1)", [epoch])
    session.execute("select trunkline.lease_end(%s)", [process])


def test_a_reader_reads_and_commits_and_cannot_append(session: Session, reader: Session) -> None:
    session.execute(APPEND)
    consume(reader)
    reader.execute("select trunkline.log_archives('orders'), trunkline.log_archivable()")
    for statement in (
        APPEND,
        "select trunkline.log_create('mine')",
        "select trunkline.config_set('lease.ttl', '1 day')",
        "call trunkline.maintain()",
        "select trunkline.roles_grant()",
    ):
        with refused("42501"):
            reader.execute(statement)


def test_a_process_is_ended_by_who_started_it_or_by_an_admin(
    session: Session, reader: Session, writer: Session, admin: Session
) -> None:
    for may in (reader, admin, session):
        process = uuid4()
        reader.execute("select trunkline.lease_renew(%s)", [process])
        for end in ("lease_end", "_lease_expire"):
            with refused("TL403"):
                writer.execute(f"select trunkline.{end}(%s)", [process])
        may.execute("select trunkline._lease_expire(%s)", [process])
        assert column(session, "select process from trunkline.lease") == [process]
        may.execute("select trunkline.lease_end(%s)", [process])
        assert column(session, "select process from trunkline.lease") == []


def test_queries_of_others_are_told_only_to_admins(
    session: Session, reader: Session, admin: Session, dsn: str
) -> None:
    told = "select query from trunkline.doctor_blockers('0') where pid = %s"
    with psycopg.connect(dsn) as other:
        other.execute("select 'secret'")
        pid = other.info.backend_pid
        assert column(reader, told, [pid]) == [None]
        assert column(admin, told, [pid]) == column(session, told, [pid]) == ["select 'secret'"]


def test_a_writer_appends_and_reads_and_cannot_configure(writer: Session) -> None:
    writer.execute(APPEND)
    consume(writer)
    for statement in (
        "select trunkline.config_set('lease.ttl', '1 day')",
        "select trunkline.log_archive_add('orders', 0, 1, 1, 1, 1, '/a', 'parquet', '[]', '', 1)",
        "call trunkline.maintain()",
    ):
        with refused("42501"):
            writer.execute(statement)
    with refused("TL403"):
        writer.execute("select trunkline.log_delete('orders')")


def test_an_admin_configures_and_maintains_and_does_all_the_rest(admin: Session) -> None:
    admin.execute("select trunkline.config_set('lease.ttl', '1 minute')")
    admin.execute(APPEND)
    consume(admin)
    admin.execute("call trunkline.maintain()")
    assert column(admin, "select error from trunkline.duty_list() where error is not null") == []
    admin.execute("select trunkline.log_delete('orders')")
    with refused("42501"):
        admin.execute("select trunkline.roles_grant()")


def test_a_missing_right_is_forbidden_in_python(dsn: str, reader: Session) -> None:
    db = Db(dsn)
    call: Call[None] = Call("config_set", {"name": "lease.ttl", "value": "1 day"}, nothing)
    with pytest.raises(Forbidden, match="Grant trunkline_") as caught:
        db.run(call, on=reader)
    assert caught.value.code == "TL403"
    assert caught.value.hint.endswith(f' to "{ask(reader, "select session_user")}".')
    assert db.run(Call("config_get", {"name": "lease.ttl"}, scalar), on=reader) == "30 seconds"
    db.close()


def test_who_has_no_role_can_read_nothing_and_call_nothing(nobody: Session) -> None:
    for statement in (
        "select trunkline.config_list()",
        "select * from trunkline.config",
        "select trunkline._ring_current('tick')",
        APPEND,
    ):
        with refused("42501"):
            nobody.execute(statement)


def test_no_role_can_touch_a_table_or_a_sequence_directly(session: Session) -> None:
    """Except the one that nobody can become, which matches conditions; and what triggers read of
    tables of their own."""
    granted = session.execute(
        "select c.relname, grantee::regrole::text from pg_class c, aclexplode(c.relacl) a"
        " where c.relnamespace = 'trunkline'::regnamespace and a.grantee <> c.relowner"
        " and a.grantee <> 'trunkline_matcher'::regrole"
    ).fetchall()
    assert sorted(granted) == [
        ("broker_watch_pass", "-"),
        *(
            (name, role)
            for name in READ_BY_DEFAULTS
            for role in ("trunkline_admin", "trunkline_writer")
        ),
    ]


def test_roles_may_insert_events_and_live_subscriptions_and_only_what_they_say(
    session: Session,
) -> None:
    granted = session.execute(
        "select c.relname, a.attname, x.grantee::regrole::text, x.privilege_type"
        " from pg_attribute a join pg_class c on c.oid = a.attrelid, aclexplode(a.attacl) x"
        " where c.relnamespace = 'trunkline'::regnamespace"
    ).fetchall()
    event = ["topic", "key", "payload", "metadata", "subscription"]
    live = ["subscription", "relation", "changes", "condition", "columns", "settings", "process"]
    writers = ("trunkline_writer", "trunkline_admin")
    assert sorted(granted) == sorted(
        (relation, column, role, "INSERT")
        for relation, columns, roles in (
            ("event", event, writers),
            ("live_subscription", live, ("trunkline_reader", *writers)),
        )
        for column in columns
        for role in roles
    )


def test_everybody_may_call_exactly_what_the_files_declare(session: Session) -> None:
    """For every function: its declared role and the ones above it, nobody else.

    A partition's own function is as log_append_batch() is.
    """
    ranks = ["public", "reader", "writer", "admin"]
    declared: dict[str, str] = dict(
        session.execute(
            "select ('trunkline.' || signature)::regprocedure::oid::text, role"
            " from trunkline.access union all"
            " select to_regproc('trunkline.' || name)::oid::text, 'writer'"
            " from trunkline._log_appends()"
        ).fetchall()
    )
    for number, kind in enumerate(ranks):
        role = "public" if kind == "public" else f"trunkline_{kind}"
        may = set(
            column(
                session,
                "select oid::text from pg_proc where pronamespace = 'trunkline'::regnamespace"
                " and has_function_privilege(%s, oid, 'execute')",
                [role],
            )
        )
        assert may == {oid for oid, needed in declared.items() if ranks.index(needed) <= number}


def test_a_function_that_needs_more_rights_than_before_is_taken_back(session: Session) -> None:
    may = "select has_function_privilege('trunkline_reader', 'trunkline.config_list()', 'execute')"
    assert ask(session, may) is True
    with session.transaction(force_rollback=True):
        session.execute("select trunkline._access('config_list()', 'admin')")
        session.execute("select trunkline.roles_grant()")
        assert ask(session, may) is False


def test_a_table_of_the_same_name_in_front_does_not_deceive_a_definer(
    session: Session, reader: Session
) -> None:
    """What a caller puts into pg_temp or its search path is not looked at."""
    reader.execute("create temp table config (name text, value text)")
    reader.execute("create temp table lease (process uuid, expires timestamptz)")
    reader.execute("set search_path = pg_temp, public")
    assert ask(reader, "select trunkline.config_get('lease.ttl')") == "30 seconds"
    process = uuid4()
    reader.execute("select trunkline.lease_renew(%s)", [process])
    assert column(session, "select process from trunkline.lease") == [process]
