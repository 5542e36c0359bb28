"""`Mailbox`: what lies between the one who reads for all and a stream that is read at its own pace.

It holds so much and no more. When more comes it is closed at that place: its stream uses up what is
in it, reads what follows by itself, and then asks for a new one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from trunkline.core.waiting import set_within

if TYPE_CHECKING:
    from trunkline.broker.stream import Reset
    from trunkline.core.errors import TrunklineError
    from trunkline.live.judging import Wanted
    from trunkline.live.models import LiveBatch

MOST = 2_000  # changes that wait for one stream
MOST_SIZE = 8 << 20  # characters of their rows


class Mailbox:
    """Of one stream, from when it joins until it falls behind, fails or leaves."""

    def __init__(self, subscription: int, wanted: Wanted):
        self.subscription = subscription
        self.wanted = wanted
        self.joined = False
        self.closed = False
        self.renew = False
        """Whether the subscription is gone, and has to be made anew."""
        self._items: deque[tuple[LiveBatch | Reset, int]] = deque()
        self._waiting = 0
        self._size = 0
        self._failure: TrunklineError | None = None
        self._changed = asyncio.Event()

    @property
    def empty(self) -> bool:
        """Whether all was taken that came."""
        return not self._items

    def put(self, batch: LiveBatch, size: int) -> None:
        """Add what is told; when there is no room it is closed, and nothing is added any more."""
        if self._items and (
            self._waiting + len(batch.changes) > MOST or self._size + size > MOST_SIZE
        ):
            self.close()
        if not self.closed:
            self._waiting += len(batch.changes)
            self._size += size
            self._items.append((batch, size))
            self._changed.set()

    def reset(self, reset: Reset) -> None:
        """History is gone."""
        self._items.append((reset, 0))
        self._changed.set()

    def fail(self, error: TrunklineError) -> None:
        """The stream ends with this, after what came before."""
        self._failure = error
        self.close()

    def close(self, *, renew: bool = False) -> None:
        """Nothing comes any more."""
        self.closed = True
        self.renew = self.renew or renew
        self._changed.set()

    def take(self) -> LiveBatch | Reset | None:
        """The next item, if one is there; raises what the stream ends with."""
        if self._items:
            item, size = self._items.popleft()
            self._waiting -= len(getattr(item, "changes", ()))
            self._size -= size
            return item
        if self._failure is not None:
            raise self._failure
        return None

    async def wait(self, timeout: float) -> None:
        """Wait until something changes, or for so long."""
        if self._items or self.closed:
            return
        if await set_within(self._changed, timeout):
            self._changed.clear()
