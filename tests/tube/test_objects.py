"""Owners and grants of tubes: what each role may do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest
from tests.fixtures.asking import ask, call, column, refused
from tests.fixtures.roles import login_roles, name_of
from tests.tube.sql_steps import attach, ensure, schedule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.asking import Connect, Session
    from tests.fixtures.roles import Role

APPEND = (
    "select trunkline.tube_touch('mine', null, array['1'], shard => 0)",
    "select trunkline.tube_backfill_schedule('mine')",
    "select trunkline.tube_backfill_pause('mine')",
    "select trunkline.tube_backfill_cancel('mine')",
)
CONSUME = (
    "select * from trunkline.tube_join('mine', gen_random_uuid())",
    "select * from trunkline.tube_read('mine', 0, 0, 1, 9)",
    "select trunkline.tube_ack('mine', 0, 1)",
    "select trunkline.tube_leave('mine', gen_random_uuid())",
    "select trunkline.tube_park('mine', 0, 1, 0, 0, '1', 1, 'x')",
    "select trunkline.tube_unpark('mine')",
    "select trunkline._tube_backfill_take(max(backfill))"
    " from trunkline.tube_backfill_status('mine')",
)
MANAGE = (
    "select trunkline.tube_ensure('mine', lanes => 2)",
    "select trunkline.tube_ensure('mine', condition => 'true')",
    "select trunkline.tube_attach('mine', 'theirs')",
    "select trunkline.tube_downstream('mine', 'postgres')",
    "select trunkline._tube_delete(trunkline._tube_row('mine'))",
    "select trunkline._tube_table_end({attachment})",
    "select trunkline._tube_backfill_restart({attachment})",
    "select trunkline._tube_hook_put({attachment}, 'pg_class')",
)


# Later checks: what there is, whose table it is, which epoch the lane has.
PASSED = {"42501", "TL404", "TL409", "TL422", "TL423"}


@pytest.fixture
def role(session: Session, connect: Connect) -> Iterator[Role]:
    with login_roles(session, connect) as make:
        yield make


@pytest.fixture
def owner(session: Session, role: Role) -> Session:
    """A writer with a tube, to which the orders are attached, and a backfill."""
    owner = role("trunkline_writer", owns="orders")
    ensure(owner, "mine")
    attach(owner, tube="mine")
    schedule(owner, "mine")
    return owner


@pytest.fixture
def other(session: Session, owner: Session, role: Role) -> Session:
    """Another writer, with a table."""
    other = role("trunkline_writer")
    other.execute("create table theirs (id int primary key)")
    return other


def attachment(session: Session) -> int:
    return int(
        ask(
            session,
            "select max(attachment) from trunkline.tube_table where relation = 'orders'::regclass",
        )
    )


def allowed(session: Session, statement: str, number: int) -> bool:
    """Whether a role may do it with the tube; it is rolled back."""
    with session.transaction(force_rollback=True):
        try:
            session.execute(statement.format(attachment=number).encode())
        except psycopg.Error as error:
            if error.sqlstate == "TL403":
                return False
            if error.sqlstate not in PASSED:
                raise
    return True


@pytest.mark.parametrize(
    ("granted", "may"),
    [
        (None, ()),
        ("append", APPEND),
        ("consume", CONSUME),
        ("manage", (*APPEND, *CONSUME, *MANAGE)),
    ],
)
def test_a_role_may_do_with_a_tube_what_was_granted(
    session: Session, owner: Session, other: Session, granted: str | None, may: tuple[str, ...]
) -> None:
    number = attachment(session)
    for privilege, base in (("append", "trunkline_writer"), ("consume", "trunkline_reader")):
        owner.execute("select trunkline.revoke_on('tube:mine', %s, %s)", [privilege, base])
    if granted:
        owner.execute("select trunkline.grant_on('tube:mine', %s, %s)", [granted, name_of(other)])
    for statement in (*APPEND, *CONSUME, *MANAGE):
        assert allowed(other, statement, number) is (statement in may), statement
        assert allowed(session, statement, number), statement


def test_new_tubes_are_open_to_the_base_roles_but_for_managing(
    session: Session, owner: Session, other: Session
) -> None:
    number = attachment(session)
    for statement in (*APPEND, *CONSUME):
        assert allowed(other, statement, number), statement
    for statement in MANAGE:
        assert not allowed(other, statement, number), statement
    assert allowed(owner, "select trunkline.tube_ensure('mine')", number)
    assert allowed(other, "select trunkline.tube_ensure('mine')", number)  # which changes nothing


def test_tubes_are_closed_where_new_objects_are(
    session: Session, owner: Session, other: Session
) -> None:
    session.execute("select trunkline.config_set('objects.open', 'false')")
    ensure(owner, "closed")
    with refused("TL403") as caught:
        other.execute("select * from trunkline.tube_read('closed', 0, 0, 1, 9)")
    assert "grant_on('tube:closed', 'consume'" in str(caught.value.diag.message_hint)


def test_the_owner_of_a_table_may_always_detach_it(
    session: Session, owner: Session, other: Session
) -> None:
    owner.execute("select trunkline.grant_on('tube:mine', 'manage', %s)", [name_of(other)])
    attach(other, "theirs", "mine")
    owner.execute("select trunkline.revoke_on('tube:mine', 'manage', %s)", [name_of(other)])
    with refused("TL403"):
        other.execute("select trunkline.tube_attach('mine', 'theirs', condition => 'id > 0')")
    assert call(other, "tube_detach", tube="mine", relation="theirs") == [(True,)]


def test_listings_show_the_owner_and_a_drop_ends_the_object(
    session: Session, owner: Session
) -> None:
    listed = "select distinct owner from trunkline.tube_list() where tube = 'mine'"
    assert column(session, listed) == [name_of(owner)]
    assert ask(
        session, "select owner from trunkline.object_list() where object = 'tube:mine'"
    ) == name_of(owner)
    call(owner, "tube_drop", tube="mine", force=True)
    assert ask(session, "select count(*) from trunkline.object where object = 'tube:mine'") == 0
