"""Which tables are live, by a call or by their comment, and who may subscribe to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.fixtures.asking import ask, call, called, column, refused
from tests.fixtures.roles import login_roles
from tests.live.steps import CONTACTS, Reading, app_role, contacts, lease, subscribe, watch

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.asking import Session


def live(session: Session) -> list[str]:
    return column(session, "select name from trunkline.live_tables() order by name")


def tagged(session: Session) -> list[tuple[str, bool]]:
    return [(str(relation), on) for relation, on in call(session, "live_watch_tagged")]


def test_a_live_table_tells_its_key_and_what_can_be_asked_of_its_columns(session: Session) -> None:
    session.execute(
        "create type mood as enum ('sad', 'glad');"
        "create domain price as numeric(10, 2);"
        "create table things (a int, b text[], c price, m mood, j jsonb, x point not null,"
        " primary key (b, a)); comment on column things.c is 'in euros'"
    )
    watch(session, "things")
    (table,) = called(session, "live_tables").fetchall()
    assert table["key_columns"] == ["b", "a"]
    assert [(c["name"], c["kind"], c["array"]) for c in table["columns"]] == [
        ("a", "number", False),
        ("b", "text", True),
        ("c", "number", False),
        ("m", "ordered", False),
        ("j", "json", False),
        ("x", "other", False),
    ]
    assert table["columns"][2]["comment"] == "in euros"
    assert table["columns"][3]["labels"] == ["sad", "glad"]


def test_watching_again_changes_nothing_and_adds_roles(session: Session) -> None:
    contacts(session)
    number = subscribe(session)
    with app_role(session) as role:
        watch(session, roles=[role])
        assert column(session, "select subscription from trunkline.live_subscriptions()") == [
            number
        ]
        assert column(session, "select role from trunkline.live_role") == [role]


def test_a_table_without_a_primary_key_is_refused_and_not_watched(session: Session) -> None:
    session.execute("create table heap (id int)")
    with refused("TL422"):
        watch(session, "heap")
    assert call(session, "broker_watched") == []


def test_a_table_that_is_watched_for_some_writes_only_is_refused(session: Session) -> None:
    session.execute(CONTACTS)
    call(session, "broker_watch", relation="contacts", condition="org_id = 1")
    with refused("TL409"):
        watch(session)


def test_a_table_that_was_watched_before_stays_watched_after_it_is_live_no_longer(
    session: Session,
) -> None:
    session.execute(CONTACTS)
    call(session, "broker_watch", relation="contacts")
    watch(session)
    assert ask(session, "select trunkline.live_unwatch('contacts')")
    assert len(call(session, "broker_watched")) == 1


def test_a_table_is_watched_as_long_as_it_is_live(session: Session) -> None:
    contacts(session)
    subscribe(session)
    assert ask(session, "select trunkline.live_unwatch('contacts')")
    assert call(session, "broker_watched") == []
    assert call(session, "live_subscriptions") == []
    assert not ask(session, "select trunkline.live_unwatch('contacts')")


def test_a_comment_makes_a_table_live_and_its_loss_ends_that(session: Session) -> None:
    session.execute(f"{CONTACTS}; comment on table contacts is $$\n@behaviour +subscribable\n$$")
    assert tagged(session) == [("contacts", True)]
    assert tagged(session) == []
    assert live(session) == ["contacts"]
    session.execute("comment on table contacts is 'people'")
    assert tagged(session) == [("contacts", False)]
    assert live(session) == []


def test_who_calls_live_watch_makes_a_tagged_table_live_for_good(session: Session) -> None:
    session.execute(f"{CONTACTS}; comment on table contacts is '@behavior +subscribable -x'")
    tagged(session)
    watch(session)
    session.execute("comment on table contacts is null")
    assert tagged(session) == []
    assert live(session) == ["contacts"]


def test_two_tables_of_one_name_have_two_names(session: Session) -> None:
    contacts(session)
    session.execute("create schema other; create table other.contacts (id int primary key)")
    watch(session, "other.contacts")
    assert live(session) == ["contacts", "other.contacts"]


def test_a_table_that_was_dropped_is_live_no_longer(session: Session) -> None:
    contacts(session)
    subscribe(session)
    session.execute("drop table contacts")
    session.execute("call trunkline.maintain()")
    assert live(session) == []
    assert ask(session, "select count(*) from trunkline.live_subscription") == 0


def test_only_the_owner_makes_a_table_live(
    session: Session, connect: Callable[..., Session]
) -> None:
    session.execute(CONTACTS)
    with login_roles(session, connect) as role:
        stranger, owner = role("trunkline_writer"), role("trunkline_writer", owns="contacts")
        with refused("TL403"):
            watch(stranger)
        watch(owner)
        with refused("TL403"):
            call(stranger, "live_unwatch", relation="contacts")
        assert live(session) == ["contacts"]
        assert call(owner, "live_unwatch", relation="contacts") == [(True,)]


@pytest.mark.parametrize(
    ("given", "state"),
    [
        ({"relation": "nowhere"}, "42P01"),
        ({"roles": ["no_such_role"]}, "TL404"),
        ({"columns": ["nothing"]}, "TL422"),
        ({"relation": "pg_class"}, "TL422"),
    ],
)
def test_bad_input_is_refused_and_leaves_no_live_table(
    session: Session, given: dict[str, Any], state: str
) -> None:
    session.execute(CONTACTS)
    with refused(state):
        watch(session, **given)
    assert live(session) == []
    assert call(session, "broker_watched") == []


def test_a_role_that_was_not_allowed_cannot_subscribe(session: Session) -> None:
    contacts(session)
    with app_role(session, "usage on schema public", "select on contacts") as role:
        session.execute(f"set role {role}")
        with refused("42501"):
            subscribe(session)
        session.execute("reset role")
        call(session, "live_allow", role=role)
        session.execute(f"set role {role}")
        assert subscribe(session) > 0


def test_grants_to_allowed_roles_survive_another_grant_of_roles(session: Session) -> None:
    contacts(session)
    with app_role(session, "usage on schema public", "select on contacts") as role:
        call(session, "live_allow", role=role)
        session.execute("select trunkline.roles_grant()")
        session.execute(f"set role {role}")
        assert subscribe(session) > 0


def test_subscriptions_end_with_the_lease_of_their_process_and_permanent_ones_stay(
    session: Session,
) -> None:
    contacts(session)
    process = lease(session)
    passing, lasting = subscribe(session, process=process), subscribe(session)
    session.execute("call trunkline.maintain()")
    numbers = "select subscription from trunkline.live_subscriptions() order by 1"
    assert column(session, numbers) == [passing, lasting]
    session.execute("select trunkline.lease_end(%s)", [process])
    session.execute("call trunkline.maintain()")
    assert column(session, numbers) == [lasting]


def test_a_permanent_subscription_is_read_by_its_number(session: Session) -> None:
    contacts(session)
    reading = Reading(session, subscribe(session, {"org_id": 7}))
    session.execute("insert into contacts values (1, 7, 'a'), (2, 8, 'b')")
    assert reading.keys() == [1]


def test_shapes_that_nobody_uses_are_forgotten(session: Session) -> None:
    contacts(session)
    number = subscribe(session, {"org_id": 7})
    session.execute("select trunkline.live_unsubscribe(%s)", [number])
    session.execute("call trunkline.maintain()")
    assert ask(session, "select count(*) from trunkline.live_shape") == 0


def test_a_role_is_shown_only_the_tables_and_columns_that_it_may_select(session: Session) -> None:
    session.execute(
        "create role looker; create schema app; create table app.a (id int primary key)"
    )
    session.execute(
        "create table b (id int primary key, secret text); create table c (id int primary key)"
    )
    try:
        for table in ("app.a", "b", "c"):
            session.execute("select trunkline.live_watch(%s)", [table])
        session.execute("grant select on app.a to looker; grant select (id) on b to looker")
        query = (
            "select name, (select array_agg(c ->> 'name') from jsonb_array_elements(columns) c)"
            " from trunkline.live_tables(role => 'looker')"
        )
        assert session.execute(query).fetchall() == [("b", ["id"])]
        session.execute("grant usage on schema app to looker")
        assert session.execute(query).fetchall() == [("a", ["id"]), ("b", ["id"])]
    finally:
        session.execute("drop owned by looker; drop role looker")
    with refused("TL404"):
        session.execute("select trunkline.live_tables(role => 'looker')")
