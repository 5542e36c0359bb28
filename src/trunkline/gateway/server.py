"""`serve`: the application on a port, in this event loop, until told to stop."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import uvicorn

from trunkline.core import telemetry
from trunkline.core.errors import BadRequest
from trunkline.gateway.app import make_app
from trunkline.gateway.auth import Authenticator
from trunkline.gateway.connections import Connections
from trunkline.gateway.gateway import Gateway
from trunkline.gateway.graphql import LARGEST
from trunkline.gateway.sse import SEND_WITHIN

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from trunkline.gateway.settings import GatewaySettings
    from trunkline.platform import Platform

logger = telemetry.get_logger(__name__)

_GOODBYE_WITHIN = 5  # seconds for those who read
_PING_EVERY = 20.0  # seconds; who does not answer for as long is let go


class _Server(uvicorn.Server):
    """One that leaves signals to us."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serve(
    platform: Platform,
    settings: GatewaySettings,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    insecure: bool = False,
    cors: Iterable[str] = (),
) -> AsyncIterator[tuple[Gateway, str]]:
    """Serve inside the block; gives the gateway and its address."""
    check(settings, insecure=insecure, cors=(cors := tuple(cors)))
    async with platform.db.connection() as connection:
        own_role = connection.info.user
    gateway = Gateway(
        platform, settings, own_role=own_role, host=host, insecure=insecure, cors=cors
    )
    await gateway.begin()
    # What uvicorn says otherwise has whole URLs in it, and they may have tokens; or is about
    # rubbish, of which anybody can send as much as he likes.
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    http, websocket = gateway.connections.protocols()
    server = _Server(
        uvicorn.Config(
            make_app(gateway),
            log_config=None,
            access_log=False,
            lifespan="off",
            http=http,
            ws=websocket,
            backlog=gateway.connections.backlog,
            timeout_keep_alive=settings.gateway_idle_seconds,
            ws_max_size=LARGEST,
            ws_ping_interval=_PING_EVERY,
            ws_ping_timeout=_PING_EVERY,
            timeout_graceful_shutdown=_GOODBYE_WITHIN,
            server_header=False,
        )
    )
    with _bound(host, port) as bound:
        serving = asyncio.create_task(server.serve([bound]), name="gateway")
        try:
            yield gateway, _address(bound)
        finally:
            await gateway.stop(_GOODBYE_WITHIN)
            server.should_exit = True
            await serving


@contextmanager
def _bound(host: str, port: int) -> Iterator[socket.socket]:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        bound = socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError, UnicodeError) as error:
        raise BadRequest(
            f"cannot listen on {host}, port {port}: {error}.", hint="Give another --port."
        ) from None
    # asyncio does so for sockets that it makes itself; else small answers wait 40 ms for an ack
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with bound:
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # what nobody reads is not kept for ever
            bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(SEND_WITHIN * 1000))
        yield bound


def check(settings: GatewaySettings, *, insecure: bool, cors: Iterable[str]) -> None:
    """Find what makes no sense before anything is started."""
    Authenticator(settings, own_role="", insecure=insecure)
    Connections(settings)
    for origin in cors:
        _check_origin(origin)


def _check_origin(origin: str) -> None:
    parts = urlsplit(origin)
    if origin != "*" and (not parts.netloc or origin != f"{parts.scheme}://{parts.netloc}".lower()):
        raise BadRequest(
            f'"{origin[:100]}" is no origin of pages.', hint="Expected https://shop.example, or *."
        )


def _address(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
