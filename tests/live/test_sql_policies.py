"""Row-level security: which rows a role is told of, and who may subscribe to what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.fixtures.asking import ask, call, refused
from tests.fixtures.roles import login_roles
from tests.live.steps import app_role, contacts, subscribe, visible, watch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures.asking import Session

BY_ORG = (
    "alter table contacts enable row level security;"
    "create policy by_org on contacts using (org_id = current_setting('app.org_id')::int)"
)
MINE, THEIRS = {"id": 1, "org_id": 7}, {"id": 2, "org_id": 8}


@pytest.fixture
def role(session: Session) -> Iterator[str]:
    """A role that may subscribe to contacts."""
    contacts(session)
    with app_role(session, "usage on schema public", "select on contacts") as name:
        call(session, "live_allow", role=name)
        yield name


def test_policies_decide_which_rows_a_role_sees(session: Session, role: str) -> None:
    session.execute(BY_ORG)
    assert visible(session, role, [MINE, THEIRS, None], app__org_id="7") == [True, False, False]
    assert visible(session, role, [MINE, THEIRS], app__org_id="8") == [False, True]


def test_without_row_level_security_every_row_is_seen(session: Session, role: str) -> None:
    assert visible(session, role, [MINE, THEIRS, None]) == [True, True, False]


def test_where_no_policy_is_for_a_role_it_sees_nothing(session: Session, role: str) -> None:
    session.execute("alter table contacts enable row level security")
    assert visible(session, role, [MINE]) == [False]


def test_policies_are_joined_as_the_server_joins_them(session: Session, role: str) -> None:
    session.execute(
        "alter table contacts enable row level security;"
        "create policy a on contacts using (org_id = 7);"
        "create policy b on contacts for select using (id = 2);"
        "create policy c on contacts for insert with check (true);"
        "create policy d on contacts as restrictive using (id < 3)"
    )
    rows = [MINE, THEIRS, {"id": 3, "org_id": 7}, {"id": 1, "org_id": 8}]
    assert visible(session, role, rows) == [True, True, False, False]  # type: ignore[arg-type]


def test_judging_leaves_role_and_settings_as_they_were(session: Session, role: str) -> None:
    session.execute(BY_ORG)
    session.execute("set app.org_id = '1'")
    with session.transaction():
        visible(session, role, [MINE], app__org_id="7")
        who = ask(session, "select current_user || current_setting('app.org_id')")
    assert who == ask(session, "select session_user || '1'")


def test_policies_run_with_the_rights_of_the_role(session: Session, role: str) -> None:
    session.execute(
        "alter table contacts enable row level security;"
        "create policy who on contacts using (name = current_user)"
    )
    assert visible(session, role, [{"id": 1, "name": role}, {"id": 2, "name": "x"}]) == [
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("setup", "said"),
    [
        (
            "create table members (org int);"
            "create policy p on contacts using (org_id in (select org from members))",
            "looks into tables",
        ),
        (
            "create function mine(int) returns bool language sql stable as 'select true';"
            "create policy p on contacts using (mine(org_id))",
            "may look into tables",
        ),
    ],
)
def test_a_policy_that_looks_elsewhere_is_refused_by_its_name(
    session: Session, role: str, setup: str, said: str
) -> None:
    session.execute(f"alter table contacts enable row level security; {setup}")
    session.execute(f"set role {role}")
    with refused("TL422") as error:
        subscribe(session)
    assert "policy p of table" in str(error.value)
    assert said in str(error.value)


def test_a_policy_may_call_functions_that_take_nothing_or_are_immutable(
    session: Session, role: str
) -> None:
    session.execute(
        "create function org() returns int language sql stable as"
        " $$ select current_setting('app.org_id')::int $$;"
        "create function same(int, int) returns bool language sql immutable as 'select $1 = $2';"
        "alter table contacts enable row level security;"
        "create policy p on contacts using (same(org_id, org()))"
    )
    assert visible(session, role, [MINE, THEIRS], app__org_id="7") == [True, False]


def test_a_policy_on_a_column_that_is_not_told_is_refused(session: Session) -> None:
    """Without the column it would be judged as if that were NULL."""
    session.execute(
        "create table notes (id int primary key, text text, hidden bool);"
        "alter table notes enable row level security;"
        "create policy shown on notes using (hidden is not true)"
    )
    watch(session, "notes", columns=["text"])
    with app_role(session, "usage on schema public", "select on notes") as role:
        call(session, "live_allow", role=role)
        session.execute(f"set role {role}")
        with refused("TL422") as error:
            subscribe(session, relation="notes")
    assert "column hidden" in str(error.value)


def test_a_policy_on_subscriptions_says_who_may_ask_for_what(session: Session, role: str) -> None:
    session.execute(
        "create policy by_org on trunkline.live_subscription for all"
        " with check (condition #>> '{org_id,eq}' = current_setting('app.org_id'))"
    )
    try:
        session.execute(f"set role {role}; set app.org_id = '7'")
        assert subscribe(session, {"org_id": 7}) > 0
        for other in ({"org_id": 8}, {"org_id": {"in": [7, 8]}}, None):
            with refused("42501"):
                subscribe(session, other)
    finally:
        session.execute("reset role; drop policy by_org on trunkline.live_subscription")


def test_a_role_is_told_of_no_column_that_it_may_not_select(session: Session) -> None:
    contacts(session)
    with app_role(session, "usage on schema public", "select (id, name) on contacts") as role:
        call(session, "live_allow", role=role)
        assert call(session, "live_access", relation="contacts", role=role) == [
            (["id", "name"], False)
        ]
        session.execute(f"set role {role}")
        assert subscribe(session, {"name": "x"}) > 0
        for bad in ({"condition": {"org_id": 7}}, {"columns": ["tags"]}):
            with refused("TL403"):
                subscribe(session, **bad)


def test_a_role_that_may_not_select_the_key_cannot_subscribe(session: Session) -> None:
    contacts(session)
    with app_role(session, "usage on schema public", "select (name) on contacts") as role:
        call(session, "live_allow", role=role)
        session.execute(f"set role {role}")
        with refused("TL403"):
            subscribe(session)


def test_a_subscription_cannot_be_changed(session: Session) -> None:
    contacts(session)
    subscribe(session, {"org_id": 7})
    with refused("TL409"):
        session.execute("update trunkline.live_subscription set condition = '{}'")


def test_who_asks_in_the_name_of_a_role_must_be_a_member_of_it(
    session: Session, role: str, connect: Callable[..., Session]
) -> None:
    session.execute(BY_ORG)
    with login_roles(session, connect) as make:
        reader = make("trunkline_reader")
        with refused("TL403"):
            visible(reader, role, [MINE], app__org_id="7")
        session.execute(f"grant {role} to {ask(reader, 'select current_user')}")
        assert visible(reader, role, [MINE], app__org_id="7") == [True]


@pytest.mark.parametrize(
    "settings", ["[]", '{"role": "x"}', '{"app.x": 1}', '{"trunkline.x": "1"}', '{"a b.c": "1"}']
)
def test_settings_that_are_none_of_an_application_are_refused(
    session: Session, settings: str
) -> None:
    contacts(session)
    with refused("TL422"):
        session.execute(
            "insert into trunkline.live_subscription (relation, settings) values ('contacts', %s)",
            [settings],
        )
