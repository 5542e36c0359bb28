"""`Connections`: posts to one URL over connections that stay open.

HTTP/2 where the endpoint chooses it, by httpcore; else HTTP/1.1 with the parser of httptools: a
post and its short answer are all we need, and a client for everything takes several times as long
for them. What is not plainly HTTP is an error, and after anything unusual a connection is not used
again.
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
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

_KEEP_ALIVE = 30.0  # seconds
_LONGEST_HEAD = 65_536
_READ = 65_536
_HAS_HTTP2 = find_spec("h2") is not None
_TARGET = re.compile(rb"[!-~]+")


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
        whole = False
        try:
            async with connection.stream(
                "POST", self._url, headers=list(headers.items()), content=content
            ) as response:
                if not 200 <= response.status <= 999:
                    raise httpcore.RemoteProtocolError("the status of the answer is none")
                said = bytearray()
                async for chunk in response.aiter_stream():
                    said += chunk[: self._excerpt]
                    if len(said) >= self._excerpt:
                        break
                else:
                    whole = True
                given = {name.lower(): value for name, value in response.headers}
                return Response(response.status, given, bytes(said[: self._excerpt]))
        finally:
            if not whole and self._http2 is connection:
                self._http2 = None  # it may be dead, or full of what nobody reads
            if self._http2 is not connection and connection.is_idle():
                await connection.aclose()


class _Http1:
    """One connection that speaks HTTP/1.1: a request, its answer, the next request."""

    def __init__(self, stream: httpcore.AsyncNetworkStream, excerpt: int):
        self._stream = stream
        self._excerpt = excerpt
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
        answer = _Answer(self._excerpt)
        while not answer.enough:
            answer.feed(await self._stream.read(_READ))
        self.reusable = taken and answer.leaves_open
        self._used_at = time.monotonic()
        return Response(answer.status, answer.headers, answer.beginning)

    async def close(self) -> None:
        await self._stream.aclose()


class _Answer:
    """An answer as its bytes come, without the provisional ones before it."""

    def __init__(self, excerpt: int):
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.beginning = b""
        self.enough = False
        self.leaves_open = False
        self._excerpt = excerpt
        self._before_body = 0
        self._parser = HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        """Take what came; nothing is the end of all that comes."""
        if not data:
            self._end()
            return
        if not self.status:
            self._before_body += len(data)
            if self._before_body > _LONGEST_HEAD:
                raise httpcore.RemoteProtocolError("the head of the answer is too long")
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            if self.enough:
                return
            raise httpcore.RemoteProtocolError(f"the answer is not HTTP/1.1: {error}") from error

    def _end(self) -> None:
        if not self.status:
            raise httpcore.RemoteProtocolError("the endpoint hung up before it had answered")
        if b"content-length" in self.headers or b"transfer-encoding" in self.headers:
            raise httpcore.RemoteProtocolError("the endpoint hung up in the middle of its answer")
        self.enough = True

    def on_message_begin(self) -> None:
        self.leaves_open = False  # what follows an answer was not asked for
        if not self.status:
            self.headers = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.status:
            name = name.lower()
            said = self.headers.get(name)
            self.headers[name] = value if said is None else b"%b, %b" % (said, value)

    def on_headers_complete(self) -> None:
        if not self.status and self._parser.get_status_code() >= 200:
            self.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        if not self.enough:
            self.beginning += body[: self._excerpt - len(self.beginning)]
            self.enough = len(self.beginning) == self._excerpt

    def on_message_complete(self) -> None:
        if self.status and not self.enough:
            self.enough = True
            self.leaves_open = self._parser.should_keep_alive()


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
