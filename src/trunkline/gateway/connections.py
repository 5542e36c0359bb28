"""Limits on HTTP connections: time for a request head, and numbers of connections.

A connection *waits* while no request of it is being answered: before the end of a request head,
between requests, and as a WebSocket whose client is not admitted yet. A client needs no token for
any of that, so waiting connections have a limit of their own, and the oldest is closed when a new
one exceeds it: a flood of unfinished requests costs other clients nothing.
"""

from __future__ import annotations

import asyncio
import resource
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from uvicorn.protocols.http.auto import AutoHTTPProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from trunkline.core.errors import BadRequest
from trunkline.gateway.problems import Full, respond

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from trunkline.gateway.settings import GatewaySettings

_MOST_WAITING = 4_096
_LARGEST_BACKLOG = 2_048
_UNLIMITED = 1 << 20  # descriptors, where the system sets no limit
_TOO_LATE = (
    b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\ncache-control: no-store\r\n"
    b"connection: close\r\n\r\n"
)


class Connections:
    """The open connections of a process and their limits.

    Of the file descriptors that the process may open, by default half are for requests, a quarter
    for waiting connections, and the rest for the database and for services.
    """

    def __init__(self, settings: GatewaySettings):
        descriptors = _descriptors()
        self.most = settings.gateway_connections or descriptors // 2
        self.most_waiting = min(max(self.most // 2, 1), _MOST_WAITING)
        if self.most + self.most_waiting > descriptors:
            raise BadRequest(
                f"{self.most} connections and half as many that wait need more than the "
                f"{descriptors} files that this process may open.",
                hint="Raise the limit (ulimit -n), or lower TRUNKLINE_GATEWAY_CONNECTIONS.",
            )
        # asyncio accepts as many at once before any of them is counted
        self.backlog = min(max(descriptors // 8, 1), _LARGEST_BACKLOG)
        self.header_seconds = settings.gateway_header_seconds
        self._serving: set[asyncio.Transport] = set()
        self._waiting: dict[asyncio.Transport, None] = {}  # oldest first

    @property
    def full(self) -> bool:
        """Whether more connections have a request than may."""
        return len(self._serving) > self.most

    def wait(self, connection: asyncio.Transport) -> None:
        """Count a connection as waiting, and close the oldest of too many."""
        self._serving.discard(connection)
        self._waiting.setdefault(connection)
        if len(self._waiting) > self.most_waiting:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            oldest.abort()

    def serve(self, connection: asyncio.Transport) -> None:
        """Count a connection as one with a request."""
        self._waiting.pop(connection, None)
        self._serving.add(connection)

    def forget(self, connection: asyncio.Transport) -> None:
        """Count a connection no more: it is closed."""
        self._waiting.pop(connection, None)
        self._serving.discard(connection)

    def protocols(self) -> tuple[type[asyncio.Protocol], type[asyncio.Protocol]]:
        """The classes for HTTP and WebSocket that keep these limits."""
        http = type("Http", (_LimitedHttp, AutoHTTPProtocol), {"limits": self})
        return http, type("Socket", (_LimitedSocket,), {"limits": self})


class _LimitedHttp(asyncio.Protocol):
    """What is added to the HTTP protocol of uvicorn, which has no time-out for heads."""

    limits: Connections
    transport: asyncio.Transport
    cycle: Any
    _late: asyncio.TimerHandle | None = None
    _begun = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.limits.wait(self.transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        self._begun = True
        super().data_received(data)
        if self.transport.get_protocol() is not self:  # a WebSocket, which has limits of its own
            self._expect_nothing()
        elif self._serves():
            self._expect_nothing()
            self.limits.serve(self.transport)
        elif self._late is None:
            self._expect_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()  # type: ignore[misc]
        if not self._serves():
            self._begun = False
            self.limits.wait(self.transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        self.limits.forget(self.transport)
        super().connection_lost(exc)

    def _serves(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _expect_head(self) -> None:
        loop = asyncio.get_running_loop()
        self._late = loop.call_later(self.limits.header_seconds, self._end)

    def _expect_nothing(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _end(self) -> None:
        if not self.transport.is_closing():
            if self._begun:
                self.transport.write(_TOO_LATE)
            self.transport.close()


class _LimitedSocket(WebSocketsSansIOProtocol):
    """A WebSocket that waits until ``state.admitted()`` is called for its client."""

    limits: Connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        connection = cast("asyncio.Transport", transport)
        self.app_state = {**self.app_state, "admitted": partial(self.limits.serve, connection)}

    def connection_lost(self, exc: Exception | None) -> None:
        self.limits.forget(self.transport)
        super().connection_lost(exc)


class Concurrency:
    """Refuses requests while too many connections have one; /healthz is always answered."""

    def __init__(self, app: ASGIApp, *, connections: Connections):
        self._app = app
        self._connections = connections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or refuse it."""
        if self._connections.full and scope.get("path") != "/healthz":
            error = Full(
                f"{self._connections.most} connections are in use, and no more can be served here.",
                hint="Try again later.",
            )
            await respond(error)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _descriptors() -> int:
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED if most == resource.RLIM_INFINITY else most
