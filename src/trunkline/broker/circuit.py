"""`Circuit`: whether an endpoint may be asked now, and by how many at once.

After ``failures`` in a row the circuit opens: nobody is let through for a while, then one, to see.
If that goes well all may go; if not, the while is longer next time. An endpoint may also ask for a
rest. What is held back here was not tried: it does not count as a failure.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from trunkline.core.backoff import Backoff
from trunkline.core.waiting import set_within

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

_ASK_AGAIN = 3.0  # seconds after which those who wait see whether they still want to
_LONGEST_PAUSE = 60.0


class Circuit:
    """Lets through, holds back, or is shut for good."""

    def __init__(
        self, *, failures: int, concurrency: int, clock: Callable[[], float] = time.monotonic
    ):
        self.most_failures = failures
        self._concurrency = concurrency
        self._clock = clock
        self._failures = 0
        self._under_way = 0
        self._open_until = 0.0
        self._rest_until = 0.0
        self._shut = False
        self._pause = Backoff(first=1.0, longest=_LONGEST_PAUSE, jitter=0.2)
        self._changed = asyncio.Event()

    @property
    def is_open(self) -> bool:
        """Whether too much went wrong; then one at a time may try."""
        return self._failures >= self.most_failures

    def succeeded(self) -> None:
        """The endpoint does its work."""
        self._failures = 0
        self._open_until = 0.0
        self._pause.reset()
        self.look_again()

    def failed(self) -> None:
        """The endpoint failed once more."""
        self._failures += 1
        if self.is_open and self._clock() >= self._open_until:
            self._open_until = self._clock() + self._pause.next()

    def rest(self, seconds: float) -> None:
        """The endpoint asked to be left alone for a while."""
        self._rest_until = max(self._rest_until, self._clock() + seconds)

    def shut(self) -> None:
        """Let nobody through any more."""
        self._shut = True

    def look_again(self) -> None:
        """Have those who wait see whether they may go, or still want to."""
        self._changed.set()
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def admitted(self, unless: Callable[[], bool]) -> AsyncIterator[bool]:
        """Wait to be let through; False when ``unless`` comes true before."""
        while not unless() and (wait := self._wait()) > 0:
            await set_within(self._changed, min(wait, _ASK_AGAIN))
        if unless():
            yield False
            return
        self._under_way += 1
        try:
            yield True
        finally:
            self._under_way -= 1
            self.look_again()

    def _wait(self) -> float:
        """Seconds until it is worth to ask; 0 when one may go."""
        if self._shut:
            return _ASK_AGAIN
        now = self._clock()
        closed_for = max(self._open_until, self._rest_until) - now
        if closed_for > 0:
            return closed_for
        room = 1 if self.is_open else self._concurrency
        return 0.0 if self._under_way < room else _ASK_AGAIN
