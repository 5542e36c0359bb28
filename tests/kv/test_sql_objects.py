"""Who may do what with the keys of a namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.fixtures.asking import ask, call, column, connections, refused
from tests.fixtures.postgres import new_database
from tests.fixtures.roles import login_roles, name_of
from tests.kv.sql_steps import pull, set_clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.asking import Session
    from tests.fixtures.postgres import AnyServer
    from tests.fixtures.roles import Role
    from tests.kv.sql_steps import Copy

READS = (
    "trunkline.kv_get('carts', 'k')",
    "trunkline.kv_get('carts', 'not there')",
    "trunkline.kv_get_many('carts', '{k}')",
    "trunkline.kv_scan('carts')",
    "trunkline.kv_cuts('carts')",
    "trunkline.kv_changes('carts', trunkline.kv_head())",
)
WRITES = (
    "trunkline.kv_put('carts', 'k', '2')",
    "trunkline.kv_put_many('carts', '{k}', array['2'::jsonb])",
    "trunkline.kv_delete('carts', 'k')",
    "trunkline.kv_patch_numeric('carts', 'n', '{\"n\": 1}')",
)
RULES = (
    "trunkline.kv_policy_put('carts', 'short', '1 hour')",
    "trunkline.kv_policy_drop('carts', 'short')",
    "trunkline.grant_on('namespace:carts', 'append', session_user)",
    "trunkline.object_transfer('namespace:carts', session_user)",
)


@pytest.fixture(scope="module")
def dsn(server: AnyServer, template: str) -> Iterator[str]:
    with new_database(server, template=template) as name:
        yield server.dsn(name)


@pytest.fixture
def session(dsn: str) -> Iterator[Session]:
    """A session of the owner of the schema, in a database with the open namespace carts."""
    with connections(dsn) as connect:
        opened = connect()
        opened.execute("select trunkline.kv_namespace_put('carts')")
        opened.execute("select trunkline.kv_put('carts', 'k', '1')")
        yield opened
        opened.execute("update trunkline.config set value = default_value")
        opened.execute("delete from trunkline.kv_entry where namespace in ('carts', 'parade')")
        opened.execute("delete from trunkline.object where name = 'carts'")
        opened.execute("select trunkline._kv_namespace_shared('carts')")


@pytest.fixture
def role(dsn: str, session: Session) -> Iterator[Role]:
    with connections(dsn) as connect, login_roles(session, connect) as make:
        yield make


def revoke(session: Session) -> None:
    """Take from the base roles what a new namespace gives them."""
    session.execute("select trunkline.revoke_on('namespace:carts', 'append', 'trunkline_writer')")
    session.execute("select trunkline.revoke_on('namespace:carts', 'read', 'trunkline_reader')")


def allowed(session: Session, *calls: str) -> None:
    for each in calls:
        session.execute(f"select * from {each}")


def forbidden(session: Session, privilege: str, *calls: str) -> None:
    for each in calls:
        with refused("TL403", f'needs the privilege "{privilege}" on namespace:carts'):
            session.execute(f"select * from {each}")


def test_a_new_namespace_is_open_to_the_base_roles(role: Role, session: Session) -> None:
    writer, client = role("trunkline_writer"), role("trunkline_kv_client")
    allowed(role("trunkline_reader"), *READS)
    for each in (writer, client):
        allowed(each, *WRITES)
    forbidden(writer, "manage", *RULES)
    allowed(session, *RULES[:2])


def test_a_closed_namespace_is_for_the_granted(role: Role, session: Session) -> None:
    revoke(session)
    reader, writer, client = (
        role(kind) for kind in ("trunkline_reader", "trunkline_writer", "trunkline_kv_client")
    )
    for each in (reader, writer):
        forbidden(each, "read", *READS)
    for each in (writer, client):
        forbidden(each, "append", *WRITES)
    for privilege, to in {"read": reader, "append": client, "manage": writer}.items():
        session.execute(
            "select trunkline.grant_on('namespace:carts', %s, %s)", [privilege, name_of(to)]
        )
    allowed(reader, *READS)
    allowed(client, *WRITES)
    allowed(writer, *READS, *WRITES, *RULES)
    forbidden(client, "read", "trunkline.kv_get('carts', 'k')")


def test_a_privilege_that_is_given_back_is_open_again(role: Role, session: Session) -> None:
    revoke(session)
    session.execute("select trunkline.grant_on('namespace:carts', 'read', 'trunkline_reader')")
    reader, writer = role("trunkline_reader"), role("trunkline_writer")
    allowed(reader, *READS)
    forbidden(writer, "append", *WRITES)
    session.execute("select trunkline.grant_on('namespace:carts', 'append', 'trunkline_writer')")
    allowed(writer, *WRITES)
    assert (
        ask(session, "select trunkline._kv_guarded('append') || trunkline._kv_guarded('read')")
        == []
    )


def test_new_namespaces_are_closed_where_objects_are(role: Role, session: Session) -> None:
    session.execute("select trunkline.config_set('objects.open', 'false')")
    session.execute("select trunkline.kv_namespace_put('secret')")
    with refused("TL403"):
        role("trunkline_writer").execute("select trunkline.kv_put('secret', 'k', '1')")
    allowed(role("trunkline_admin"), "trunkline.kv_put('secret', 'k', '1')")
    session.execute("delete from trunkline.object where name = 'secret'")


def test_sessions_that_have_called_before_notice_a_revoked_privilege(
    role: Role, session: Session
) -> None:
    """Their plans hold the list of namespaces that need a grant."""
    reader, writer = role("trunkline_reader"), role("trunkline_writer")
    for _ in range(12):  # plans are kept after a few calls
        allowed(reader, *READS)
        allowed(writer, *WRITES)
    revoke(session)
    forbidden(reader, "read", *READS)
    forbidden(writer, "append", *WRITES)


def test_the_listing_shows_the_owner(role: Role, session: Session) -> None:
    new = name_of(role("trunkline_reader"))
    session.execute("select trunkline.object_transfer('namespace:carts', %s)", [new])
    listed = session.execute("select namespace, owner from trunkline.kv_policies()").fetchall()
    assert ("carts", new) in listed
    assert [row[0] for row in call(session, "object_list", kind="namespace")] == [
        "namespace:carts",
        "namespace:default",
    ]
    assert column(session, "select object from trunkline.doctor_objects()") == []


def test_keys_that_wait_are_shown_to_those_who_may_read(role: Role, session: Session) -> None:
    session.execute(
        "insert into trunkline.kv_held values ('carts', 'k', 1, 1, '{}', now(), 'lock')"
    )
    reader = role("trunkline_reader")
    assert column(reader, "select key from trunkline.kv_held()") == ["k"]
    revoke(session)
    assert column(reader, "select key from trunkline.kv_held()") == []
    assert column(session, "select key from trunkline.kv_held()") == ["k"]
    session.execute("delete from trunkline.kv_held")


def test_a_namespace_of_another_zone_is_an_object_here(zones: list[Copy]) -> None:
    """Its keys are replicated whatever the grants say."""
    a, b, _ = zones
    set_clock(a.session, 0)
    a.session.execute("select trunkline.kv_namespace_put('shared')")
    a.session.execute("select trunkline.kv_put('shared', 'k', '1')")
    pull(a, b)
    objects = "select name from trunkline.object_list('namespace')"
    assert "shared" in column(b.session, objects)
    a.session.execute("select trunkline.kv_put('shared', 'k', '2')")
    revoke_all = "select trunkline.revoke_on('namespace:shared', 'append', 'trunkline_writer')"
    b.session.execute(revoke_all)
    pull(a, b)
    assert ask(b.session, "select trunkline.kv_get('shared', 'k')") == 2
    for zone in (a, b):
        zone.session.execute("delete from trunkline.object where name = 'shared'")
        zone.session.execute("select trunkline._kv_namespace_shared('shared')")


def test_a_forgotten_namespace_is_named(role: Role, session: Session) -> None:
    writer = role("trunkline_writer")
    for statement in (
        "select trunkline.kv_put('k', '1')",
        "select trunkline.kv_get('k')",
        "select trunkline.kv_delete('k')",
        "select trunkline.kv_patch_numeric('k', '{\"n\": 1}')",
    ):
        with pytest.raises(Exception, match="The namespace comes first"):
            writer.execute(statement)
    assert ask(session, "select count(*) from trunkline.kv_entry where namespace = 'default'") == 0
