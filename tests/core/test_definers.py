"""Functions that run with the rights of the schema's owner: which they are, who may call them.

`definers.txt` holds the list. After a change look at the difference, and write it anew with
``TRUNKLINE_WRITE_DEFINERS=1 python -m pytest tests/core/test_definers.py``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.fixtures.asking import ask, column, connections, refused
from tests.fixtures.roles import login_roles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.asking import Session
    from tests.fixtures.roles import Role

HELD = Path(__file__).with_name("definers.txt")
GRANTED = """
select p.oid::regprocedure::text as name, coalesce(r.roles, 'none') as roles
  from pg_proc p cross join lateral (
    select string_agg(case x.grantee when 0 then 'public' else pg_get_userbyid(x.grantee) end, ' '
                      order by x.grantee = 0, pg_get_userbyid(x.grantee)) as roles
      from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) x
     where x.grantee <> p.proowner) r
 where p.pronamespace = 'trunkline'::regnamespace and p.prosecdef order by 1"""
REASONS = {
    "compatibility()": "clients ask it before they know what they may do; it returns two numbers",
    "_tube_capture(integer,text,integer[],text[])": "triggers run as the role that writes;"
    " by hand it brings keys of an attached table up once more, whose rows then decide",
    "_tube_capture_truncate(integer)": "triggers run as the role that truncates the table;"
    " by hand it has documents looked at once more",
    "_tube_note_gap(integer,text)": "triggers run as the role that writes the table;"
    " it keeps at most 100 open gaps of an attachment",
}


@pytest.fixture
def session(dsn: str) -> Iterator[Session]:
    with connections(dsn) as connect:
        yield connect()


@pytest.fixture
def role(session: Session, dsn: str) -> Iterator[Role]:
    with connections(dsn) as connect, login_roles(session, connect) as make:
        yield make


def granted(session: Session) -> dict[str, str]:
    session.execute("set search_path = trunkline")
    return {str(name): str(roles) for name, roles in session.execute(GRANTED)}


def test_the_functions_that_run_as_the_owner_are_those_of_the_list(session: Session) -> None:
    lines = [f"{name} {roles}" for name, roles in granted(session).items()]
    if os.environ.get("TRUNKLINE_WRITE_DEFINERS"):
        HELD.write_text("\n".join(lines) + "\n")
    held = HELD.read_text().splitlines()
    assert sorted(set(lines) - set(held)) == [], "new, or open to others: see the head of this file"
    assert sorted(set(held) - set(lines)) == [], "gone"


def test_each_one_that_every_role_may_call_has_a_reason(session: Session) -> None:
    public = {name for name, roles in granted(session).items() if "public" in roles.split()}
    assert public - set(REASONS) == set()
    assert set(REASONS) - public == set(), "a reason without a function"


def test_a_role_without_grants_writes_a_bounded_number_of_gaps(
    session: Session, role: Role
) -> None:
    session.execute(
        "create table item (id int primary key);"
        "select trunkline.tube_ensure('feed'); select trunkline.tube_attach('feed', 'item')"
    )
    stranger = role()
    note = "select trunkline._tube_note_gap(%s, repeat('x', 100000)) from generate_series(1, 2000)"
    attachment = ask(session, "select attachment from trunkline.tube_table")
    for number in (attachment, attachment, attachment + 1, None):
        stranger.execute(note, [number])
    assert column(session, "select distinct length(error) from trunkline.tube_gap") == [1000]
    assert ask(session, "select count(*) from trunkline.tube_gap") == 100
    with refused("42501"):
        stranger.execute("select * from trunkline.tube_gap")
