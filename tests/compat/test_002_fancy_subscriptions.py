"""The statements and the GraphQL that the document of fancy-subscriptions prints, as printed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
import pytest
from psycopg.types.json import Jsonb
from tests.fixtures.asking import ask, column, refused
from tests.gateway.nodes import open_node

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.fixtures.asking import Connect, Session
    from tests.gateway.nodes import Node

TABLE = """
create schema app;
create table app.contacts (
  row_id bigint primary key, org_id text not null, name text, phone_number text,
  messages_sent int, platform_names text[]);
grant usage on schema app to app_user;
grant select on app.contacts to app_user;
"""
COMMENT = """
comment on table app.contacts is $$
@behaviour +subscribable
$$;
"""
POLICY = """
CREATE POLICY app_user_subscriptions ON postgraphile_meta.subscriptions
FOR ALL TO "app_user"
USING (
	-- subscriptions aren't really selected by the role that's creating them,
	-- so this rule is just an added security measure
	additional_data->'inputCondition'->>'orgId'
		= current_setting('app.org_id')
)
WITH CHECK (
	-- the additional_data column stores arbitrary data for the subscription
	-- "inputCondition" is a JSONB object that contains the condition object
	-- that was passed to the subscription

	-- this ensures that a subscription can only be created for the current organization.
	additional_data->'inputCondition'->>'orgId'
		= current_setting('app.org_id')
);
"""
DOCUMENT = """
subscription UpdatedContacts {
  contactsUpdated(
		# conditions available in your connection query will be available here
    condition: {
      orgId: "default-org-id"
    }
  ) {
		# a unique identifier for the subscription event
    eventId
    items {
			# the key contains primary columns of the table,
			# if the NodeID plugin is enabled, this will be the NodeID
      key {
        rowId
      }
			# which columns were changed
      patch {
        rowId
        messagesSent
        platformNames
        name
        phoneNumber
      }
    }
  }
}
"""
REMOVE = "SELECT fancy_subscriptions.remove_subscribable('app.contacts');"
DEVICE = "my-device-id"


class Event(NamedTuple):
    """A row of `get_events_for_subscriptions`."""

    id: str
    topic: str
    row_data: Any
    row_before: Any
    diff: Any
    subscription_ids: list[str]


@pytest.fixture
def contacts(session: Session) -> Iterator[Session]:
    """A session of the owner of a table that the role of the document may subscribe to."""
    session.execute("create role app_user")
    try:
        session.execute(TABLE + COMMENT)
        session.execute("select trunkline.live_watch_tagged()")
        session.execute("select trunkline.live_allow('app_user')")
        yield session
    finally:
        session.execute("reset role; drop owned by app_user cascade; drop role app_user")


@pytest.fixture
async def node(compat_dsn: str, contacts: Session) -> AsyncIterator[Node]:
    async with open_node(compat_dsn, contacts, jwt_settings={"app.org_id": "org"}) as opened:
        yield opened


def events(session: Session, batch_size: int = 250) -> list[Event]:
    query = "SELECT * FROM fancy_subscriptions.get_events_for_subscriptions(%s, %s)"
    return [Event(*row) for row in session.execute(query, [DEVICE, batch_size])]


def subscribe(session: Session, condition: dict[str, Any], **given: Any) -> str:
    """Subscribe for the device; the id of the subscription."""
    more = "".join(f", {name} => %({name})s" for name in given)
    number = ask(
        session,
        "select subscription from trunkline.live_subscribe('app.contacts', %(condition)s,"
        f" process => fancy_subscriptions.device_process(%(device)s){more})",
        {"condition": Jsonb(condition), "device": DEVICE, **given},  # type: ignore[arg-type]
    )
    return str(number)


def active(session: Session) -> None:
    session.execute("SELECT fancy_subscriptions.mark_device_active(%s)", [DEVICE])


def insert(session: Session, number: int, org: str = "org1", name: str = "Anna") -> None:
    session.execute("insert into app.contacts values (%s, %s, %s)", [number, org, name])


def test_the_comment_makes_a_table_live_and_its_removal_ends_that(contacts: Session) -> None:
    live = "select name from trunkline.live_tables()"
    assert column(contacts, live) == ["contacts"]
    contacts.execute("comment on table app.contacts is null")
    contacts.execute(REMOVE)
    assert column(contacts, live) == []
    contacts.execute(REMOVE)
    contacts.execute("SELECT fancy_subscriptions.make_subscribable('app.contacts')")
    assert column(contacts, live) == ["contacts"]


async def test_the_printed_operation_tells_of_updates(node: Node) -> None:
    node.write(
        "insert into app.contacts values (1, 'default-org-id', 'Anna', '1', 0, '{web}'),"
        " (2, 'other', 'Bob', '2', 0, '{web}')"
    )
    async with node.talk("app_user", org="default-org-id") as talk:
        await talk.subscribe(node.gateway, DOCUMENT)
        node.write("update app.contacts set messages_sent = 1")
        told = (await talk.next())["contactsUpdated"]
    assert told["eventId"]
    patch = {"rowId": None, "messagesSent": 1, "platformNames": None}
    assert told["items"] == [
        {"key": {"rowId": "1"}, "patch": {**patch, "name": None, "phoneNumber": None}}
    ]


async def test_the_printed_policy_decides_who_may_subscribe(node: Node) -> None:
    node.session.execute(POLICY)
    async with node.talk("app_user", org="another") as talk:
        await talk.send(DOCUMENT)
        assert (await talk.error())["extensions"]["code"] == "TL403"
    async with node.talk("app_user", org="default-org-id") as talk:
        await talk.send("subscription { contactsUpdated { items { key { rowId } } } }")
        assert (await talk.error())["extensions"]["code"] == "TL403", (
            "no condition, no organization"
        )
        await talk.subscribe(node.gateway, DOCUMENT)
    with refused("42501"):
        direct(node.session, '{"org_id": {"gt": "a"}}')


def direct(session: Session, condition: str) -> None:
    """Subscribe in SQL as the role of the document."""
    with session.transaction():
        session.execute("set local role app_user; set local app.org_id = 'default-org-id'")
        session.execute("select trunkline.live_subscribe('app.contacts', %s::jsonb)", [condition])


def test_the_row_of_a_policy_says_what_the_subscription_asks_for(contacts: Session) -> None:
    contacts.execute(POLICY)
    direct(contacts, '{"org_id": "default-org-id", "messages_sent": {"gte": 5}}')
    rows = contacts.execute(
        "select topic, is_temporary, additional_data from postgraphile_meta.subscriptions"
    )
    asked = {"orgId": "default-org-id", "messagesSent": {"gte": 5}}
    assert rows.fetchall() == [("app.contacts", False, {"inputCondition": asked})]
    contacts.execute(
        "select trunkline.live_unsubscribe(subscription) from trunkline.live_subscriptions()"
    )
    assert ask(contacts, "select count(*) from postgraphile_meta.subscriptions") == 0


def test_no_role_can_read_or_change_the_rows_of_policies(contacts: Session) -> None:
    direct(contacts, "{}")
    for statement in (
        "select * from postgraphile_meta.subscriptions",
        "delete from postgraphile_meta.subscriptions",
        "update postgraphile_meta.subscriptions set topic = 'x'",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege), contacts.transaction():
            contacts.execute("set local role app_user")
            contacts.execute(statement)


def test_a_device_gets_each_change_once_for_its_subscriptions(contacts: Session) -> None:
    active(contacts)
    first = subscribe(contacts, {"org_id": "org1"})
    second = subscribe(contacts, {"name": "Anna"})
    insert(contacts, 1)
    insert(contacts, 2, org="org2", name="Bob")
    contacts.execute("update app.contacts set name = 'Anne' where row_id = 1")
    contacts.execute("delete from app.contacts where row_id = 1")
    made, changed, gone = events(contacts)
    assert (made.topic, made.row_data["name"]) == ("app.contacts.INSERT", "Anna")
    assert sorted(made.subscription_ids) == sorted([first, second])
    assert (changed.topic, changed.row_before["name"]) == ("app.contacts.UPDATE", "Anna")
    assert (changed.diff, changed.subscription_ids) == ({"name": "Anne"}, [first])
    assert (gone.topic, gone.row_data["name"]) == ("app.contacts.DELETE", "Anne")
    assert events(contacts) == []


def test_a_batch_is_bounded_and_the_next_call_goes_on(contacts: Session) -> None:
    active(contacts)
    subscribe(contacts, {})
    for number in range(5):
        insert(contacts, number)
    batches = [[event.row_data["row_id"] for event in events(contacts, 2)] for _ in range(4)]
    assert batches == [[0, 1], [2, 3], [4], []]


def test_a_change_that_commits_late_is_not_missed(contacts: Session, connect: Connect) -> None:
    """There an open transaction holds up all others; here only its own changes wait."""
    active(contacts)
    subscribe(contacts, {})
    late = connect(autocommit=False)
    insert(late, 1)
    insert(contacts, 2)
    assert [event.row_data["row_id"] for event in events(contacts)] == [2]
    late.commit()
    assert [event.row_data["row_id"] for event in events(contacts)] == [1]


def test_a_cursor_that_is_rolled_back_reads_again(contacts: Session) -> None:
    active(contacts)
    subscribe(contacts, {})
    insert(contacts, 1)
    with pytest.raises(psycopg.errors.DivisionByZero), contacts.transaction():
        assert len(events(contacts)) == 1
        contacts.execute("select 1 / 0")
    assert len(events(contacts)) == 1


def test_temporary_subscriptions_end_and_permanent_ones_stay(contacts: Session) -> None:
    active(contacts)
    subscribe(contacts, {})
    direct(contacts, "{}")
    contacts.execute("SELECT fancy_subscriptions.remove_temp_subscriptions(%s)", [DEVICE])
    assert column(contacts, "select process from trunkline.live_subscriptions()") == [None]


def test_fields_narrow_the_updates_of_a_subscription(contacts: Session) -> None:
    active(contacts)
    subscribe(contacts, {}, columns=["phone_number"])
    insert(contacts, 1)
    contacts.execute("update app.contacts set name = 'x'")
    contacts.execute("update app.contacts set phone_number = '5'")
    assert [event.diff for event in events(contacts)] == [None, {"phone_number": "5"}]


def test_a_device_is_of_the_role_that_made_it(contacts: Session) -> None:
    active(contacts)
    with refused("TL404"), contacts.transaction():
        contacts.execute("grant trunkline_reader to app_user")
        contacts.execute("set local role app_user")
        events(contacts)


def test_rows_that_policies_may_hide_are_not_told(contacts: Session) -> None:
    active(contacts)
    subscribe(contacts, {})
    insert(contacts, 1)
    contacts.execute("alter table app.contacts enable row level security")
    with refused("TL409"):
        events(contacts)


async def test_a_value_in_place_of_operators_is_an_equality(node: Node) -> None:
    """The same short form as in SQL and over HTTP; other types than the column's are refused."""
    node.session.execute("grant select on app.contacts to app_user")
    query = "subscription {{ contactsCreated(condition: {{{}}}) {{ items {{ name }} }} }}"
    async with node.talk("app_user", org="x") as talk:
        await talk.subscribe(node.gateway, query.format('messagesSent: 5, name: {icontains: "nn"}'))
        node.write(
            "insert into app.contacts (row_id, org_id, name, messages_sent)"
            " values (1, 'x', 'Anna', 5), (2, 'x', 'Bob', 5), (3, 'x', 'Hanna', 6)"
        )
        assert (await talk.next())["contactsCreated"] == {"items": [{"name": "Anna"}]}
        await talk.send(query.format('messagesSent: "5"'))
        assert "Int cannot represent" in (await talk.error())["message"]


def test_upkeep_can_be_called_at_any_time(session: Session) -> None:
    session.execute("SELECT fancy_subscriptions.maintain_events_table()")
