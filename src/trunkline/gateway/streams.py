"""What streams of topics and of keys have in common: resumable by a token, and nothing is kept.

As with those of events (`broker.stream`), a `Heartbeat` comes first and after every silence, and a
`Reset` where what follows the token has left. A page is read when the one before is used up.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Self

from trunkline.broker.stream import Heartbeat
from trunkline.core import telemetry
from trunkline.core.backoff import Backoff
from trunkline.core.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from trunkline.core.listen import Listener

logger = telemetry.get_logger(__name__)

_LOOK_EVERY = 1.0  # seconds, where no wake-up comes
PAGE = 500  # items that are read at once


class FollowedStream(ABC):
    """Looks for what is new whenever it is woken, and tells of silence."""

    def __init__(self, listener: Listener, prefix: str, *, resumed: bool, heartbeat: float):
        self._listener = listener
        self._prefix = prefix
        self._resumed = resumed
        self._heartbeat = heartbeat

    @property
    @abstractmethod
    def token(self) -> str:
        """Where it stands: after the last item that it gave."""

    @abstractmethod
    async def open(self) -> None:
        """Find where to begin."""

    @abstractmethod
    def _look(self) -> AsyncGenerator[Any, None]:
        """What is new, up to now; ends without an item when nothing is."""

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_error: object) -> None:
        pass

    async def items(self) -> AsyncGenerator[Any, None]:
        """What comes, in order."""
        waits = Backoff(first=0.1, longest=5.0)
        async with self._listener.subscribe(self._prefix) as heard:
            if not self._resumed:
                yield Heartbeat(self.token)
            spoken = time.monotonic()
            while True:
                quiet = True
                try:
                    async with aclosing(self._look()) as found:
                        async for item in found:
                            quiet = False
                            yield item
                            spoken = time.monotonic()
                except Unavailable as error:
                    wait = waits.next()
                    logger.warning("stream held back", error=str(error), retry_after=round(wait, 2))
                    await asyncio.sleep(wait)
                    continue
                waits.reset()
                silence = self._heartbeat - (time.monotonic() - spoken)
                if silence <= 0:
                    yield Heartbeat(self.token)
                    spoken = time.monotonic()
                elif quiet:
                    await heard.wait(min(_LOOK_EVERY, silence))
