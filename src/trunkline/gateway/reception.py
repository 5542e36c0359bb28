"""What every request passes before a route sees it: who calls, with which body, and HEAD."""

from __future__ import annotations

import asyncio
import ipaddress
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from trunkline.core.errors import Forbidden, TooLarge, TrunklineError, Unavailable
from trunkline.gateway.auth import token_of
from trunkline.gateway.problems import TooSlow, respond

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from trunkline.gateway.gateway import Gateway

BODY_WITHIN = 60.0  # seconds until a body has come
_BODIES_AT_ONCE = 16  # of the largest kind: so much memory is for bodies that are on their way
_READING = frozenset({"GET", "HEAD", "OPTIONS"})


class Bodies:
    """Reads bodies before anybody else does: of those who may ask, not too large, not for ever."""

    def __init__(self, app: ASGIApp, *, gateway: Gateway):
        self._app = app
        self._gateway = gateway
        self._most = gateway.settings.gateway_body_bytes
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass with its body in one piece, or say why not."""
        if scope["type"] != "http" or scope["method"] in _READING:
            await self._app(scope, receive, send)
            return
        body = bytearray()
        try:
            await self._gateway.admit(token_of(HTTPConnection(scope)))
            whole = await self._read(scope, receive, body)
        except TrunklineError as error:
            await respond(error)(scope, receive, send)
            return
        finally:
            self._held -= len(body)
        if whole:
            request: Message = {"type": "http.request", "body": bytes(body)}
            await self._app(scope, _first(request, receive), send)

    async def _read(self, scope: Scope, receive: Receive, body: bytearray) -> bool:
        """Read the body; whether it came to its end."""
        told = dict(scope["headers"]).get(b"content-length", b"0")
        self._refuse_large(int(told) if told.isdigit() else 0)
        try:
            async with asyncio.timeout(BODY_WITHIN):
                while (message := await receive())["type"] != "http.disconnect":
                    part = message.get("body", b"")
                    body += part
                    self._held += len(part)
                    self._refuse_large(len(body))
                    if not message.get("more_body", False):
                        return True
        except TimeoutError:
            raise TooSlow(f"the body did not come within {BODY_WITHIN:g} seconds.") from None
        return False

    def _refuse_large(self, size: int) -> None:
        if size > self._most:
            raise TooLarge(
                f"a body has at most {self._most} bytes.",
                hint="Send less at once, or raise TRUNKLINE_GATEWAY_BODY_BYTES.",
                details={"limit": self._most},
            )
        if self._held > self._most * _BODIES_AT_ONCE:
            raise Unavailable("too much is being sent at once.", hint="Try again soon.")


def _first(message: Message, receive: Receive) -> Receive:
    """What gives this message, and then what there is."""
    waiting = [message]

    async def next_one() -> Message:
        return waiting.pop() if waiting else await receive()

    return next_one


class Neighbours:
    """Without tokens only programs and pages of this address are served, no page of another.

    A page from anywhere may have its own name lead to this machine, and any page may post here.
    """

    def __init__(self, app: ASGIApp, *, gateway: Gateway):
        self._app = app
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or refuse it."""
        if scope["type"] in {"http", "websocket"} and not self._welcome(scope):
            error = Forbidden(
                "without tokens only programs and pages of this very address are served.",
                hint="Call it by localhost or its number, or serve with tokens.",
            )
            await respond(error)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _welcome(self, scope: Scope) -> bool:
        headers = HTTPConnection(scope).headers
        host = headers.get("host", "")
        if not (_is_address(host) or _name(host) in {"localhost", self._gateway.host}):
            return False
        origin = headers.get("origin")
        if origin is None or scope.get("method") in _READING:
            return True
        return origin in self._gateway.cors or urlsplit(origin).netloc == host


def _name(host: str) -> str | None:
    with suppress(ValueError):
        return urlsplit(f"//{host}").hostname
    return None


def _is_address(host: str) -> bool:
    with suppress(ValueError):
        return bool(ipaddress.ip_address(_name(host) or ""))
    return False


class Heads:
    """HEAD is answered as GET, without the body; of a stream only that it can be had."""

    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        begun = asyncio.Event()

        async def until_begun() -> Message:
            await begun.wait()
            return {"type": "http.disconnect"}

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body"})
                begun.set()

        request: list[Message] = [{"type": "http.request", "body": b""}]
        asked = {**scope, "method": "GET"}
        await self._app(asked, lambda: _next(request, until_begun), told)


async def _next(waiting: list[Message], rest: Receive) -> Message:
    return waiting.pop() if waiting else await rest()
