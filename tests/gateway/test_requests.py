"""Operations of GraphQL over HTTP, their limits, and what becomes of rubbish."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from graphql import get_introspection_query
from tests.gateway.nodes import bearer, token

from trunkline.gateway.operations import MOST_COPIES

if TYPE_CHECKING:
    from tests.gateway.nodes import Node, OpenNode, Roles

pytestmark = pytest.mark.usefixtures("books")

LIVE = "{ live { name } }"
TOLD = {"data": {"live": [{"name": "books"}]}}


async def test_a_query_is_answered_by_post_and_get(node: Node, roles: Roles) -> None:
    headers = bearer(roles.member)
    assert await node.query(LIVE, headers=headers) == TOLD
    by_get = await node.http.get("/graphql", params={"query": LIVE}, headers=headers)
    assert by_get.json() == TOLD
    named = {
        "query": "query A { live { name } } query B($x: Boolean!) { live @skip(if: $x) { key } }",
        "operationName": "B",
        "variables": '{"x": true}',
    }
    assert (await node.http.get("/graphql", params=named, headers=headers)).json() == {"data": {}}


async def test_the_kind_of_answer_is_negotiated(node: Node, roles: Roles) -> None:
    kind = "application/graphql-response+json"
    headers = {**bearer(roles.member), "Accept": kind}
    good = await node.http.post("/graphql", json={"query": LIVE}, headers=headers)
    bad = await node.http.post("/graphql", json={"query": "{ rubbish }"}, headers=headers)

    assert (good.status_code, bad.status_code) == (200, 400)
    assert good.headers["content-type"] == bad.headers["content-type"] == kind
    plain = await node.http.post(
        "/graphql", json={"query": "{ rubbish }"}, headers=bearer(roles.member)
    )
    assert (plain.status_code, plain.headers["content-type"]) == (200, "application/json")
    assert plain.json()["errors"]


async def test_the_whole_schema_can_be_asked_for(node: Node, roles: Roles) -> None:
    answer = await node.query(
        get_introspection_query(input_value_deprecation=True), headers=bearer(roles.member)
    )

    assert "errors" not in answer
    assert answer["data"]["__schema"]


def nested(deep: int) -> str:
    return "{ __schema { types { fields { type " + "{ ofType " * deep + "{ name" + " }" * (deep + 5)


def multiplied() -> str:
    """Ten times ten times ten, in few words."""
    spread = " ".join(f"a{number}: items {{ ...B }}" for number in range(10))
    rows = " ".join(f"b{number}: key {{ ...C }}" for number in range(10))
    columns = " ".join(f"c{number}: id" for number in range(10))
    return (
        f"subscription {{ booksLeft {{ {spread} }} }} fragment B on BooksDeparture {{ {rows} }}"
        f" fragment C on BooksKey {{ {columns} }}"
    )


def chained(fragments: int) -> str:
    links = "".join(f"fragment f{n} on Query {{ ...f{n + 1} }} " for n in range(fragments))
    return f"{{ ...f0 }} {links} fragment f{fragments} on Query {{ live {{ name }} }}"


REFUSED = [
    (chained(600), "601 fragments"),
    ("{", "Syntax Error"),
    ("{ " + "live { name } " * 2_000 + "}", "tokens"),
    ("{" + "a{" * 1_200 + "a" + "}" * 1_201, "nested too deep"),
    (nested(20), "fields deep"),
    ("{" + " ".join(f"a{number}: eventId" for number in range(MOST_COPIES + 1)) + "}", "alias"),
    ("{" + "live { name } " * (MOST_COPIES + 2) + "}", "aliases"),
    (multiplied(), "aliases"),
    ("{ eventId } fragment X on LiveTable { " + "name " * 300 + "}", "aliases"),
    ("{ ...A } fragment A on Query { ...B } fragment B on Query { ...A }", "itself"),
    ("{ ...A }", "Unknown fragment"),
    ("mutation { x }", "mutation"),
    ("query A { eventId } query B { eventId }", "operationName"),
    ("query { live { name } } { eventId }", "anonymous"),
    ("type X { y: Int }", "not executable"),
    ("subscription { booksCreated { items { id } } }", ""),
    ("query ($x: Int!) { live @skip(if: $x) { name } }", "$x"),
]


async def test_what_cannot_be_run_is_refused_quickly(node: Node, roles: Roles) -> None:
    for query, said in REFUSED:
        begun = time.process_time()
        answer = await node.http.post(
            "/graphql", json={"query": query}, headers=bearer(roles.member)
        )

        assert answer.status_code in {200, 400}
        errors = answer.json().get("errors", [{"message": ""}])
        assert said in errors[0]["message"], query[:100]
        assert time.process_time() - begun < 2


BODIES = [
    (b"", "application/json", 422),
    (b"rubbish", "application/json", 422),
    (b"\xff", "application/json", 400),
    (b"[]", "application/json", 400),
    (b"{}", "application/json", 400),
    (b'{"query": 5}', "application/json", 400),
    (b'{"query": "{eventId}", "variables": 5}', "application/json", 400),
    (b'{"query": "{eventId}", "operationName": 5}', "application/json", 400),
    (b'{"query": "\\ud800"}', "application/json", 422),
    (b"[" * 100_000, "application/json", 422),
    (b" " * ((1 << 20) + 1), "application/json", 413),
    (b'{"query": "{eventId}"}', "text/plain", 415),
    (b"query={eventId}", "application/x-www-form-urlencoded", 415),
]


async def test_a_body_that_is_no_request_is_refused_with_a_problem(
    node: Node, roles: Roles
) -> None:
    for body, kind, status in BODIES:
        headers = {**bearer(roles.member), "Content-Type": kind}
        answer = await node.http.post("/graphql", content=body, headers=headers)

        assert answer.status_code == status, body[:100]
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["code"] == f"TL{status}"


async def test_a_request_without_an_end_is_refused_too(node: Node, roles: Roles) -> None:
    async def endless() -> Any:
        for _ in range(100):
            yield b" " * 65_536

    headers = {**bearer(roles.member), "Content-Type": "application/json"}
    answer = await node.http.post("/graphql", content=endless(), headers=headers)

    assert answer.status_code == 413


async def test_a_subscription_needs_a_stream_for_its_answers(node: Node, roles: Roles) -> None:
    query = {"query": "subscription { booksCreated { items { id } } }"}
    answer = await node.http.post("/graphql", json=query, headers=bearer(roles.member))

    assert answer.status_code == 400
    assert "text/event-stream" in answer.json()["hint"]


async def test_what_goes_wrong_inside_is_not_told(
    node: Node, roles: Roles, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_arguments: Any, **_options: Any) -> Any:
        raise RuntimeError("the password is hunter2")

    monkeypatch.setattr(node.gateway.catalogue, "tables", fails)
    answer = await node.query(LIVE, headers=bearer(roles.member))
    other = await node.http.get("/v1/live", headers=bearer(roles.member))

    assert answer["errors"][0]["extensions"]["code"] == "TL500"
    assert other.status_code == 500
    assert other.json()["code"] == "TL500"
    assert "hunter2" not in json.dumps(answer) + other.text


async def test_a_database_that_is_away_is_told_as_such(
    start: OpenNode, roles: Roles, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trunkline import Unavailable

    node = await start()
    assert await node.query(LIVE, headers=bearer(roles.member)) == TOLD

    async def away(*_arguments: Any, **_options: Any) -> Any:
        raise Unavailable("the server is away.")

    for face, name in ((node.platform.live, "tables"), (node.platform.broker, "head")):
        monkeypatch.setattr(face, name, away)
    monkeypatch.setattr("trunkline.gateway.catalogue._BELIEVED_FOR", -1)

    health = await node.http.get("/healthz")
    assert (health.status_code, health.json()["code"]) == (503, "TL503")
    assert await node.query(LIVE, headers=bearer(roles.member)) == TOLD  # as it was


async def test_health_and_figures_are_for_everybody(node: Node, roles: Roles) -> None:
    assert (await node.http.get("/healthz")).json() == {"status": "ok"}
    async with node.follow("/v1/live/books", roles.member) as followed:
        await followed.frame()
        figures = (await node.http.get("/metrics")).text
    assert "gateway_streams 1" in figures
    described = (await node.http.get("/openapi.json")).json()
    assert "/v1/live/{table}" in described["paths"]


async def test_pages_from_elsewhere_are_told_whether_they_may(
    start: OpenNode, roles: Roles
) -> None:
    node = await start(cors=["https://shop.example"])
    for origin, allowed in (("https://shop.example", True), ("https://evil.example", False)):
        asked = {
            "Origin": origin,
            "Access-Control-Request-Method": "GET",
            "Access-Control-Request-Headers": "authorization,last-event-id",
        }
        before = await node.http.options("/v1/live/books", headers=asked)
        assert ("access-control-allow-origin" in before.headers) is allowed
        params = {"access_token": token(roles.member)}
        answer = await node.http.get("/v1/live", params=params, headers={"Origin": origin})
        assert ("access-control-allow-origin" in answer.headers) is allowed
        assert "access-control-allow-credentials" not in answer.headers


async def test_rubbish_on_the_line_harms_nobody(node: Node, roles: Roles) -> None:
    import asyncio

    host, port = node.address.removeprefix("http://").split(":")
    for rubbish in (b"rubbish\r\n\r\n", b"\x16\x03\x01\x02\x00", b"GET / HTTP/9.9\r\n\r\n", b""):
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(rubbish)
        writer.close()
    for path in ("/", "/v1", "/graphql/", "/v1/live/../../etc/passwd", "/%ff%fe", "/v1/live/"):
        answer = await node.http.get(path, headers=bearer(roles.member))
        assert answer.status_code < 500
    assert await node.query(LIVE, headers=bearer(roles.member)) == TOLD
