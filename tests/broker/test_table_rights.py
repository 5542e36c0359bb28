"""Who sees the events of watched tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.broker.groups import match, subscribe
from tests.broker.steps import events, publish, tick
from tests.fixtures.asking import ask, call, column, refused
from tests.fixtures.roles import login_roles, name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures.asking import Session
    from tests.fixtures.roles import Role

TOPICS = {"topic": "public.contacts.*"}
SECRET = {"id": 1, "org": 1, "secret": "s3cret"}


@pytest.fixture
def role(session: Session, connect: Callable[..., Session]) -> Iterator[Role]:
    with login_roles(session, connect) as make:
        yield make
        session.execute("delete from trunkline.broker_group; delete from trunkline.log_topic")
        session.execute("drop table if exists contacts cascade")
        session.execute("select trunkline.broker_watches_check()")


@pytest.fixture
def owner(session: Session, role: Role) -> Session:
    """The owner of a watched table, with an event of its own between two of the table."""
    session.execute("create table contacts (id int primary key, org int, secret text)")
    made = role("trunkline_writer", owns="contacts")
    made.execute("select trunkline.broker_watch('contacts')")
    return made


def write(session: Session, number: int = 1) -> None:
    session.execute("insert into contacts values (%s, 1, 's3cret')", [number])


def seen(session: Session) -> list[Any]:
    """What a session sees of all events, by every function that shows them."""
    found = [event.payload for event in events(session)]
    scanned = call(session, "broker_scan", after=0)
    assert [row[4] for row in scanned if row[1] is not None] == found
    unread = call(session, "_broker_events_readable", from_position=1)
    assert [row[4] for row in unread] == found
    (explained,) = call(session, "broker_explain", condition="e.topic is not null")
    assert explained[3] == explained[4] == len(found)
    return found


def grant(session: Session, privilege: str, to: Session) -> None:
    call(session, "grant_on", object="table:public.contacts", privilege=privilege, role=name_of(to))


def test_a_reader_sees_no_event_of_a_watched_table_without_a_grant(
    session: Session, owner: Session, role: Role
) -> None:
    write(owner)
    publish(owner, "note", "n")
    tick(session)
    reader, writer, admin = (role(f"trunkline_{one}") for one in ("reader", "writer", "admin"))
    assert seen(reader) == seen(writer) == ["n"]
    assert seen(owner) == seen(admin) == seen(session) == [SECRET, "n"]
    grant(owner, "read", reader)
    assert seen(reader) == [SECRET, "n"]
    call(
        owner,
        "revoke_on",
        object="table:public.contacts",
        privilege="read",
        role=name_of(reader),
    )
    assert seen(reader) == ["n"]


def test_select_on_the_whole_table_shows_its_events_unless_policies_apply(
    session: Session, owner: Session, role: Role
) -> None:
    write(owner)
    tick(session)
    reader = role("trunkline_reader")
    owner.execute(f"grant select (id) on contacts to {name_of(reader)}")
    assert seen(reader) == []
    owner.execute(f"grant select on contacts to {name_of(reader)}")
    assert seen(reader) == [SECRET]
    owner.execute("alter table contacts enable row level security")
    assert seen(reader) == []
    assert seen(owner) == [SECRET]
    grant(owner, "read", reader)
    assert seen(reader) == [SECRET]


def test_events_of_a_table_that_is_watched_no_longer_stay_hidden(
    session: Session, owner: Session, role: Role
) -> None:
    write(owner)
    owner.execute("select trunkline.broker_unwatch('contacts')")
    tick(session)
    assert seen(role("trunkline_reader")) == []
    assert seen(session) == [SECRET]


def test_a_subscription_gets_what_its_owner_may_see(
    session: Session, owner: Session, role: Role
) -> None:
    spy, friend, reader = role("trunkline_reader"), role("trunkline_reader"), role()
    grant(owner, "read", friend)
    sql = "e.topic like 'public.contacts.%' and e.payload ->> 'secret' is not null"
    for number, session_ in enumerate((spy, friend, owner)):
        for condition in (TOPICS, sql):
            subscribe(session_, f"g{number}", condition, handler=str(condition)[:20])
    write(owner)
    publish(owner, "public.contacts.forged", "n")
    match(session)
    found = [
        [row[6] for row in call(session, "broker_deliveries", group_name=f"g{n}", **RANGE)]
        for n in range(3)
    ]
    assert found == [["n"], [SECRET, SECRET, "n"], [SECRET, SECRET, "n"]]
    assert ask(session, "select count(*) from trunkline.broker_quarantined()") == 0
    assert name_of(reader)


RANGE = {"from_delivery": 1, "to_delivery": 100}


def test_a_subscription_of_several_roles_gets_what_one_of_them_may_see(
    session: Session, owner: Session, role: Role
) -> None:
    spy = role("trunkline_reader")
    assert subscribe(spy, "shared", TOPICS) == subscribe(owner, "shared", TOPICS)
    subscribe(spy, "alone", TOPICS)
    write(owner)
    match(session)
    found = {
        group: [
            len(call(one, "broker_deliveries", group_name=group, **RANGE)) for one in (spy, owner)
        ]
        for group in ("shared", "alone")
    }
    assert found == {"shared": [0, 1], "alone": [0, 0]}


@pytest.mark.parametrize("big", [False, True], ids=["a few", "laid down"])
def test_a_condition_is_not_run_over_events_that_its_owner_may_not_see(
    session: Session, owner: Session, role: Role, big: bool
) -> None:
    """An error would tell their values."""
    spy = role("trunkline_reader")
    subscribe(spy, "spy", "(e.payload ->> 'secret')::int > 0")
    subscribe(spy, "late", "(e.payload ->> 'secret')::int > 1", from_position=1)
    if big:
        owner.execute("insert into contacts values (9, 1, repeat('s3cret', 1000))")
    write(owner)
    match(session)
    assert column(session, "select error from trunkline.broker_subscriptions()") == [None, None]
    with refused("TL422", "invalid input syntax"):
        call(session, "broker_scan", condition="(e.payload ->> 'secret')::int > 0", after=0)
    call(spy, "broker_scan", condition="(e.payload ->> 'secret')::int > 0", after=0)
    (tried,) = call(spy, "broker_explain", condition="(e.payload ->> 'secret')::int > 0")
    assert tried[6] is None


def test_a_topic_of_the_log_gets_what_its_owner_may_see(
    session: Session, owner: Session, role: Role
) -> None:
    spy = role("trunkline_writer")
    call(spy, "log_create", topic="public.contacts.insert")
    write(owner)
    publish(owner, "public.contacts.insert", "n")
    tick(session)
    call(session, "broker_forward", topic="public.contacts.insert")
    assert column(spy, "select value from trunkline.log_read('public.contacts.insert')") == [b'"n"']


def test_tables_that_exchange_their_names_keep_their_grants(
    session: Session, owner: Session, role: Role
) -> None:
    reader = role("trunkline_reader")
    grant(owner, "read", reader)
    owner.execute("create table others (id int primary key)")
    owner.execute("select trunkline.broker_watch('others')")
    owner.execute("alter table others rename to held; alter table contacts rename to others")
    owner.execute("alter table held rename to contacts")
    for name in ("contacts", "others"):
        owner.execute("select trunkline.broker_watch(%s)", [name])
    named = "select name, grants ? 'read' from trunkline.object_list('table') order by 1"
    assert session.execute(named).fetchall() == [
        ("public.contacts", False),
        ("public.others", True),
    ]
    session.execute("drop table others")
    session.execute("select trunkline.broker_watches_check()")


def test_the_owner_of_the_table_is_shown_and_may_share_it(session: Session, owner: Session) -> None:
    (listed,) = call(session, "object_list", kind="table")
    assert listed[:5] == ("table:public.contacts", "table", "public.contacts", name_of(owner), {})
    owner.execute("select trunkline.broker_unwatch('contacts')")
    assert call(session, "object_list", kind="table") == []
