"""`SyncStream`: the blocking twin of streams, of events and of live tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from trunkline.core.blocking import SyncIterator

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from trunkline.broker.stream import Heartbeat, Reset
    from trunkline.core.portal import Portal

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Stream(Protocol[T_co]):
    """What `EventStream` and `LiveStream` have in common."""

    @property
    def token(self) -> str | None: ...

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def items(self) -> AsyncGenerator[T_co | Heartbeat | Reset, None]: ...

    def told(self, item: Any) -> T_co | None: ...


class SyncStream(Generic[T]):
    """``for each in stream``; a loop that was left goes on where it was when it is begun again."""

    def __init__(self, portal: Portal, stream: Stream[T]):
        self._portal = portal
        self._stream = stream
        self._items = SyncIterator(portal, stream.items())

    @property
    def token(self) -> str | None:
        """Where the stream stands: after the last that it gave; None before it is open."""
        if self._portal.closed:
            return self._stream.token
        return self._portal.ask(lambda: self._stream.token)

    def open(self) -> None:
        """Begin: what is committed from now on is told. Checks condition and rights."""
        self._portal.call(self._stream.open())

    def close(self) -> None:
        """End; whoever loops over it stops. Safe to call twice, and after the connection's end."""
        if not self._portal.closed:
            self._portal.call(self._close())

    async def _close(self) -> None:
        await self._items.aclose()
        await self._stream.close()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[T]:
        for item in self.items():
            told = self._stream.told(item)
            if told is not None:
                yield told

    def items(self) -> SyncIterator[T | Heartbeat | Reset]:
        """As in a loop, with a `Heartbeat` after every silence, a `Reset` where history is gone."""
        if self._items.ended:
            self._items = SyncIterator(self._portal, self._stream.items())
        return self._items
