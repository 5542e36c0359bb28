"""The protocol graphql-transport-ws: how conversations begin, go on and end."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import TYPE_CHECKING, Any

import pytest
import websockets
from tests.fixtures.asking import ask
from tests.gateway.nodes import bearer, opened, token

from trunkline.gateway import websocket
from trunkline.testing import eventually

if TYPE_CHECKING:
    from tests.gateway.nodes import Node, OpenNode, Roles

pytestmark = pytest.mark.usefixtures("books")

CREATED = "subscription { booksCreated { items { id } } }"


def address(node: Node) -> str:
    return f"ws{node.address.removeprefix('http')}/graphql"


async def test_another_protocol_is_refused(node: Node) -> None:
    for protocols in ([], [websockets.Subprotocol("graphql-ws")]):
        async with websockets.connect(address(node), subprotocols=protocols or None) as client:
            await client.wait_closed()
            assert client.close_code == 4406


async def test_pings_are_answered_before_and_after_the_beginning(node: Node, roles: Roles) -> None:
    async with node.talk(begin=False) as talk:
        await talk.say({"type": "ping", "payload": {"x": 1}})
        assert await talk.hear() == {"type": "pong"}
        await talk.begin(bearer(roles.member))
        await talk.say({"type": "pong"})
        await talk.say({"type": "ping"})
        assert await talk.hear() == {"type": "pong"}


async def test_a_token_comes_in_the_first_message_the_header_or_the_address(
    node: Node, roles: Roles
) -> None:
    good = token(roles.member)
    for payload in ({"Authorization": f"Bearer {good}"}, {"authorization": f"bearer {good}"}):
        async with node.talk(begin=False) as talk:
            await talk.begin(payload)
    for url, headers in (
        (f"{address(node)}?access_token={good}", {}),
        (address(node), {"Authorization": f"Bearer {good}"}),
    ):
        async with websockets.connect(
            url,
            subprotocols=[websockets.Subprotocol("graphql-transport-ws")],
            additional_headers=headers,
        ) as client:
            await client.send('{"type": "connection_init"}')
            assert json.loads(await client.recv()) == {"type": "connection_ack"}


async def test_who_is_not_known_is_refused(node: Node) -> None:
    for payload in (None, {}, {"token": "rubbish"}, {"Authorization": "rubbish"}, {"token": 5}):
        async with node.talk(begin=False) as talk:
            await talk.say({"type": "connection_init", "payload": payload})
            code, reason = await talk.closed()
            assert code == 4403, payload
            assert reason
    async with node.talk(begin=False) as talk:
        await talk.say({"type": "connection_init", "payload": "rubbish"})
        assert (await talk.closed())[0] == 4400


async def test_nothing_is_run_before_the_beginning(node: Node) -> None:
    async with node.talk(begin=False) as talk:
        await talk.send("{ live { name } }")
        assert (await talk.closed())[0] == 4401


async def test_who_begins_twice_is_let_go(node: Node, roles: Roles) -> None:
    async with node.talk(roles.member) as talk:
        await talk.say({"type": "connection_init", "payload": bearer(roles.member)})
        assert (await talk.closed())[0] == 4429


async def test_who_never_begins_is_let_go(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "INIT_WITHIN", 0.05)
    async with node.talk(begin=False) as talk:
        assert (await talk.closed())[0] == 4408


async def test_who_has_begun_may_be_silent(
    node: Node, roles: Roles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websocket, "INIT_WITHIN", 0.05)
    async with node.talk(roles.member) as talk:
        with pytest.raises(TimeoutError):
            await talk.hear(within=0.2)
        await talk.say({"type": "ping"})
        assert await talk.hear() == {"type": "pong"}


RUBBISH = [
    "",
    "rubbish",
    "[]",
    "null",
    "5",
    "{}",
    '{"type": 5}',
    '{"type": "rubbish"}',
    '{"type": "start", "id": "1"}',
    '{"type": "subscribe"}',
    '{"type": "subscribe", "id": 1, "payload": {"query": "{live{name}}"}}',
    '{"type": "subscribe", "id": "", "payload": {"query": "{live{name}}"}}',
    '{"type": "subscribe", "id": "1"}',
    '{"type": "subscribe", "id": "1", "payload": {"query": ""}}',
    '{"type": "subscribe", "id": "1", "payload": {"query": 5}}',
    '{"type": "subscribe", "id": "1", "payload": {"query": "{live{name}}", "variables": []}}',
    '{"type": "complete"}',
    '{"type": "ping", "x": NaN}',
    '{"type": "\\ud800"}',
    "[" * 100_000,
    '{"type": "subscribe", "id": "' + "x" * 2_000 + '", "payload": {"query": "{live{name}}"}}',
    b"\x00",
]


async def test_what_is_no_message_ends_the_conversation(node: Node, roles: Roles) -> None:
    for rubbish in RUBBISH:
        async with node.talk(roles.member) as talk:
            await talk.say(rubbish)
            code, reason = await talk.closed()
            assert code == 4400, rubbish
            assert reason


async def test_a_message_that_is_too_large_ends_the_conversation(node: Node, roles: Roles) -> None:
    async with node.talk(roles.member) as talk:
        await talk.say("x" * ((1 << 20) + 1))
        assert (await talk.closed())[0] == 1009


async def test_an_id_in_use_ends_the_conversation_and_one_that_ended_is_free(
    node: Node, roles: Roles
) -> None:
    async with node.talk(roles.member) as talk:
        for _ in range(2):
            await talk.send("{ live { name } }", name="a")
            assert (await talk.hear())["type"] == "next"
            assert await talk.hear() == {"type": "complete", "id": "a"}
        await talk.send("{ rubbish }", name="a")
        await talk.error()
        await talk.subscribe(node.gateway, CREATED, name="a")
        await talk.send(CREATED, name="a")
        assert await talk.closed() == (4409, "Subscriber for a already exists")
    await eventually(lambda: len(node.gateway.feeds) == 0)


async def test_what_the_client_completes_ends_and_nothing_else(node: Node, roles: Roles) -> None:
    async with node.talk(roles.member) as talk:
        first = await talk.subscribe(node.gateway, CREATED)
        second = await talk.subscribe(node.gateway, CREATED)
        await talk.say({"type": "complete", "id": first})
        await talk.say({"type": "complete", "id": "never heard of"})
        await eventually(lambda: len(node.gateway.feeds) == 1)
        node.write("insert into books values (1)")

        assert (await talk.hear())["id"] == second
        count = "select count(*) from trunkline.live_subscription"
        assert ask(node.session, count) == 1
        await talk.subscribe(node.gateway, CREATED, name=first)


async def test_subscriptions_end_with_their_connection(node: Node, roles: Roles) -> None:
    async with node.talk(roles.member) as talk:
        for _ in range(3):
            await talk.subscribe(node.gateway, CREATED)
        talk.socket.transport.abort()
    count = "select count(*) from trunkline.live_subscription"
    await eventually(lambda: ask(node.session, count) == 0)
    await eventually(lambda: len(node.gateway.feeds) == 0)


async def test_a_token_that_expires_ends_the_conversation(node: Node, roles: Roles) -> None:
    async with node.talk(roles.member, lasts=-3.5) as talk:
        await talk.send(CREATED)
        assert (await talk.closed())[0] == 4401
    await eventually(lambda: len(node.gateway.feeds) == 0)


async def test_one_connection_has_so_many_operations_and_no_more(
    start: OpenNode, roles: Roles
) -> None:
    node = await start(gateway_streams_per_connection=2)
    async with node.talk(roles.member) as talk:
        for _ in range(2):
            await talk.subscribe(node.gateway, CREATED)
        await talk.send(CREATED)
        assert (await talk.error())["extensions"]["code"] == "TL429"
        node.write("insert into books values (1)")
        assert await talk.next()
        assert await talk.next()


async def test_where_no_more_streams_are_served_the_others_go_on(
    start: OpenNode, roles: Roles
) -> None:
    node = await start(gateway_streams=1)
    async with node.talk(roles.member) as talk, node.talk(roles.member) as late:
        await talk.subscribe(node.gateway, CREATED)
        await late.send(CREATED)
        assert (await late.error())["extensions"]["code"] == "TL503"
        node.write("insert into books values (1)")
        assert await talk.next()
        await late.send("{ live { name } }")
        assert await late.next()


async def test_pages_from_elsewhere_may_not_open_a_conversation(start: OpenNode) -> None:
    node = await start(cors=["https://shop.example"])
    own = node.address
    for origin, welcome in (
        ("https://evil.example", False),
        ("null", False),
        ("https://shop.example.evil.example", False),
        ("https://shop.example", True),
        (own, True),
    ):
        opening = websockets.connect(
            address(node),
            subprotocols=[websockets.Subprotocol("graphql-transport-ws")],
            origin=websockets.Origin(origin),
        )
        if welcome:
            async with opening:
                pass
        else:
            with pytest.raises(websockets.InvalidStatus) as caught:
                await opening
            assert caught.value.response.status_code == 403


async def test_who_does_not_read_is_let_go_and_costs_nothing_meanwhile(
    node: Node, roles: Roles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websocket, "SEND_WITHIN", 0.3)
    node.session.execute("alter table books alter title type text")
    query = "subscription { booksCreated { items { id title } } }"
    async with node.talk(roles.member) as lazy, node.talk(roles.member) as eager:
        await lazy.subscribe(node.gateway, query)
        await eager.subscribe(node.gateway, CREATED)
        lazy.socket.transport.pause_reading()
        lazy.socket.transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVBUF, 4096
        )
        for number in range(12):
            node.write(
                f"insert into books (id, title) select {number},"
                " string_agg(md5(random()::text), '') from generate_series(1, 30000)"
            )
            assert await eager.next()
        await eventually(lambda: len(node.gateway.feeds) == 1)
        lazy.socket.transport.abort()


async def test_a_subscription_has_one_field_whatever_it_is_called(node: Node, roles: Roles) -> None:
    async with node.talk(roles.member) as talk:
        for query in (
            "subscription { a: booksCreated { items { id } } b: booksCreated { items { id } } }",
            "subscription { ...F } fragment F on Subscription { booksCreated { items { id } }"
            " booksLeft { items { key { id } } } }",
            "subscription { booksCreated { items { id } } __typename }",
        ):
            await talk.send(query)
            assert "only one" in (await talk.error())["message"]
        assert len(node.gateway.feeds) == 0


async def test_a_stop_ends_conversations_and_streams_in_good_order(
    node: Node, roles: Roles
) -> None:
    async with node.talk(roles.member) as talk, node.talk(roles.member) as idle:
        await talk.subscribe(node.gateway, CREATED)
        async with node.follow("/v1/live/books", roles.member) as followed:
            await followed.frame()
            await asyncio.wait_for(node.gateway.stop(5), 5)

            assert await talk.closed() == (1001, "The server stops")
            assert (await idle.closed())[0] == 1001
            assert not [frame for frame in await followed.rest() if frame.event]
    assert len(node.gateway.feeds) == 0
    refusal = await node.http.get("/v1/live/books", headers=bearer(roles.member))
    assert refusal.status_code == 503


async def test_however_many_streams_there_are_one_read_serves_them(
    start: OpenNode, roles: Roles, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await start(gateway_streams_per_connection=60)
    reads: list[str] = []
    async with node.talk(roles.member) as talk:
        for number in range(60):
            condition = f"(condition: {{pages: {{eq: {number % 6}}}}})"
            await talk.send(f"subscription {{ booksCreated{condition} {{ items {{ id }} }} }}")
        await opened(node.gateway, 60)
        run = node.platform.db.run

        async def counted(call: Any, **options: Any) -> Any:
            reads.append(call.function)
            return await run(call, **options)

        monkeypatch.setattr(node.platform.db, "run", counted)
        node.write("insert into books (id, pages) values (1, 5)")
        heard = [await talk.hear() for _ in range(10)]

        assert {message["type"] for message in heard} == {"next"}
        assert len({message["id"] for message in heard}) == 10
        assert 1 <= reads.count("live_read") <= 3
        assert len(reads) <= 10
