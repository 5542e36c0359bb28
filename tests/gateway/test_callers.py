"""Who may do what over HTTP: a token names a role, and Postgres decides."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.gateway.serving import (
    ADMIN,
    EXPIRED,
    READER,
    WRITER,
    asking,
    bearer,
    place,
    serving,
    take,
    token,
)

from trunkline.core.errors import Forbidden
from trunkline.gateway.acting import ActingDb
from trunkline.gateway.auth import Identity
from trunkline.log import calls
from trunkline.testing import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures.proxy import Proxy
    from tests.gateway.serving import Web

LARGE = 2048
REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "gateway.md"


async def test_who_brings_no_token_or_a_wrong_one_is_refused(web: Web, fresh: str) -> None:
    wrong = [
        {},
        bearer(ADMIN, **EXPIRED),
        {"Authorization": "Bearer rubbish"},
        {"Authorization": "Basic dTpw"},
        {"Authorization": f"Bearer {token(ADMIN)[:-4]}AAAA"},
    ]
    for path in ("/v1/log", "/v1/broker/stream", "/v1/kv/a", "/v1/tube", "/v1/kv-watch"):
        for headers in wrong:
            problem = await web.refused("GET", path, 401, role=None, headers=headers)
            assert problem["code"] == "TL401"
    body = {"messages": "not even right"}
    await web.refused("POST", f"/v1/log/{fresh}", 401, role=None, json=body)


async def test_each_role_may_do_what_postgres_grants_it(web: Web, fresh: str) -> None:
    path = f"/v1/log/{fresh}"
    problem = await web.refused("PUT", path, 403, role=READER)
    assert problem["code"] == "TL403"
    assert READER in problem["hint"]
    await web.ask("PUT", path, role=WRITER)
    message = {"messages": [{"value": "a"}]}
    await web.refused("POST", path, 403, role=READER, json=message)
    await web.ask("POST", path, role=WRITER, json=message, status=201)
    await web.ask("GET", f"{path}/messages", role=READER)
    await web.refused("DELETE", path, 403, role=READER)
    await web.ask("PUT", f"{path}x", role=ADMIN)
    problem = await web.refused("DELETE", f"{path}x", 403, role=WRITER)
    assert (problem["role"], problem["privilege"]) == (WRITER, "manage")
    assert "grant_on" in problem["hint"]
    for mine in (path, f"{path}x"):
        await web.ask("DELETE", mine, role=ADMIN, status=204)


async def test_a_hint_of_the_database_goes_before_the_general_one(web: Web) -> None:
    acting = ActingDb(web.platform.db, Identity(READER), within=30)
    raising = (
        "do $$ begin raise sqlstate '%s' using message = 'no.', hint = 'grant_on(...)'%s; end $$"
    )
    for state, detail in (("TL403", """, detail = '{"role": "owner"}'"""), ("42501", "")):
        with pytest.raises(Forbidden) as refusal:
            async with acting.transaction() as connection:
                await connection.execute((raising % (state, detail)).encode())
        assert refusal.value.hint == "grant_on(...)"
        assert refusal.value.details["role"] == ("owner" if detail else READER)


async def test_a_right_that_is_taken_away_is_gone_at_once(
    web: Web, web_dsn: str, fresh: str
) -> None:
    with psycopg.connect(web_dsn, autocommit=True) as session:
        session.execute(f"create role {fresh}; grant trunkline_writer to {fresh}")
        await web.ask("PUT", f"/v1/log/{fresh}", role=fresh)
        body = {"messages": [{"value": "a"}]}
        await web.ask("POST", f"/v1/log/{fresh}", role=fresh, json=body, status=201)
        session.execute(f"revoke trunkline_writer from {fresh}")
        await web.refused("POST", f"/v1/log/{fresh}", 403, role=fresh, json=body)
        session.execute(f"drop owned by {fresh}; drop role {fresh}")
    problem = await web.refused("POST", f"/v1/log/{fresh}", 403, role=fresh, json=body)
    assert f'may not act as "{fresh}".' in problem["detail"]


@pytest.fixture
def poor_dsn(web_dsn: str, fresh: str) -> Iterator[str]:
    """As a login of a gateway that may become only who reads."""
    with psycopg.connect(web_dsn, autocommit=True) as session:
        session.execute(f"create role {fresh} login; grant {READER} to {fresh}")
        yield make_conninfo(web_dsn, user=fresh)
        session.execute(f"drop role {fresh}")


async def test_a_role_that_the_gateway_may_not_become_is_refused(poor_dsn: str) -> None:
    async with asking(poor_dsn) as web:
        await web.ask("GET", "/v1/log", role=READER)
        for role in (WRITER, ADMIN, "nobody at all"):
            problem = await web.refused("GET", "/v1/log", 403, role=role)
            assert "may not act as" in problem["detail"], role
        for role in ("postgres", "none"):
            assert (await web.raw("GET", "/v1/log", role=role)).status_code in {401, 403}


async def test_a_role_called_none_does_not_give_back_that_of_the_connection(web: Web) -> None:
    acting = ActingDb(web.platform.db, Identity("none"), within=30)
    with pytest.raises(Forbidden):
        await acting.run(calls.list_topics())


async def test_the_gateways_own_role_is_nobodys(served: Web) -> None:
    async with served.platform.db.connection() as connection:
        own = connection.info.user
    assert own in (await served.refused("GET", "/v1/log", 401, role=own))["detail"]


async def test_without_tokens_all_act_as_the_connection_where_that_is_allowed(
    web_dsn: str, fresh: str
) -> None:
    async with asking(web_dsn, insecure=True) as web:
        await web.ask("PUT", f"/v1/log/{fresh}", role=None)
        body = {"messages": [{"value": "a"}]}
        await web.ask("POST", f"/v1/log/{fresh}", role=None, json=body, status=201)
        await web.ask("DELETE", f"/v1/log/{fresh}", role=None, status=204)


async def test_who_has_no_token_is_the_anonymous_role_where_there_is_one(
    web_dsn: str, fresh: str
) -> None:
    async with asking(web_dsn, anonymous_role=READER) as web:
        await web.ask("GET", "/v1/log", role=None)
        await web.refused("PUT", f"/v1/log/{fresh}", 403, role=None)


async def test_role_and_settings_last_for_one_transaction(web: Web) -> None:
    identity = Identity(READER, {"request.jwt.claims": '{"sub": "7"}', "app.org": "9"})
    acting = ActingDb(web.platform.db, identity, within=30)
    look = "select current_user, current_setting('app.org', true)"
    async with acting.transaction() as connection:
        inside = await (await connection.execute(look)).fetchone()
    async with web.platform.db.connection() as connection:
        outside = await (await connection.execute(look)).fetchone()
    assert tuple(inside or ()) == (READER, "9")
    assert outside is not None
    assert outside[0] != READER
    assert not outside[1]


async def test_what_takes_too_long_is_ended(web_dsn: str, fresh: str) -> None:
    async with asking(web_dsn, gateway_request_seconds=0.2) as web:
        await web.ask("PUT", f"/v1/log/{fresh}")
        with psycopg.connect(web_dsn) as session:
            session.execute("lock table trunkline.log_topic in access exclusive mode")
            problem = await web.refused("GET", "/v1/log", 503)
        assert "too long" in problem["detail"]
        await web.ask("GET", "/v1/log")


async def test_a_body_that_is_too_large_is_refused_however_it_comes(web_dsn: str) -> None:
    async def chunks() -> Any:
        for _ in range(4):
            yield b" " * LARGE

    async with serving(web_dsn, gateway_body_bytes=LARGE) as web:
        for content in (b" " * (LARGE + 1), chunks()):
            problem = await web.refused("PUT", "/v1/kv/large", 413, content=content)
            assert (problem["code"], problem["limit"]) == ("TL413", LARGE)
        fits = b'"' + b"x" * (LARGE - 2) + b'"'
        await web.ask("PUT", "/v1/kv/large", content=fits, status=201)


async def test_a_stream_ends_with_its_token(served: Web, fresh: str) -> None:
    await served.ask("PUT", f"/v1/log/{fresh}")
    late = {"exp": int(time.time()) - 3}  # good for a second or two: clocks may differ by five
    async with served.follow(f"/v1/log/{fresh}/stream", headers=bearer(READER, **late)) as frames:
        (last,) = await take(frames, 1)
        assert (last.event, last.data["status"]) == ("error", 401)
        assert [frame async for frame in frames] == []


async def test_no_more_streams_are_open_than_may_be_and_one_that_leaves_makes_room(
    web_dsn: str, fresh: str
) -> None:
    async with serving(web_dsn, gateway_streams=1) as web:
        await web.ask("PUT", f"/v1/log/{fresh}")
        for path in (f"/v1/log/{fresh}/stream", "/v1/broker/stream", "/v1/kv-watch"):
            async with web.follow(path) as frames:
                await place(frames)
                assert (await web.refused("GET", path, 503))["code"] == "TL503"
            await eventually(lambda: _none_open(web))


def _none_open(web: Web) -> None:
    assert len(web.gateway.feeds) == 0


async def test_streams_end_in_good_order_when_the_gateway_stops(web_dsn: str, fresh: str) -> None:
    async with AsyncExitStack() as running:
        web = await running.enter_async_context(serving(web_dsn))
        await web.ask("PUT", f"/v1/log/{fresh}")
        async with httpx.AsyncClient(base_url=web.client.base_url) as client:
            other = replace(web, client=client)
            async with other.follow(f"/v1/log/{fresh}/stream") as frames:
                await place(frames)
                stopping = asyncio.create_task(running.aclose())
                assert [frame async for frame in frames if frame.data] == []
                await stopping


async def test_streams_go_on_when_the_database_was_away(
    web: Web, web_dsn: str, fresh: str, proxy: Callable[[str], Proxy]
) -> None:
    await web.ask("PUT", f"/v1/log/{fresh}")
    between = proxy(web_dsn)
    async with serving(between.dsn, connect_timeout=1) as cut:
        streams = [f"/v1/log/{fresh}/stream", f"/v1/broker/stream?pattern={fresh}"]
        streams.append(f"/v1/kv-watch?prefix={fresh}")
        async with AsyncExitStack() as stack:
            opened = [await stack.enter_async_context(cut.follow(path)) for path in streams]
            for frames in opened:
                await place(frames)
            await asyncio.to_thread(between.refuse)
            await web.platform.log.append(fresh, "a")
            await web.platform.broker.publish(fresh, "a")
            await web.platform.broker.tick()
            await web.platform.kv.put(fresh, "a")
            await web.platform.kv.tick()
            await asyncio.to_thread(between.resume)
            for frames in opened:
                (found,) = await take(frames, 1)
                assert "a" in {found.data.get("value"), found.data.get("payload")}


async def test_what_many_append_at_once_is_stored_once_each(web: Web, fresh: str) -> None:
    await web.ask("PUT", f"/v1/log/{fresh}")
    await asyncio.gather(
        *(
            web.ask("POST", f"/v1/log/{fresh}", json={"messages": [{"value": str(n)}]}, status=201)
            for n in range(40)
        )
    )
    for n in range(40, 60):  # by then the partition's own function is called
        body = {"messages": [{"value": str(n)}]}
        await web.ask("POST", f"/v1/log/{fresh}", json=body, role=WRITER, status=201)
    found = await web.ask("GET", f"/v1/log/{fresh}/messages")
    assert sorted(int(each["value"]) for each in found["messages"]) == list(range(60))


async def test_every_route_is_described_and_stands_in_the_reference(web: Web) -> None:
    reference = REFERENCE.read_text("utf-8")
    document = (await web.raw("GET", "/openapi.json")).json()
    for path, methods in document["paths"].items():
        if not path.startswith(("/v1/log", "/v1/broker", "/v1/kv", "/v1/tube")):
            continue
        for method, told in methods.items():
            assert told["summary"], (method, path)
            assert told["description"], (method, path)
            assert f"`{method.upper()} {path}`" in reference, (method, path)
    assert "$ref" not in str(document["paths"]["/v1/log/{topic}"]["post"]["requestBody"])
