"""GraphQL: what subscriptions tell of rows that change, and how they go on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import psycopg
import pytest
from gql import Client, gql
from gql.transport.websockets import WebsocketsTransport
from tests.broker.steps import tick
from tests.gateway.nodes import bearer, forget_history, opened

if TYPE_CHECKING:
    from typing import Any

    from tests.gateway.nodes import Node, OpenNode, Roles

pytestmark = pytest.mark.usefixtures("books")

CREATED = "subscription { booksCreated { eventId items { id title } } }"
UPDATED = "subscription { booksUpdated { items { key { id } patch { title } } } }"
CHANGED = (
    "subscription { booksChanged(condition: {creator: {eq: %s}}) { items { change key { id } } } }"
)
AFTER = "subscription ($after: String) { booksCreated(after: $after) { eventId items { id } } }"


async def test_an_insert_is_told_once_with_its_row(node: Node, roles: Roles) -> None:
    async with node.talk(roles.member) as talk:
        await talk.subscribe(node.gateway, CREATED)
        node.write("insert into books (id, title) values (1, 'One')")

        told = (await talk.next())["booksCreated"]
        assert told["items"] == [{"id": 1, "title": "One"}]
        assert told["eventId"]
        node.write("insert into books (id, title) values (2, 'Two')")
        assert (await talk.next())["booksCreated"]["items"] == [{"id": 2, "title": "Two"}]


async def test_a_common_client_is_served(node: Node, roles: Roles) -> None:
    url = f"ws{node.address.removeprefix('http')}/graphql"
    transport = WebsocketsTransport(
        url=url,
        init_payload=bearer(roles.member),
        subprotocols=[WebsocketsTransport.GRAPHQLWS_SUBPROTOCOL],
    )
    async with Client(transport=transport, fetch_schema_from_transport=True) as client:
        assert client.client.schema is not None
        assert client.client.schema.subscription_type is not None
        results = client.subscribe(gql(CREATED))
        following = asyncio.ensure_future(anext(results))
        await opened(node.gateway, 1)
        node.write("insert into books (id, title) values (1, 'One')")

        told = await asyncio.wait_for(following, 10)
        assert told["booksCreated"]["items"] == [{"id": 1, "title": "One"}]
        await results.aclose()


async def test_an_update_is_told_with_its_key_and_what_changed(node: Node, roles: Roles) -> None:
    node.write("insert into books (id, title, pages) values (1, 'One', 7)")
    query = """subscription { booksUpdated {
      items { key { id nodeId } patch { title pages } row { pages nodeId } entered } } }"""
    async with node.talk(roles.member) as talk:
        await talk.subscribe(node.gateway, query)
        node.write("update books set title = 'Uno' where id = 1")

        (item,) = (await talk.next())["booksUpdated"]["items"]
        assert item["key"]["id"] == 1
        assert item["patch"] == {"title": "Uno", "pages": None}
        assert item["row"]["pages"] == 7
        assert item["row"]["nodeId"] == item["key"]["nodeId"]
        assert item["entered"] is False


async def test_a_delete_is_told_with_its_key_and_the_row_that_was(node: Node, roles: Roles) -> None:
    node.write("insert into books (id, title) values (1, 'One')")
    query = "subscription { booksDeleted { truncated items { key { id } row { title } } } }"
    async with node.talk(roles.member) as talk:
        await talk.subscribe(node.gateway, query)
        node.write("delete from books", "insert into books values (2)", "truncate books")

        told = [(await talk.next())["booksDeleted"]]
        if not told[0]["truncated"]:
            told.append((await talk.next())["booksDeleted"])
        assert [item for each in told for item in each["items"]] == [
            {"key": {"id": 1}, "row": {"title": "One"}}
        ]
        assert told[-1]["truncated"] is True


async def test_all_changes_come_in_order_with_what_enters_and_leaves(
    node: Node, roles: Roles
) -> None:
    node.write("insert into books (id, creator) values (1, 'ann'), (2, 'bob')")
    async with node.talk(roles.member) as talk:
        await talk.subscribe(node.gateway, CHANGED % '"ann"')
        node.write(
            "insert into books (id, creator) values (3, 'ann')",
            "update books set title = 'x' where id in (1, 2)",
            "update books set creator = 'ann' where id = 2",
            "update books set creator = 'bob' where id = 1",
            "delete from books where id in (1, 3)",
            "truncate books",
        )

        found: list[tuple[str, Any]] = []
        while not found or found[-1][0] != "TRUNCATED":
            items = (await talk.next())["booksChanged"]["items"]
            found += [(item["change"], item["key"] and item["key"]["id"]) for item in items]
        assert found == [
            ("CREATED", 3),
            ("UPDATED", 1),
            ("ENTERED", 2),
            ("LEFT", 1),
            ("DELETED", 3),
            ("TRUNCATED", None),
        ]


async def test_a_row_that_leaves_is_announced_by_its_key(node: Node, roles: Roles) -> None:
    node.write("insert into books (id, pages) values (1, 10)")
    query = "subscription { booksLeft(condition: {pages: {lte: 10}}) { items { key { id } } } }"
    async with node.talk(roles.member) as talk:
        await talk.subscribe(node.gateway, query)
        node.write("update books set pages = 11")

        assert (await talk.next())["booksLeft"]["items"] == [{"key": {"id": 1}}]


async def test_another_tenants_row_reaches_only_that_tenant(node: Node, roles: Roles) -> None:
    async with node.talk(roles.member) as ann, node.talk(roles.member) as bob:
        await ann.subscribe(node.gateway, CHANGED % '"ann"')
        await bob.subscribe(node.gateway, CHANGED % '"bob"')
        node.write("insert into books (id, creator) values (1, 'bob')")
        node.write("insert into books (id, creator) values (2, 'ann')")

        assert (await ann.next())["booksChanged"]["items"][0]["key"] == {"id": 2}
        assert (await bob.next())["booksChanged"]["items"][0]["key"] == {"id": 1}


async def test_rows_written_at_once_come_together(
    node: Node, roles: Roles, gateway_dsn: str
) -> None:
    async with node.talk(roles.member) as talk:
        await talk.subscribe(node.gateway, CREATED)

        async def insert(number: int) -> None:
            async with await psycopg.AsyncConnection.connect(gateway_dsn) as connection:
                await connection.execute(
                    "insert into books (id, title) values (%s, %s)", [number, f"Book {number}"]
                )

        await asyncio.gather(*map(insert, range(10)))
        tick(node.session)

        items: list[Any] = []
        messages = 0
        while len(items) < 10:
            items += (await talk.next())["booksCreated"]["items"]
            messages += 1
        assert messages < 10
        assert sorted(item["id"] for item in items) == list(range(10))
        assert all(item["title"] == f"Book {item['id']}" for item in items)


@pytest.mark.parametrize(
    "patch",
    [
        "patch { title }",
        "patch { ...Some } ",
        "patch { ... on BooksPatch { name: title } pages @skip(if: true) }",
        "patch { title pages @include(if: false) __typename }",
    ],
)
async def test_only_updates_of_the_columns_that_are_selected_under_patch_are_told(
    node: Node, roles: Roles, patch: str
) -> None:
    node.write("insert into books (id, title, pages) values (1, 'One', 7)")
    query = f"subscription {{ booksUpdated {{ items {{ key {{ id }} {patch} }} }} }}"
    if "Some" in patch:
        query += " fragment Some on BooksPatch { title }"
    async with node.talk(roles.member) as talk:
        await talk.subscribe(node.gateway, query)
        node.write("update books set pages = 8", "update books set title = 'Uno'")
        node.write("update books set title = 'Due'")

        found: list[Any] = []
        while len(found) < 2:
            found += (await talk.next())["booksUpdated"]["items"]
        titles = [item["patch"].get("title", item["patch"].get("name")) for item in found]
        assert titles == ["Uno", "Due"]


async def test_a_column_that_was_set_to_null_is_told_from_one_that_did_not_change(
    node: Node, roles: Roles
) -> None:
    update = "subscription { booksUpdated { items { changed patch { title pages creator } } } }"
    change = "subscription { booksChanged { items { change changed patch { title } } } }"
    node.write("insert into books (id, title, creator) values (1, 'One', 'ann')")
    async with node.talk(roles.member) as talk, node.talk(roles.member) as other:
        await talk.subscribe(node.gateway, update)
        await other.subscribe(node.gateway, change)
        node.write("update books set title = null, pages = 7", "delete from books")

        (item,) = (await talk.next())["booksUpdated"]["items"]
        assert sorted(item["changed"]) == ["pages", "title"]
        row = {"title": "One", "pages": None, "creator": "ann"}
        row |= {name: item["patch"][name] for name in item["changed"]}
        assert row == {"title": None, "pages": 7, "creator": "ann"}
        found = (await other.next())["booksChanged"]["items"]
        found += (await other.next())["booksChanged"]["items"] if len(found) == 1 else []
        assert [each["change"] for each in found] == ["UPDATED", "DELETED"]
        assert sorted(found[0]["changed"]) == ["pages", "title"]
        assert (found[0]["patch"], found[1]["changed"]) == ({"title": None}, None)


async def test_without_columns_under_patch_every_update_is_told(node: Node, roles: Roles) -> None:
    node.write("insert into books (id, title, pages) values (1, 'One', 7)")
    async with node.talk(roles.member) as talk:
        await talk.subscribe(
            node.gateway, "subscription { booksUpdated { items { row { title pages } } } }"
        )
        node.write("update books set title = null", "update books set title = null")
        node.write("update books set pages = 8")

        found = (await talk.next())["booksUpdated"]["items"]
        if len(found) < 2:
            found += (await talk.next())["booksUpdated"]["items"]
        assert [item["row"] for item in found] == [
            {"title": None, "pages": 7},
            {"title": None, "pages": 8},
        ]


async def test_a_subscription_goes_on_after_an_event_on_another_node(
    node: Node, start: OpenNode, roles: Roles
) -> None:
    other = await start()
    after = (await node.query("{ eventId }", headers=bearer(roles.member)))["data"]["eventId"]
    seen: list[int] = []
    for number, serving in enumerate((node, other, node), 1):
        node.write(f"insert into books (id) select generate_series({number}0, {number}4)")
        async with serving.talk(roles.member) as talk:
            await talk.send(AFTER, variables={"after": after})
            while len(seen) < number * 5:
                told = (await talk.next())["booksCreated"]
                after = told["eventId"]
                seen += [item["id"] for item in told["items"]]

    assert seen == [*range(10, 15), *range(20, 25), *range(30, 35)]


async def test_where_history_is_gone_a_subscription_is_refused_and_told_so(
    node: Node, roles: Roles
) -> None:
    after = (await node.query("{ eventId }", headers=bearer(roles.member)))["data"]["eventId"]
    node.write("insert into books values (1)")
    forget_history(node.session)
    async with node.talk(roles.member) as talk:
        await talk.send(AFTER, variables={"after": after})

        error = await talk.error()
        assert error["extensions"]["code"] == "TL410"
        assert error["extensions"]["status"] == 410


@pytest.mark.parametrize("after", ["", "rubbish", "\N{SNOWMAN}", "x" * 10_000, "MS4x\u0000"])
async def test_an_event_id_that_is_none_is_refused(node: Node, roles: Roles, after: str) -> None:
    async with node.talk(roles.member) as talk:
        await talk.send(AFTER, variables={"after": after})

        assert (await talk.error())["extensions"]["code"] == "TL422"


async def test_a_table_that_becomes_live_can_be_subscribed_to(
    node: Node, roles: Roles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trunkline.gateway.catalogue._BELIEVED_AGAIN", 0)
    async with node.talk(roles.member) as talk:
        await talk.send("subscription { filmsCreated { items { id } } }")
        assert "filmsCreated" in (await talk.error())["message"]
        node.session.execute("create table films (id int primary key)")
        node.session.execute(f"grant select on films to {roles.member}")
        node.session.execute("select trunkline.live_watch('films')")
        await talk.subscribe(node.gateway, "subscription { filmsCreated { items { id } } }")
        node.write("insert into films values (1)")

        assert (await talk.next())["filmsCreated"]["items"] == [{"id": 1}]


async def test_a_subscription_ends_with_an_error_when_its_table_is_live_no_longer(
    node: Node, roles: Roles
) -> None:
    async with node.talk(roles.member) as talk:
        await talk.subscribe(node.gateway, CREATED)
        node.session.execute("select trunkline.live_unwatch('books')")

        assert (await talk.error())["extensions"]["code"] == "TL404"


async def test_streams_go_on_by_themselves_when_all_connections_are_killed(
    node: Node, roles: Roles
) -> None:
    async with node.talk(roles.member) as talk:
        await talk.subscribe(node.gateway, CREATED)
        node.write("insert into books values (1)")
        assert await talk.next()
        node.session.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        node.write("insert into books values (2)")

        assert (await talk.next())["booksCreated"]["items"][0]["id"] == 2
