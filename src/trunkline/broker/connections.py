"""`Connections`: posts to one URL over connections that stay open.

HTTP/2 where the endpoint chooses it, by httpcore; else HTTP/1.1, spoken here: a post and its short
answer are all we need, and a client for everything takes several times as long for them. What is
not plainly HTTP is an error, and after anything unusual a connection is not used again.
"""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING

import httpcore

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

_KEEP_ALIVE = 30.0  # seconds
_LONGEST_HEAD = 65_536
_READ = 65_536
_HAS_HTTP2 = find_spec("h2") is not None
_LINE_END = re.compile(rb"\r?\n")
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9][0-9])(?: [^\r\n\0]*)?")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*?)[ \t]*")
_TARGET = re.compile(rb"[!-~]+")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?")


@dataclass(frozen=True, slots=True)
class Response:
    """What was answered, and the beginning of the body."""

    status: int
    headers: Mapping[bytes, bytes]
    beginning: bytes


class Connections:
    """Connections to one endpoint: as many as are used at once, or one that takes all."""

    def __init__(
        self,
        url: str,
        *,
        backend: httpcore.AsyncNetworkBackend,
        ssl_context: ssl.SSLContext,
        excerpt: int,
    ):
        self._text = url
        self._backend = backend
        self._ssl = ssl_context
        self._excerpt = excerpt
        self._connecting = asyncio.Lock()
        self._idle: list[_Http1] = []
        self._http2: httpcore.AsyncHTTP2Connection | None = None

    @cached_property
    def _url(self) -> httpcore.URL:
        return httpcore.URL(self._text)

    async def post(self, headers: Mapping[str, str], content: bytes) -> Response:
        """Post; the errors of httpcore, and those of its backend, when no answer comes."""
        if (connection := await self._found()) is None:
            async with self._connecting:
                connection = await self._found() or await self._connected()
        if isinstance(connection, httpcore.AsyncHTTP2Connection):
            return await self._post_http2(connection, headers, content)
        try:
            response = await connection.exchange(_request(self._url, headers, content))
        except BaseException:
            await connection.close()
            raise
        if connection.reusable:
            self._idle.append(connection)
        else:
            await connection.close()
        return response

    async def close(self) -> None:
        """Close what nobody uses."""
        while self._idle:
            await self._idle.pop().close()
        if self._http2 is not None:
            await self._http2.aclose()

    async def _found(self) -> _Http1 | httpcore.AsyncHTTP2Connection | None:
        """A connection that is open and can take a request."""
        if self._http2 is not None:
            if self._http2.is_available() and not self._http2.has_expired():
                return self._http2
            if self._http2.is_idle():
                await self._http2.aclose()
            self._http2 = None
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
            await connection.close()
        return None

    async def _connected(self) -> _Http1 | httpcore.AsyncHTTP2Connection:
        host, secure = self._url.host.decode("ascii"), self._url.scheme == b"https"
        stream = await self._backend.connect_tcp(host, self._url.origin.port)
        if secure:
            self._ssl.set_alpn_protocols(["http/1.1", "h2"] if _HAS_HTTP2 else ["http/1.1"])
            stream = await stream.start_tls(self._ssl, server_hostname=host)
            agreed = stream.get_extra_info("ssl_object").selected_alpn_protocol()
            if agreed == "h2":
                self._http2 = httpcore.AsyncHTTP2Connection(self._url.origin, stream, _KEEP_ALIVE)
                return self._http2
        return _Http1(stream, self._excerpt)

    async def _post_http2(
        self,
        connection: httpcore.AsyncHTTP2Connection,
        headers: Mapping[str, str],
        content: bytes,
    ) -> Response:
        async with connection.stream(
            "POST", self._url, headers=list(headers.items()), content=content
        ) as response:
            said = bytearray()
            async for chunk in response.aiter_stream():
                said += chunk[: self._excerpt]
                if len(said) >= self._excerpt:
                    break
            given = {name.lower(): value for name, value in response.headers}
            return Response(response.status, given, bytes(said[: self._excerpt]))


class _Http1:
    """One connection that speaks HTTP/1.1: a request, its answer, the next request."""

    def __init__(self, stream: httpcore.AsyncNetworkStream, excerpt: int):
        self._stream = stream
        self._excerpt = excerpt
        self._came = b""  # and is not understood yet
        self._used_at = time.monotonic()
        self.reusable = False

    @property
    def usable(self) -> bool:
        """Whether it may still be open: nobody speaks between two requests but to say goodbye."""
        return time.monotonic() < self._used_at + _KEEP_ALIVE and not self._stream.get_extra_info(
            "is_readable"
        )

    async def exchange(self, request: bytes) -> Response:
        """Send a request and wait for the answer."""
        self.reusable = False
        taken = False
        with suppress(httpcore.WriteError):  # who does not want the rest may have said why
            await self._stream.write(request)
            taken = True
        version, status, headers = await self._head()
        while status < 200:
            version, status, headers = await self._head()
        beginning, whole = await self._body(status, headers)
        stays = version == 1 and b"close" not in headers.get(b"connection", b"").lower()
        self.reusable = taken and whole and stays and not self._came
        self._used_at = time.monotonic()
        return Response(status, headers, beginning)

    async def close(self) -> None:
        await self._stream.aclose()

    async def _head(self) -> tuple[int, int, dict[bytes, bytes]]:
        """The version after the dot, the status, the headers."""
        status, *lines = (await self._until(_HEAD_END)).replace(b"\r\n", b"\n").split(b"\n")
        told = _STATUS.fullmatch(status)
        named = [_HEADER.fullmatch(line) for line in lines]
        if told is None or not all(named) or told[2] == b"101":
            raise httpcore.RemoteProtocolError("the answer is not HTTP/1.1")
        headers: dict[bytes, bytes] = {}
        for found in filter(None, named):
            name = found[1].lower()
            headers[name] = headers[name] + b", " + found[2] if name in headers else found[2]
        return int(told[1]), int(told[2]), headers

    async def _body(self, status: int, headers: Mapping[bytes, bytes]) -> tuple[bytes, bool]:
        """The beginning of the body, and whether that is all of it."""
        if status in {204, 304}:
            return b"", True
        if b"transfer-encoding" in headers:
            if headers[b"transfer-encoding"].lower() != b"chunked":
                raise httpcore.RemoteProtocolError(
                    "the answer has an encoding that nobody asked for"
                )
            return await self._chunks()
        if (length := headers.get(b"content-length")) is None:
            return await self._some(self._excerpt), False
        if not length.isdigit() or len(length) > 15:
            raise httpcore.RemoteProtocolError("the answer has a content-length that is none")
        beginning = await self._exactly(min(int(length), self._excerpt))
        return beginning, len(beginning) == int(length)

    async def _chunks(self) -> tuple[bytes, bool]:
        said = b""
        while (room := self._excerpt - len(said)) > 0:
            size = _CHUNK.fullmatch(await self._until(_LINE_END))
            if size is None:
                raise httpcore.RemoteProtocolError("the answer has a chunk without a size")
            length = int(size[1], 16)
            if length == 0:
                return said, await self._until(_LINE_END) == b""  # with trailers, never mind
            said += await self._exactly(min(length, room))
            if length >= room:
                break
            if await self._until(_LINE_END) != b"":
                raise httpcore.RemoteProtocolError("the answer has a chunk that does not end")
        return said, False

    async def _until(self, end: re.Pattern[bytes]) -> bytes:
        """What comes before ``end``, which is read, too."""
        while (found := end.search(self._came)) is None:
            if len(self._came) > _LONGEST_HEAD:
                raise httpcore.RemoteProtocolError("the head of the answer is too long")
            if not await self._more():
                raise httpcore.RemoteProtocolError("the endpoint hung up before it had answered")
        before, self._came = self._came[: found.start()], self._came[found.end() :]
        return before

    async def _exactly(self, length: int) -> bytes:
        said = await self._some(length)
        if len(said) < length:
            raise httpcore.RemoteProtocolError("the endpoint hung up in the middle of its answer")
        return said

    async def _some(self, most: int) -> bytes:
        """So many bytes, or what comes until the end."""
        while len(self._came) < most and await self._more():
            pass
        said, self._came = self._came[:most], self._came[most:]
        return said

    async def _more(self) -> bool:
        came = await self._stream.read(_READ)
        self._came += came
        return bool(came)


def _request(url: httpcore.URL, headers: Mapping[str, str], content: bytes) -> bytes:
    """A request as it is sent, in one piece."""
    if not _TARGET.fullmatch(url.target):
        raise httpcore.LocalProtocolError("the path of the URL has characters that no request has")
    host = b"[%b]" % url.host if b":" in url.host else url.host
    host = host if url.port is None else b"%b:%d" % (host, url.port)
    lines = [
        b"POST %b HTTP/1.1" % url.target,
        b"host: %b" % host,
        *(f"{name}: {value}".encode("ascii") for name, value in headers.items()),
        b"content-length: %d" % len(content),
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n" + content
