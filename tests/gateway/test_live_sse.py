"""Live tables as plain server-sent events: told, resumed, refused."""

from __future__ import annotations

import asyncio
import json
import random
import socket
from typing import TYPE_CHECKING, Any

import pytest
from tests.fixtures.asking import ask
from tests.gateway.nodes import bearer, forget_history, opened, token

from trunkline.gateway import sse
from trunkline.gateway.auth import Identity
from trunkline.testing import eventually

if TYPE_CHECKING:
    from tests.fixtures.asking import Connect
    from tests.gateway.nodes import Node, OpenNode, Roles

pytestmark = pytest.mark.usefixtures("books")

BOOKS = "/v1/live/books"


async def test_live_tables_are_listed(node: Node, roles: Roles) -> None:
    answer = await node.http.get("/v1/live", headers=bearer(roles.member))

    (table,) = answer.json()
    assert (table["name"], table["relation"], table["key"]) == ("books", "public.books", ["id"])
    assert table["columns"][0] == {
        "name": "id",
        "type": "integer",
        "kind": "number",
        "array": False,
        "nullable": False,
        "comment": None,
        "labels": [],
    }


async def test_changes_are_events_by_name(node: Node, roles: Roles) -> None:
    async with node.follow(BOOKS, roles.member) as followed:
        assert followed.answer.headers["content-type"].startswith("text/event-stream")
        assert followed.answer.headers["cache-control"] == "no-store"
        first = await followed.frame()
        assert first.id
        assert not first.event
        node.write(
            "insert into books (id, title) values (1, E'two\\nlines')",
            "update books set title = null",
            "delete from books",
            "truncate books",
        )

        events = await followed.events(4)
        assert [name for name, _ in events] == ["created", "updated", "deleted", "truncated"]
        assert events[0][1]["row"]["title"] == "two\nlines"
        assert events[1][1]["patch"] == {"title": None}
        assert events[2][1]["key"] == {"id": 1}
        assert events[3][1]["key"] is None
        assert all(data["change"] == name and data["at"] for name, data in events)


@pytest.mark.parametrize("name", ["books", "public.books"])
async def test_a_condition_kinds_of_changes_and_columns_are_parameters(
    node: Node, roles: Roles, name: str
) -> None:
    parameters = {
        "condition": '{"creator": {"eq": "ann"}}',
        "changes": "updated, left",
        "columns": "title,pages",
    }
    async with node.follow(f"/v1/live/{name}", roles.member, params=parameters) as followed:
        await followed.frame()
        node.write(
            "insert into books (id, creator) values (1, 'ann'), (2, 'bob')",
            "update books set tags = '{x}'",
            "update books set pages = 5",
            "update books set creator = 'bob'",
        )

        assert [name for name, _ in await followed.events(2)] == ["updated", "left"]


async def test_whoever_comes_again_goes_on_anywhere(
    node: Node, start: OpenNode, roles: Roles
) -> None:
    other = await start()
    async with node.follow(BOOKS, roles.member) as followed:
        await followed.frame()
        node.write("insert into books select generate_series(1, 5)")
        seen = [data["key"]["id"] for _, data in await followed.events(3)]
        last = followed.last_id
    node.write("insert into books select generate_series(6, 8)")
    async with other.follow(BOOKS, roles.member, headers={"Last-Event-ID": str(last)}) as followed:
        seen += [data["key"]["id"] for _, data in await followed.events(4)]
        last = followed.last_id
    async with node.follow(
        BOOKS,
        roles.member,
        params={"after": "MS4w"},
        headers={"Last-Event-ID": str(last)},
    ) as followed:
        seen += [data["key"]["id"] for _, data in await followed.events(1)]

    assert seen == list(range(1, 9))


async def test_whoever_is_cut_off_before_the_first_event_has_an_id_too(
    node: Node, roles: Roles
) -> None:
    async with node.follow(BOOKS, roles.member) as followed:
        await followed.frame()
        last = followed.last_id
    node.write("insert into books values (1)")
    async with node.follow(BOOKS, roles.member, params={"after": last}) as followed:
        assert (await followed.event()).json["key"] == {"id": 1}


async def test_where_history_is_gone_a_reset_comes_first(node: Node, roles: Roles) -> None:
    async with node.follow(BOOKS, roles.member) as followed:
        await followed.frame()
        last = str(followed.last_id)
    node.write("insert into books values (1)")
    forget_history(node.session)
    async with node.follow(BOOKS, roles.member, headers={"Last-Event-ID": last}) as followed:
        reset = await followed.event()
        assert reset.event == "reset"
        assert reset.id
        assert reset.json["reason"]
        node.write("insert into books values (2)")
        assert (await followed.event()).json["key"] == {"id": 2}


REFUSED: list[tuple[dict[str, str], int, str]] = [
    ({"condition": "rubbish"}, 422, "not JSON"),
    ({"condition": "[]"}, 422, "JSON object"),
    ({"condition": "[" * 10_000}, 422, "not JSON"),
    ({"condition": '{"a": "\\ud800"}'}, 422, "not JSON"),
    ({"condition": '{"a": NaN}'}, 422, "not JSON"),
    ({"condition": '{"nothing": 1}'}, 422, "nothing"),
    ({"condition": '{"pages": {"eq": "x"}}'}, 422, "pages"),
    ({"condition": '{"title": {"eq": "\\u0000"}}'}, 422, "u0000"),
    ({"condition": json.dumps({"title": "x" * 20_000})}, 413, "bytes"),
    ({"changes": "rubbish"}, 422, "changes"),
    ({"changes": ""}, 422, "changes"),
    ({"columns": "nothing"}, 422, "nothing"),
    ({"columns": "a\0b"}, 422, ""),
    ({"after": "rubbish"}, 422, "token"),
]


async def test_what_makes_no_sense_is_refused_with_a_problem(node: Node, roles: Roles) -> None:
    for parameters, status, said in REFUSED:
        answer = await node.http.get(BOOKS, params=parameters, headers=bearer(roles.member))

        problem = answer.json()
        assert (answer.status_code, problem["status"]) == (status, status), parameters
        assert problem["code"] == f"TL{status}"
        assert said in problem["detail"]
    assert ask(node.session, "select count(*) from trunkline.live_subscription") == 0


async def test_a_table_that_is_not_live_is_not_found(node: Node, roles: Roles) -> None:
    node.session.execute("create table hidden (id int primary key)")
    for name in ("hidden", "nothing", "pg_class", 'x"; drop table books; --', "a%00b", "x/y"):
        answer = await node.http.get(f"/v1/live/{name}", headers=bearer(roles.member))
        assert answer.status_code == 404
        assert answer.json()["code"] == "TL404"


async def test_whoever_leaves_is_forgotten(node: Node, roles: Roles) -> None:
    async with node.follow(BOOKS, roles.member) as followed:
        await followed.frame()
    count = "select count(*) from trunkline.live_subscription"
    await eventually(lambda: ask(node.session, count) == 0)
    await eventually(lambda: len(node.gateway.feeds) == 0)


async def test_a_quiet_line_is_kept_open(
    node: Node, roles: Roles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trunkline.gateway.gateway.HEARTBEAT", 0.05)
    monkeypatch.setattr("trunkline.gateway.graphql.HEARTBEAT", 0.05)
    async with node.follow(BOOKS, roles.member) as followed:
        await followed.frame()
        for _ in range(3):
            frame = await followed.frame()
            assert frame.comment
            assert frame.id
    query = {"query": "subscription { booksCreated { items { id } } }"}
    async with node.follow("/graphql", roles.member, method="POST", json=query) as followed:
        for _ in range(3):
            assert (await followed.frame()).comment
        node.write("insert into books values (1)")
        assert (await followed.event()).event == "next"


async def test_a_token_that_expires_ends_the_stream_and_says_so(node: Node, roles: Roles) -> None:
    short = {"Authorization": f"Bearer {token(roles.member, lasts=-3)}"}
    async with node.follow(BOOKS, headers=short) as followed:
        last = (await followed.rest())[-1]

        assert last.event == "error"
        assert last.json["code"] == "TL401"
    query = {"query": "subscription { booksCreated { items { id } } }"}
    short = {"Authorization": f"Bearer {token(roles.member, lasts=-3)}"}
    async with node.follow("/graphql", method="POST", json=query, headers=short) as followed:
        *_, last, complete = await followed.rest()
        assert last.json["errors"][0]["extensions"]["code"] == "TL401"
        assert complete.event == "complete"


async def test_what_waits_is_not_told_once_the_token_has_expired(
    node: Node, roles: Roles, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {"Authorization": f"Bearer {token(roles.member, lasts=60)}"}
    async with node.follow(BOOKS, headers=headers) as followed:
        await followed.frame()
        monkeypatch.setattr(Identity, "rest", property(lambda _identity: -1.0))
        node.write("insert into books values (1)")

        names = [frame.event for frame in await followed.rest() if frame.event]
        assert names in (["error"], ["created", "error"])  # it was asked for before


async def test_who_does_not_read_is_let_go(
    node: Node, roles: Roles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "SEND_WITHIN", 0.3)
    node.session.execute("alter table books alter title type text")
    host, port = node.address.removeprefix("http://").split(":")
    narrow = socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    narrow.connect((host, int(port)))
    _reader, writer = await asyncio.open_connection(sock=narrow, limit=1)
    writer.write(
        f"GET {BOOKS}?access_token={token(roles.member)} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    )
    await opened(node.gateway, 1)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    for number in range(10):
        node.write(f"insert into books (id, title) values ({number}, repeat(md5('x'), 30000))")

    await eventually(lambda: len(node.gateway.feeds) == 0)
    writer.transport.abort()


async def test_where_no_more_streams_are_served_one_is_told_so(
    start: OpenNode, roles: Roles
) -> None:
    node = await start(gateway_streams=1)
    async with node.follow(BOOKS, roles.member) as followed:
        await followed.frame()
        query = {"query": "subscription { booksCreated { items { id } } }"}
        headers = {**bearer(roles.member), "Accept": "text/event-stream"}
        for refusal in (
            await node.http.get(BOOKS, headers=headers),
            await node.http.post("/graphql", json=query, headers=headers),
        ):
            assert refusal.status_code == 503
            assert refusal.json()["code"] == "TL503"


async def test_an_operation_of_graphql_is_served_as_events_too(node: Node, roles: Roles) -> None:
    created: dict[str, Any] = {"query": "subscription { booksCreated { items { id } } }"}
    async with node.follow("/graphql", roles.member, method="POST", json=created) as followed:
        await followed.frame()
        node.write("insert into books values (1)")
        told = await followed.event()
        assert told.event == "next"
        assert told.json == {"data": {"booksCreated": {"items": [{"id": 1}]}}}
        node.session.execute("select trunkline.live_unwatch('books')")
        assert (await followed.event()).json["errors"][0]["extensions"]["code"] == "TL404"
        assert (await followed.event()).event == "complete"
    query = {"query": "{ live { name } }"}
    async with node.follow("/graphql", roles.member, params=query) as followed:
        assert [name for name, _ in await followed.events(2)] == ["next", "complete"]
    refused = {"query": "subscription { rubbish }"}
    async with node.follow("/graphql", roles.member, params=refused) as followed:
        (_, told_errors), (name, _) = await followed.events(2)
        assert told_errors["errors"]
        assert name == "complete"


async def test_a_stream_that_is_cut_at_random_misses_nothing_and_repeats_nothing(
    node: Node, start: OpenNode, roles: Roles, connect: Connect
) -> None:
    nodes = [node, await start()]
    chance = random.Random(7)
    late = connect(autocommit=False)
    seen: list[int] = []
    async with node.follow(BOOKS, roles.member) as followed:
        await followed.frame()
        last = str(followed.last_id)
    for turn in range(8):
        late.execute(f"insert into books values ({turn}9)")
        node.write(f"insert into books select generate_series({turn}0, {turn}4)")
        late.commit()
        node.write(f"insert into books select generate_series({turn}5, {turn}8)")
        for _ in range(2):
            async with chance.choice(nodes).follow(
                BOOKS, roles.member, headers={"Last-Event-ID": last}
            ) as followed:
                some = chance.randint(0, min(6, 10 * turn + 10 - len(seen)))
                seen += [data["key"]["id"] for _, data in await followed.events(some)]
                last = followed.last_id or last
    async with nodes[1].follow(BOOKS, roles.member, params={"after": last}) as followed:
        seen += [data["key"]["id"] for _, data in await followed.events(80 - len(seen))]

    assert sorted(seen) == list(range(80))
    in_order = [number for number in seen if number % 10 != 9]
    assert in_order == sorted(in_order)
