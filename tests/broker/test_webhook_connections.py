"""Connections of webhooks, against servers that say exactly these bytes."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import httpcore
import pytest

from trunkline.broker.connections import Connections
from trunkline.broker.network import Network

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

EXCERPT = 10
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


@dataclass
class Endpoint:
    """Says what it was told to say to each request, then hangs up if that was all."""

    answers: list[bytes]
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    together: asyncio.Barrier | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self.answers:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                self.requests.append(head + await reader.readexactly(length))
                if self.together is not None:
                    await self.together.wait()
                said = self.answers.pop(0)
                writer.write(said)
                if b"connection: close" in said or b"HTTP/1.0" in said:
                    break
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()
            await writer.wait_closed()
            self.hung_up.set()


@asynccontextmanager
async def connected(
    *answers: bytes, path: str = "/hook?a=1"
) -> AsyncIterator[tuple[Connections, Endpoint]]:
    endpoint = Endpoint(list(answers))
    server = await asyncio.start_server(endpoint.serve, "127.0.0.1", 0)
    connections = Connections(
        f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{path}",
        backend=Network(),
        ssl_context=ssl.create_default_context(),
        excerpt=EXCERPT,
    )
    try:
        yield connections, endpoint
    finally:
        await connections.close()
        server.close()


async def test_a_request_is_sent_as_it_should_be() -> None:
    async with connected(OK) as (connections, endpoint):
        response = await connections.post({"content-type": "text/plain"}, b"body")
        (request,) = endpoint.requests
    head, _, body = request.partition(b"\r\n\r\n")
    first, host, *rest = head.split(b"\r\n")
    assert first == b"POST /hook?a=1 HTTP/1.1"
    assert host.startswith(b"host: 127.0.0.1:")
    assert rest == [b"content-type: text/plain", b"content-length: 4"]
    assert body == b"body"
    assert (response.status, response.beginning) == (200, b"")


@pytest.mark.parametrize(
    "answer",
    [
        OK,
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes",
        b"HTTP/1.1 200\r\ntransfer-encoding: chunked\r\n\r\n2;a=b\r\nye\r\n1\r\ns\r\n0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\ntrailer: 1\r\n\r\n",
    ],
)
async def test_a_connection_whose_answer_was_read_to_its_end_is_used_again(answer: bytes) -> None:
    async with connected(answer, answer) as (connections, endpoint):
        first = await connections.post({}, b"1")
        second = await connections.post({}, b"2")
        assert first == second
        assert (endpoint.connections, len(endpoint.requests)) == (1, 2)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nuntil the end",
        b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\nlonger than",
        b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nand more",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nb\r\nlonger than\r\n0\r\n\r\n",
    ],
)
async def test_any_other_connection_is_not_used_again(answer: bytes) -> None:
    async with connected(answer, OK) as (connections, endpoint):
        first = await connections.post({}, b"1")
        second = await connections.post({}, b"2")
        assert (first.status, second.status, endpoint.connections) == (200, 200, 2)


@pytest.mark.parametrize(
    ("answer", "beginning"),
    [
        (b"content-length: 20\r\n\r\n0123456789 and more", b"0123456789"),
        (b"transfer-encoding: chunked\r\n\r\n14\r\n0123456789 and", b"0123456789"),
        (b"transfer-encoding: chunked\r\n\r\n6\r\n012345\r\n6\r\n6789 a", b"0123456789"),
        (b"connection: close\r\n\r\n0123456789 and more", b"0123456789"),
        (b"connection: close\r\n\r\n012", b"012"),
    ],
)
async def test_of_a_body_the_beginning_is_read_however_it_comes(
    answer: bytes, beginning: bytes
) -> None:
    async with connected(b"HTTP/1.1 500 Oh\r\n" + answer) as (connections, _):
        response = await connections.post({}, b"")
        assert (response.status, response.beginning) == (500, beginning)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\ncontent-le",
        b"HTTP/2 200 OK\r\n\r\n",
        b"SSH-2.0-OpenSSH_9\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 200 OK\r\na header\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nname : value\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nname: value\r\n folded\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabc",
        b"HTTP/1.1 200 OK\ncontent-length: 0\n\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nname: " + b"x" * 200_000 + b"\r\n\r\n",
    ],
)
async def test_what_is_not_an_answer_is_an_error(answer: bytes) -> None:
    async with connected(answer) as (connections, _):
        with pytest.raises(httpcore.RemoteProtocolError):
            await connections.post({}, b"")


async def test_a_connection_that_was_closed_meanwhile_is_opened_again() -> None:
    async with connected(OK) as (connections, endpoint):
        await connections.post({}, b"1")
        await endpoint.hung_up.wait()
        endpoint.answers.append(OK)
        response = await connections.post({}, b"2")
        assert (response.status, endpoint.connections) == (200, 2)


async def test_requests_at_once_have_a_connection_each() -> None:
    async with connected(OK, OK, OK, OK) as (connections, endpoint):
        endpoint.together = asyncio.Barrier(3)
        await asyncio.gather(*(connections.post({}, b"") for _ in range(3)))
        endpoint.together = None
        await connections.post({}, b"")
        assert (endpoint.connections, len(endpoint.requests)) == (3, 4)


async def test_a_path_that_would_break_the_request_is_refused() -> None:
    async with connected(OK, path="/a b") as (connections, endpoint):
        with pytest.raises(httpcore.LocalProtocolError):
            await connections.post({}, b"")
        assert endpoint.requests == []
