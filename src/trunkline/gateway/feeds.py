"""Streams that are open: how many, until when, and their end with the process.

A `Feed` is a stream that ends when the token of whoever asked for it does, and when the gateway
stops. It asks for an item only when the one before was taken: whoever reads slowly, or not at all,
costs no memory.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

from trunkline.core import telemetry
from trunkline.gateway.problems import Full, Unauthenticated

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator

    from trunkline.gateway.auth import Identity


class Stream(Protocol):
    """What can be followed: open inside its block."""

    @property
    def token(self) -> str | None: ...

    def items(self) -> AsyncGenerator[Any, None]: ...

    def __aenter__(self) -> Any: ...

    def __aexit__(self, *error: Any) -> Any: ...


class Feed:
    """One stream for one who asked."""

    def __init__(self, stream: Stream, identity: Identity):
        self._stream = stream
        self._identity = identity
        self._waiting: asyncio.Timeout | None = None
        self._stopped = False

    @property
    def token(self) -> str:
        """Where it stands."""
        return self._stream.token or ""

    def stop(self) -> None:
        """End it in good order."""
        self._stopped = True
        if self._waiting is not None:
            with suppress(RuntimeError):  # its time is over at this very moment
                self._waiting.reschedule(asyncio.get_running_loop().time())

    async def items(self) -> AsyncGenerator[Any, None]:
        """What comes, until the gateway stops; raises `Unauthenticated` when the token expires."""
        async with aclosing(self._stream.items()) as items:
            while not self._stopped:
                rest = self._identity.rest
                if rest is not None and rest <= 0:  # also where the next item waits already
                    raise _expired()
                try:
                    async with asyncio.timeout(rest) as self._waiting:
                        item = await anext(items)
                except StopAsyncIteration:
                    return
                except TimeoutError:
                    if self._stopped:
                        return
                    if self._waiting is not None and self._waiting.expired():
                        raise _expired() from None
                    raise
                finally:
                    self._waiting = None
                yield item


def _expired() -> Unauthenticated:
    return Unauthenticated("the token has expired.", hint="Come again with a new one.")


class Feeds:
    """All streams of the process."""

    def __init__(self, most: int):
        self._most = most
        self._open: set[Feed] = set()
        self._stopping = False
        self._quiet = asyncio.Event()
        self._quiet.set()

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Feed]:
        return iter(tuple(self._open))

    @asynccontextmanager
    async def open(self, stream: Stream, identity: Identity) -> AsyncIterator[Feed]:
        """Open a stream; it counts until the block ends."""
        if self._stopping or len(self._open) >= self._most:
            raise Full(
                f"{len(self._open)} streams are open, and no more can be served here.",
                hint="Try again later.",
            )
        feed = Feed(stream, identity)
        self._open.add(feed)
        self._tell()
        try:
            async with stream:
                yield feed
        finally:
            self._open.discard(feed)
            self._tell()

    async def stop(self, within: float) -> None:
        """End all of them, and let none begin; those who read are told within so many seconds."""
        self._stopping = True
        for feed in self:
            feed.stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._quiet.wait()

    def _tell(self) -> None:
        telemetry.gauge("gateway_streams").set(len(self._open))
        if self._open:
            self._quiet.clear()
        else:
            self._quiet.set()
