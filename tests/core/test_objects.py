"""Owners, grants and quotas of objects: what each role may do."""

from __future__ import annotations

from time import monotonic, sleep
from typing import TYPE_CHECKING
from uuid import uuid4

import psycopg
import pytest
from tests.fixtures.asking import ask, column, connections, refused
from tests.fixtures.postgres import new_database
from tests.fixtures.roles import login_roles, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.asking import Session
    from tests.fixtures.postgres import AnyServer
    from tests.fixtures.roles import Role

APPEND = "select trunkline.log_append_text('orders', 'x')"
READ = "select * from trunkline.log_read('orders')"
JOIN = "select * from trunkline.log_join('orders', 'billing', %s)"
OWN_FUNCTION = "select name from trunkline._log_appends() where (part).topic_id is not null"
CLAIM = "select claim from trunkline.log_claim('orders', 'workers', 0, 1, '1 minute')"


@pytest.fixture(scope="module")
def dsn(server: AnyServer, template: str) -> Iterator[str]:
    with new_database(server, template=template) as name:
        yield server.dsn(name)


@pytest.fixture
def session(dsn: str) -> Iterator[Session]:
    with connections(dsn) as connect:
        opened = connect()
        yield opened
        opened.execute("reset role")
        for topic in column(opened, "select topic from trunkline.log_list()"):
            opened.execute("select trunkline.log_delete(%s)", [topic])
        for role in column(opened, "select role from trunkline.quota_list()"):
            opened.execute("select trunkline.quota_set(%s)", [role])
        opened.execute("update trunkline.config set value = default_value")
        assert ask(opened, "select count(*) from trunkline.object where kind <> 'namespace'") == 0


@pytest.fixture
def role(dsn: str, session: Session) -> Iterator[Role]:
    with connections(dsn) as connect, login_roles(session, connect) as make:
        yield make


@pytest.fixture
def owner(role: Role) -> Session:
    """A writer who made the topic orders."""
    made = role("trunkline_writer")
    made.execute("select trunkline.log_create('orders')")
    return made


@pytest.fixture
def closed(session: Session) -> None:
    """New objects are for their owners."""
    session.execute("select trunkline.config_set('objects.open', 'false')")


def grant(session: Session, what: str, privilege: str, to: Session) -> None:
    session.execute("select trunkline.grant_on(%s, %s, %s)", [what, privilege, name_of(to)])


def process(session: Session) -> str:
    number = str(uuid4())
    session.execute("select trunkline.lease_renew(%s)", [number])
    return number


def test_what_a_role_makes_is_its_own_and_open_to_the_base_roles(
    session: Session, owner: Session
) -> None:
    row = session.execute("select * from trunkline.object_list('topic')").fetchone()
    assert row is not None
    assert row[:5] == (
        "topic:orders",
        "topic",
        "orders",
        name_of(owner),
        {
            "append": ["trunkline_writer"],
            "read": ["trunkline_reader"],
            "consume": ["trunkline_reader"],
        },
    )
    may = "select may from trunkline.object_list('topic')"
    assert ask(owner, may) == ["append", "read", "consume", "manage"]


def test_other_writers_append_and_read_and_do_not_manage(owner: Session, role: Role) -> None:
    other = role("trunkline_writer")
    other.execute(APPEND)
    assert other.execute(READ).fetchall()
    for statement in (
        "select trunkline.log_alter('orders', retention => '1 second')",
        "select trunkline.log_trim('orders', 0, 2)",
        "select trunkline.log_delete('orders')",
        "select trunkline.grant_on('topic:orders', 'manage', session_user)",
        "select trunkline.revoke_on('topic:orders', 'append', 'trunkline_writer')",
        "select trunkline.object_transfer('topic:orders', session_user)",
    ):
        with refused("TL403", 'needs the privilege "manage" on topic:orders'):
            other.execute(statement)
    owner.execute("select trunkline.log_alter('orders', retention => '1 hour')")
    owner.execute("select trunkline.log_trim('orders', 0, 2)")
    owner.execute("select trunkline.log_delete('orders')")


@pytest.mark.usefixtures("closed")
def test_closed_objects_are_for_the_owner_the_granted_and_admins(
    session: Session, owner: Session, role: Role
) -> None:
    other, admin = role("trunkline_writer"), role("trunkline_admin")
    partition = "trunkline." + ask(session, OWN_FUNCTION)
    may = "select has_function_privilege(%s, to_regproc(%s), 'execute')"
    for statement in (APPEND, READ, CLAIM, "select trunkline.log_offset_at('orders', 0, now())"):
        with refused("TL403"):
            other.execute(statement)
    assert not ask(session, may, [name_of(other), partition])
    for one in (owner, admin):
        one.execute(APPEND)
        assert one.execute(READ).fetchall()
        assert ask(session, may, [name_of(one), partition])
    grant(owner, "topic:orders", "append", other)
    other.execute(APPEND)
    assert ask(session, may, [name_of(other), partition])
    with refused("TL403", 'needs the privilege "read"'):
        other.execute(READ)
    grant(owner, "topic:orders", "consume", other)
    assert other.execute(READ).fetchall()
    assert ask(other, CLAIM)
    with refused("TL403", 'needs the privilege "consume" on topic_group:orders/workers'):
        role("trunkline_reader").execute(CLAIM)


@pytest.mark.usefixtures("closed")
def test_a_grant_to_a_role_is_for_its_members(session: Session, owner: Session, role: Role) -> None:
    team, member = role("trunkline_writer"), role("trunkline_writer")
    grant(owner, "topic:orders", "append", team)
    with refused("TL403"):
        member.execute(APPEND)
    session.execute(f"grant {name_of(team)} to {name_of(member)}")
    member.execute(APPEND)
    owner.execute("select trunkline.revoke_on('topic:orders', 'append', %s)", [name_of(team)])
    with refused("TL403"):
        member.execute(APPEND)


@pytest.mark.usefixtures("closed")
def test_no_role_touches_the_group_of_another(owner: Session, role: Role) -> None:
    alice, mallory = role("trunkline_writer"), role("trunkline_writer")
    owner.execute(APPEND)
    for one in (alice, mallory):
        grant(owner, "topic:orders", "consume", one)
    epoch = ask(alice, "select epoch from (" + JOIN + ") j", [process(alice)])
    claim = ask(alice, CLAIM)
    for statement in (
        f"select trunkline.log_commit('orders', 'billing', 0, {epoch}, 1)",
        f"select * from trunkline.log_join('orders', 'billing', '{process(mallory)}')",
        "select trunkline.log_seek('orders', 'billing', 'latest')",
        "select trunkline.log_group_delete('orders', 'billing')",
        "select trunkline.log_progress('orders', 'billing', '{0}', '{1}')",
        f"select trunkline.log_ack('orders', 'workers', 0, {claim})",
        f"select trunkline.log_release('orders', 'workers', 0, {claim})",
        f"select trunkline.log_extend('orders', 'workers', 0, {claim}, '1 hour')",
        f"select trunkline.log_bury('orders', 'workers', 0, {claim})",
        CLAIM,
    ):
        with refused("TL403", "on topic_group:orders/"):
            mallory.execute(statement)
    alice.execute(f"select trunkline.log_commit('orders', 'billing', 0, {epoch}, 1)")
    alice.execute(f"select trunkline.log_bury('orders', 'workers', 0, {claim})")
    grants = "select owner, grants from trunkline.object where name = 'orders.dead'"
    assert (
        alice.execute(
            "select owner from trunkline.object_list('topic') where name ~ 'dead'"
        ).fetchone()
    ) == (name_of(owner),), grants
    for statement in (
        "select trunkline.log_dead_retry('orders', 1)",
        "select trunkline.log_dead_discard('orders', 1)",
    ):
        with refused("TL403"):
            role("trunkline_writer").execute(statement)
    assert (
        role("trunkline_reader").execute("select * from trunkline.log_dead_list()").fetchall() == []
    )
    with refused("TL403"):
        role("trunkline_reader").execute("select * from trunkline.log_dead_show('orders', 1)")
    assert owner.execute("select * from trunkline.log_dead_list()").fetchall()


def test_a_process_acts_only_for_the_role_that_started_it(owner: Session, role: Role) -> None:
    mallory = role("trunkline_writer")
    mine = process(owner)
    owner.execute(JOIN, [mine])
    for statement in (
        "select trunkline.lease_end(%s)",
        "select * from trunkline.log_join('orders', 'billing', %s)",
        "select trunkline.log_leave('orders', 'billing', %s)",
        "select trunkline.owner_take('app:job', %s)",
    ):
        with refused("TL403"):
            mallory.execute(statement, [mine])
    with refused("TL403", "is shared out by Trunkline itself"):
        mallory.execute("select trunkline.owner_take('log:1:billing:0', %s)", [process(mallory)])
    assert ask(owner, "select trunkline.owner_take('app:job', %s)", [mine])
    with refused("TL403"):
        mallory.execute("select trunkline.owner_release('app:job', 1)")


def test_no_role_renews_the_lease_of_another(owner: Session, role: Role) -> None:
    with refused("TL403"):
        role("trunkline_writer").execute("select trunkline.lease_renew(%s)", [process(owner)])


@pytest.mark.usefixtures("closed")
def test_no_letter_goes_to_a_topic_of_a_role_that_may_not_read_the_message(
    session: Session, owner: Session, role: Role
) -> None:
    mallory = role("trunkline_writer")
    mallory.execute("select trunkline.log_create('orders.dead')")
    owner.execute(APPEND)
    bury = "select trunkline.log_bury('orders', 'workers', 0, %s)"
    with refused("TL403", 'topic "orders.dead" belongs to a role that may not read "orders"'):
        owner.execute(bury, [ask(owner, CLAIM)])
    session.execute("select trunkline.object_transfer('topic:orders.dead', %s)", [name_of(owner)])
    claims = "trunkline.cursor, jsonb_array_elements(state) c order by seq desc limit 1"
    claim = ask(session, f"select (c ->> 'claim')::bigint from {claims}")
    owner.execute(bury, [claim])


def test_an_owner_gives_an_object_to_a_role_of_which_it_is_a_member(
    session: Session, owner: Session, role: Role
) -> None:
    team = role("trunkline_writer")
    transfer = "select trunkline.object_transfer('topic:orders', %s)"
    with refused("TL403", "is not a member of"):
        owner.execute(transfer, [name_of(team)])
    session.execute(f"grant {name_of(team)} to {name_of(owner)}")
    owner.execute(transfer, [name_of(team)])
    team.execute("select trunkline.log_alter('orders', retention => '1 hour')")
    session.execute(f"revoke {name_of(team)} from {name_of(owner)}")
    with refused("TL403"):
        owner.execute("select trunkline.log_alter('orders', retention => '1 hour')")


@pytest.mark.parametrize(
    ("call", "state", "words"),
    [
        ("grant_on('topic:none', 'read', current_user)", "TL404", 'no object "topic:none"'),
        ("grant_on('orders', 'read', current_user)", "TL404", "a kind and a name"),
        ("grant_on(null, 'read', current_user)", "TL404", "no object NULL"),
        ("grant_on('topic:orders', 'fly', current_user)", "TL422", "append, read, consume, manage"),
        ("grant_on('topic:orders', null, current_user)", "TL422", "got NULL"),
        ("grant_on('topic:orders', 'read', 'no one here')", "TL404", "no role 'no one here'"),
        ("revoke_on('topic:orders', 'fly', current_user)", "TL422", "got 'fly'"),
        ("object_transfer('topic:orders', 'no one here')", "TL404", "CREATE ROLE"),
    ],
)
def test_what_does_not_exist_is_refused(owner: Session, call: str, state: str, words: str) -> None:
    with refused(state, words):
        owner.execute(f"select trunkline.{call}")  # type: ignore[call-overload]


def test_a_grant_that_is_there_is_no_error_and_one_that_is_not_is_false(
    owner: Session, role: Role
) -> None:
    other = role("trunkline_reader")
    for _ in range(2):
        grant(owner, "topic:orders", "manage", other)
    revoke = "select trunkline.revoke_on('topic:orders', 'manage', %s)"
    assert ask(owner, revoke, [name_of(other)])
    assert not ask(owner, revoke, [name_of(other)])


def test_objects_without_a_living_owner_are_named(session: Session, owner: Session) -> None:
    find = "select object from trunkline.doctor_objects()"
    assert column(session, find) == []
    session.execute("update trunkline.object set owner = 'gone' where kind = 'topic'")
    assert column(session, find) == ["topic:orders"]
    with refused("TL403"):
        owner.execute("select trunkline.log_alter('orders', retention => '1 hour')")


def test_a_quota_is_for_a_role_and_its_members(
    session: Session, owner: Session, role: Role
) -> None:
    batch = "select * from trunkline.log_append('orders', 0, array_fill('x'::bytea, array[10]))"
    session.execute("select trunkline.quota_set('trunkline_writer', messages_per_second => 50)")
    other = role("trunkline_writer")
    with refused("TL429", "may write 50 messages a second") as caught:
        for count in range(20):
            (owner if count % 2 else other).execute(batch)
    assert '"retry_after"' in (caught.value.diag.message_detail or "")
    assert 50 <= ask(session, "select count(*) from trunkline.log_read('orders')") <= 120
    for _ in range(20):
        session.execute(batch)
    session.execute("select trunkline.quota_set('trunkline_writer')")
    for _ in range(10):
        owner.execute(batch)


def test_a_quota_of_bytes_counts_keys_headers_and_metadata(
    session: Session, owner: Session
) -> None:
    session.execute("select trunkline.quota_set(%s, bytes_per_second => 1000)", [name_of(owner)])
    large = "repeat('x', 20000)"
    packed = (
        "select jsonb_build_object('m', string_agg(md5(n::text), ''))"
        " from generate_series(1, 1000) n"
    )
    for call in (
        f"log_append('orders', 0, array['x'::bytea], array[{large}::bytea])",
        f"log_append('orders', 0, '{{x}}', null, array[jsonb_build_object('h', {large})])",
        f"broker_publish('orders', '1', metadata => ({packed}))",
    ):
        session.execute(
            "select setval(format('trunkline.quota_%s_bytes', quota_id)::regclass, 0)"
            " from trunkline.quota"
        )
        owner.execute(f"select * from trunkline.{call}")  # type: ignore[call-overload]
        with refused("TL429"):
            owner.execute(APPEND)


def test_a_quota_of_bytes_holds_over_time_also_on_the_fast_path(
    session: Session, owner: Session
) -> None:
    name = ask(session, OWN_FUNCTION)
    value = "convert_to(repeat('x', 1000), 'UTF8')"
    ends = ask(session, f"select (trunkline._log_pack(array[{value}], null, null)).value_ends")
    batch = f"select * from trunkline.{name}('orders', 0, 1, 0, %s, {value})"
    session.execute("select trunkline.quota_set(%s, bytes_per_second => 20000)", [name_of(owner)])
    began, stored = monotonic(), 0
    while monotonic() - began < 2:
        try:
            owner.execute(batch, [ends])
            stored += 1000
        except psycopg.Error as error:
            if error.sqlstate != "TL429":
                raise
            sleep(0.01)
    assert 40_000 <= stored <= 66_000


def test_a_quota_is_a_positive_number_and_for_admins_to_set(session: Session, role: Role) -> None:
    with refused("TL422", "positive"):
        session.execute("select trunkline.quota_set('trunkline_writer', 0)")
    with refused("TL404"):
        session.execute("select trunkline.quota_set('no one here', 1)")
    with refused("42501"):
        role("trunkline_writer").execute("select trunkline.quota_set('trunkline_writer', 1)")
