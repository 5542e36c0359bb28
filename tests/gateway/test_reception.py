"""What every request passes before a route sees it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from tests.gateway.serving import asking, bearer, serving

from trunkline.gateway import reception

if TYPE_CHECKING:
    from tests.gateway.serving import Web


async def opened(web: Web) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    place = urlsplit(str(web.client.base_url))
    return await asyncio.open_connection(place.hostname, place.port)


async def status(reader: asyncio.StreamReader) -> int:
    return int((await asyncio.wait_for(reader.readline(), 10)).split()[1])


async def test_a_body_is_read_of_those_alone_who_may_ask(served: Web) -> None:
    reader, writer = await opened(served)
    writer.write(b"POST /v1/kv HTTP/1.1\r\nHost: x\r\nContent-Length: 8000000\r\n\r\nmuch")
    assert await status(reader) == 401
    writer.close()


async def test_a_body_that_does_not_come_is_not_waited_for(
    served: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reception, "BODY_WITHIN", 0.1)
    reader, writer = await opened(served)
    allowed = bearer("trunkline_writer")["Authorization"]
    head = f"POST /v1/kv HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nAuthorization: {allowed}"
    writer.write(f"{head}\r\n\r\n{{".encode())
    assert await status(reader) == 408
    writer.close()


async def test_many_bodies_at_once_have_a_limit_together(
    gateway_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reception, "_BODIES_AT_ONCE", 1)
    async with serving(gateway_dsn, gateway_body_bytes=65_536) as web:
        allowed = bearer("trunkline_writer")["Authorization"]
        head = (
            f"POST /v1/kv HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\nAuthorization: {allowed}"
        )
        half_sent = [await opened(web) for _ in range(2)]
        for _, writer in half_sent:
            writer.write(f"{head}\r\n\r\n".encode() + b" " * 40_000)
        readers = [asyncio.create_task(status(reader)) for reader, _ in half_sent]
        done, waiting = await asyncio.wait(readers, return_when=asyncio.FIRST_COMPLETED)
        assert [task.result() for task in done] == [503]
        assert len(waiting) == 1
        for _, writer in half_sent:
            writer.close()
        await asyncio.wait(readers)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Host": "evil.example:8102"}, 403),
        ({"Host": "localhost", "Origin": "http://evil.example"}, 403),
        ({"Host": "localhost", "Origin": "http://localhost"}, 201),
        ({"Host": "127.0.0.1:8102"}, 201),
        ({"Host": "[::1]:8102"}, 201),
    ],
)
async def test_without_tokens_pages_of_others_are_refused(
    gateway_dsn: str, headers: dict[str, str], expected: int
) -> None:
    async with asking(gateway_dsn, insecure=True) as web:
        await web.client.delete("/v1/kv/neighbours")
        answer = await web.client.put("/v1/kv/neighbours", json=1, headers=headers)
    assert answer.status_code == expected, answer.text


async def test_head_is_answered_as_get_is_without_the_body(served: Web) -> None:
    for path in ("/healthz", "/v1/log", "/v1/kv-watch", "/v1/kv/not-there"):
        asked = await served.raw("HEAD", path)
        async with served.client.stream("GET", path, headers=bearer("trunkline_admin")) as got:
            assert asked.status_code == got.status_code
            assert asked.headers["content-type"] == got.headers["content-type"]
        assert asked.content == b""


async def test_a_parameter_that_is_not_known_is_refused_by_name(web: Web) -> None:
    await web.ask("PUT", "/v1/log/parameters", json={})
    told = await web.refused("GET", "/v1/log/parameters/messages?form=1", 422)
    assert told["detail"] == 'there is no parameter "form".'
    assert "from" in told["hint"]


async def test_a_body_that_is_not_said_to_be_json_is_refused_with_what_to_say(
    web: Web, fresh: str
) -> None:
    path = f"/v1/log/{fresh}/trim"
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    told = await web.refused("POST", path, 422, content=b'{"partition": 0}', headers=form)
    assert told["detail"] == "body: it is a JSON object."
    assert told["hint"] == "Send it with the header Content-Type: application/json."
    told = await web.refused("POST", path, 422, json=[1])
    assert (told["detail"], "hint" in told) == ("body: it is a JSON object.", False)


async def test_what_a_client_expects_is_never_passed_over(web: Web, fresh: str) -> None:
    path = f"/v1/kv/{fresh}"
    first = await web.raw("PUT", path, json={"n": 1})
    await web.refused("PATCH", path, 422, json={"n": 1}, headers={"If-Match": '"1-1"'})
    await web.refused("PUT", path, 422, json=2, headers={"If-Match": f"W/{first.headers['ETag']}"})
    assert await web.ask("GET", path) == {"n": 1}
    for tags in (f'"other", W/{first.headers["ETag"]}', "*"):
        assert (await web.raw("GET", path, headers={"If-None-Match": tags})).status_code == 304
