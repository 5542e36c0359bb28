"""`SyncIterator`: blocking code loops over what comes asynchronously."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from trunkline.core.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from trunkline.core.portal import Portal

T = TypeVar("T")


class SyncIterator(Generic[T]):
    """The blocking twin of an asynchronous generator: ``for item in iterator``.

    What is under way goes on when the one who waits for it stops (Control-C): its item is given to
    whoever asks next. Threads that share an iterator get each item once among them.
    """

    def __init__(self, portal: Portal, items: AsyncGenerator[T, None]):
        self.ended = False
        """Whether nothing comes any more."""
        self._portal = portal
        self._items = items
        self._coming: asyncio.Future[T] | None = None
        self._taking = threading.Lock()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        with self._taking:
            coming = None if self.ended else self._wait()
            if coming is None:
                raise StopIteration
            try:
                item = coming.result()
            except (StopAsyncIteration, asyncio.CancelledError):
                self.ended = True
                raise StopIteration from None
            except BaseException:
                self.ended = True
                raise
            self._coming = None  # not before: what is not taken is given again
            return item

    def close(self) -> None:
        """End; whoever waits for an item is told. Safe to call twice."""
        if not self._portal.closed:
            self._portal.call(self.aclose())

    async def aclose(self) -> None:
        """`close`, in the loop of the portal."""
        self.ended = True
        if self._coming is not None:
            self._coming.cancel()
            await asyncio.gather(self._coming, return_exceptions=True)
        await self._items.aclose()

    def _wait(self) -> asyncio.Future[T] | None:
        """The next item, which is there; None when it or the connection was closed."""
        try:
            return self._portal.call(self._come())
        except (BadRequest, concurrent.futures.CancelledError):
            if not self._portal.closed:
                raise
            self.ended = True
            return None

    async def _come(self) -> asyncio.Future[T] | None:
        if self.ended:
            return None
        if self._coming is None:
            self._coming = asyncio.ensure_future(anext(self._items))
            self._coming.add_done_callback(_look)
        await asyncio.wait({self._coming})
        return self._coming


def _look(coming: asyncio.Future[Any]) -> None:
    """What nobody asks for any more is no failure that nobody was told of."""
    if not coming.cancelled():
        coming.exception()
