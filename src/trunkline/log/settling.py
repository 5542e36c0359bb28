"""`Settling`: what a consumer's caller has done, committed while the caller goes on.

One commit is under way at a time. What becomes done meanwhile waits; of one partition's positions
in an assigned group only the newest does, for it says the same of all before it. So the slower
commits are, the fewer there are. Nothing is given up while the server is away.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from trunkline.core import telemetry
from trunkline.core.backoff import Backoff
from trunkline.core.errors import LeaseLost, TrunklineError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from trunkline.log.consumer import Batch

logger = telemetry.get_logger(__name__)

_MOST = 16  # batches that may wait; they are kept in memory until they are committed


class Settling:
    """The batches that are done and not yet committed."""

    def __init__(self, room: Callable[[], None]):
        self._room = room
        self._waiting: dict[tuple[int, int], Batch] = {}
        self._task: asyncio.Task[None] | None = None
        self._refusal: TrunklineError | None = None

    @property
    def crowded(self) -> bool:
        """Whether as many wait as may; ``room`` is called when one of them is committed."""
        return len(self._waiting) >= _MOST

    def add(self, batch: Batch) -> None:
        """Have a batch committed soon."""
        place = batch.partition, batch.token
        other = self._waiting.get(place)
        if other is None or other.last_offset < batch.last_offset:
            self._waiting[place] = batch
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"commit {batch.topic}")

    async def flush(self) -> None:
        """Wait until all are committed; raises the first refusal that nobody was told of."""
        while (task := self._task) is not None:
            await asyncio.wait({task})
            if not task.cancelled():
                task.result()
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            raise refusal

    async def close(self, within: float) -> None:
        """Commit the rest in so many seconds. What is left then comes again, and is told so."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=within)
        if (task := self._task) is not None:
            for batch in self._waiting.values():
                self._refused(batch, Unavailable("the consumer was closed before the commit."))
            task.cancel()
            await asyncio.wait({task})

    async def _run(self) -> None:
        try:
            while self._waiting:
                place, batch = next(iter(self._waiting.items()))
                await self._commit(batch)
                crowded, newest = self.crowded, self._waiting.pop(place)
                if newest is not batch:
                    self._waiting[place] = newest  # after the others
                elif crowded:
                    self._room()
        finally:
            self._task = None

    async def _commit(self, batch: Batch) -> None:
        waits = Backoff(first=0.1, longest=5.0)
        while True:
            try:
                await batch.commit()
            except Unavailable as error:
                logger.warning("server away, committing later", batch=repr(batch), error=str(error))
                await asyncio.sleep(waits.next())
            except TrunklineError as error:
                # After a try without an answer it may be refused because it took effect.
                if not (waits.attempts and isinstance(error, LeaseLost)):
                    self._refused(batch, error)
                return
            else:
                return

    def _refused(self, batch: Batch, error: TrunklineError) -> None:
        logger.warning("commit refused, comes again", batch=repr(batch), error=str(error))
        self._refusal = self._refusal or error
