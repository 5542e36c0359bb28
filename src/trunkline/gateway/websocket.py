"""The protocol graphql-transport-ws: many operations over one WebSocket.

Codes with which we close: 1001 we stop, 4400 what came is no message, 4401 nobody knows who asks
(any more), 4403 the token is refused, 4406 another protocol, 4408 no connection_init came in time,
4409 an id is in use, 4429 a second connection_init.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.websockets import WebSocket, WebSocketDisconnect

from trunkline.core import telemetry
from trunkline.core.errors import Forbidden, Invalid, TooMany, TrunklineError
from trunkline.gateway import operations
from trunkline.gateway.auth import token_in, token_of
from trunkline.gateway.operations import Operation
from trunkline.gateway.problems import Unauthenticated
from trunkline.gateway.reading import read_json
from trunkline.gateway.rendering import written
from trunkline.gateway.sse import SEND_WITHIN
from trunkline.gateway.subscribing import Asking

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from trunkline.gateway.gateway import Gateway

logger = telemetry.get_logger(__name__)

PROTOCOL = "graphql-transport-ws"
INIT_WITHIN = 10.0  # seconds

_GOODBYE_WITHIN = 2.0  # seconds
_LONGEST_REASON = 123  # bytes, a limit of WebSocket
_LONGEST_ID = 1_000


class _Close(Exception):
    """The conversation ends, for this reason."""

    def __init__(self, code: int, reason: str):
        super().__init__(reason)
        self.code = code
        self.reason = reason.encode()[:_LONGEST_REASON].decode(errors="ignore")


class _Gone(Exception):
    """Whoever should be told is not there any more, or does not read."""


class Conversation:
    """What is said over one WebSocket."""

    def __init__(self, gateway: Gateway, socket: WebSocket):
        self._gateway = gateway
        self._socket = socket
        self._asking: Asking | None = None
        self._running: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._end: asyncio.Future[_Close | None] = asyncio.get_running_loop().create_future()
        self._limit: asyncio.TimerHandle | None = None
        self._sending = asyncio.Lock()

    async def run(self) -> None:
        """Talk until one side ends it."""
        if not _is_welcome(self._socket, self._gateway.cors):
            await self._socket.close(4403)
            return
        if PROTOCOL not in self._socket.scope["subprotocols"]:
            await self._socket.accept()
            await self._socket.close(4406, f"Expected the subprotocol {PROTOCOL}")
            return
        await self._socket.accept(PROTOCOL)
        self._end_after(INIT_WITHIN, 4408, "Connection initialisation timeout")
        self._start(self._hear())
        self._start(self._wait_for_stop())
        try:
            await self._say_goodbye(await self._end)
        finally:
            if self._limit is not None:
                self._limit.cancel()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _say_goodbye(self, why: _Close | None) -> None:
        with suppress(RuntimeError, WebSocketDisconnect, OSError):  # it is gone already
            if why is not None:
                async with asyncio.timeout(_GOODBYE_WITHIN):
                    await self._socket.close(why.code, why.reason)

    def _finish(self, why: _Close | None) -> None:
        if not self._end.done():
            self._end.set_result(why)

    def _end_after(self, seconds: float, code: int, reason: str) -> None:
        if self._limit is not None:
            self._limit.cancel()
        loop = asyncio.get_running_loop()
        self._limit = loop.call_later(seconds, self._finish, _Close(code, reason))

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _wait_for_stop(self) -> None:
        await self._gateway.stopping.wait()
        self._finish(_Close(1001, "The server stops"))

    async def _hear(self) -> None:
        try:
            while not self._end.done():
                await self._heard(await self._message())
        except _Close as error:
            self._finish(error)
        except (WebSocketDisconnect, _Gone):
            self._finish(None)
        except Exception as error:
            logger.exception("conversation failed", error=error)
            self._finish(_Close(1011, "Something went wrong here"))

    async def _message(self) -> dict[str, Any]:
        received = await self._socket.receive()
        if received["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(received.get("code", 1005))
        try:
            message = read_json(received.get("text") or "", "a message")
        except Invalid:
            raise _Close(4400, "Expected a message as JSON text") from None
        if not isinstance(message, dict) or not isinstance(message.get("type"), str):
            raise _Close(4400, "Expected a JSON object with a type")
        return message

    async def _heard(self, message: dict[str, Any]) -> None:
        match message["type"]:
            case "connection_init":
                await self._begin(message.get("payload"))
            case "ping":
                await self._send({"type": "pong"})
            case "pong":
                pass
            case "subscribe":
                await self._subscribe(_id(message), message.get("payload"))
            case "complete":
                if task := self._running.pop(_id(message), None):
                    task.cancel()
            case other:
                raise _Close(4400, f"There is no type {other[:40]!r}")

    async def _begin(self, payload: Any) -> None:
        if self._asking is not None:
            raise _Close(4429, "Too many initialisation requests")
        if not isinstance(payload, dict | None):
            raise _Close(4400, "The payload of connection_init is an object")
        try:
            identity = await self._gateway.admit(token_in(payload) or token_of(self._socket))
        except (Unauthenticated, Forbidden) as error:
            raise _Close(4403, f"Forbidden: {error}") from None
        except TrunklineError as error:
            raise _Close(1013, f"Try again later: {error}") from None
        self._asking = Asking(self._gateway, identity)
        self._socket.state.admitted()
        if identity.rest is not None:
            self._end_after(identity.rest, 4401, "Unauthorized: the token has expired")
        elif self._limit is not None:
            self._limit.cancel()
        await self._send({"type": "connection_ack"})

    async def _subscribe(self, name: str, payload: Any) -> None:
        if self._asking is None:
            raise _Close(4401, "Unauthorized")
        if name in self._running:
            raise _Close(4409, f"Subscriber for {name} already exists")
        try:
            operation = Operation.parse(payload)
        except TrunklineError as error:
            raise _Close(4400, str(error)) from None
        most = self._gateway.settings.gateway_streams_per_connection
        if len(self._running) < most:
            self._running[name] = self._start(self._operate(name, operation, self._asking))
            return
        refusal = TooMany(
            f"{most} operations run on this connection, and that is the most.",
            hint="End some, or open another connection.",
        )
        await self._send({"type": "error", "id": name, "payload": operations.failures(refusal)})

    async def _operate(self, name: str, operation: Operation, asking: Asking) -> None:
        try:
            prepared = await operations.prepare(asking, operation)
            if prepared.subscribes:
                async with aclosing(await operations.begin(asking, prepared)) as results:
                    async for result in results:
                        await self._next(name, operations.as_json(result))
            else:
                await self._next(name, operations.as_json(await operations.run(asking, prepared)))
        except _Gone:
            self._finish(None)
        except Unauthenticated:
            self._finish(_Close(4401, "Unauthorized: the token has expired"))
        except Exception as error:  # noqa: BLE001 - told to whoever asked
            told = operations.failures(error)
            await self._last(name, {"type": "error", "id": name, "payload": told})
        else:
            if not self._gateway.stopping.is_set():
                await self._last(name, {"type": "complete", "id": name})

    async def _next(self, name: str, payload: dict[str, Any]) -> None:
        await self._send({"type": "next", "id": name, "payload": payload})

    async def _last(self, name: str, message: dict[str, Any]) -> None:
        """The last word of an operation; its id may be used again."""
        if self._running.get(name) is asyncio.current_task():
            del self._running[name]
            try:
                await self._send(message)
            except _Gone:
                self._finish(None)

    async def _send(self, message: dict[str, Any]) -> None:
        text = written(message)
        try:
            async with asyncio.timeout(SEND_WITHIN), self._sending:
                await self._socket.send_text(text)
        except (WebSocketDisconnect, RuntimeError, OSError):  # as a TimeoutError is, too
            raise _Gone from None


def _id(message: dict[str, Any]) -> str:
    name = message.get("id")
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_ID:
        raise _Close(4400, "An operation has an id, which is a text")
    return name


def _is_welcome(socket: WebSocket, cors: tuple[str, ...]) -> bool:
    """Whether the page that opens it may: browsers ask nobody before a WebSocket."""
    origin = socket.headers.get("origin")
    if origin is None or "*" in cors or origin in cors:
        return True
    return bool(place := urlsplit(origin).netloc) and place == socket.headers.get("host")
