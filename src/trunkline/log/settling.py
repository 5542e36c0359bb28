"""`Settling`: what a consumer's caller has done, committed while the caller goes on.

Commits go out in rounds, one after the other, a hundred a second at most. What becomes done
meanwhile waits for the next round; of one partition's positions in an assigned group only the
newest does, for it says the same of all before it. So the slower commits are, the fewer there are.
Nothing is given up while the server is away.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from trunkline.core import telemetry
from trunkline.core.backoff import Backoff
from trunkline.core.errors import LeaseLost, Unavailable
from trunkline.core.waiting import set_within

if TYPE_CHECKING:
    from collections.abc import Callable

    from trunkline.log.consumer import Batch

logger = telemetry.get_logger(__name__)

_PACE = 0.01  # seconds between the beginnings of two rounds, unless somebody waits
_MOST = 16  # batches that may wait; they are kept in memory until they are committed


class Settling:
    """The batches that are done and not yet committed."""

    def __init__(self, room: Callable[[], None]):
        self._room = room
        self._waiting: dict[tuple[int, int], Batch] = {}
        self._round: dict[tuple[int, int], Batch] = {}
        self._task: asyncio.Task[None] | None = None
        self._round_over = asyncio.Event()
        self._next_at = 0.0
        self._hurry = asyncio.Event()
        self._refusal: Exception | None = None

    @property
    def crowded(self) -> bool:
        """Whether as many wait as may; ``room`` is called when one of them is committed."""
        return len(self._waiting) + len(self._round) >= _MOST

    def add(self, batch: Batch) -> None:
        """Have a batch committed soon."""
        place = batch.partition, batch.token
        other = self._waiting.get(place)
        if other is None or other.last_offset < batch.last_offset:
            self._waiting[place] = batch
        if self.crowded:
            self._hurry.set()  # a poll waits for room
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"commit {batch.topic}")

    async def flush(self) -> None:
        """Wait for what was added until now; raises the first refusal that nobody was told of."""
        for _ in range(bool(self._round) + bool(self._waiting)):
            self._hurry.set()
            if self._task is not None:
                await self._round_over.wait()
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            raise refusal

    async def close(self, within: float) -> None:
        """Commit the rest in so many seconds. What is left then comes again, and is told so."""
        self._hurry.set()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=within)
        if (task := self._task) is not None:
            for batch in (*self._round.values(), *self._waiting.values()):
                self._refused(batch, Unavailable("the consumer was closed before the commit."))
            task.cancel()
            await asyncio.wait({task})

    async def _run(self) -> None:
        try:
            while self._waiting:
                if (pause := self._next_at - time.monotonic()) > 0:
                    await set_within(self._hurry, pause)
                self._hurry.clear()
                self._next_at = time.monotonic() + _PACE
                self._round, self._waiting = self._waiting, {}
                for place, batch in [*self._round.items()]:
                    await self._commit(batch)
                    crowded = self.crowded
                    del self._round[place]
                    if crowded:
                        self._room()
                self._end_round()
        finally:
            self._task = None
            self._end_round()

    def _end_round(self) -> None:
        """Wake those who wait for the end of this round, and let others wait for the next."""
        self._round_over.set()
        self._round_over = asyncio.Event()

    async def _commit(self, batch: Batch) -> None:
        waits = Backoff(first=0.1, longest=5.0)
        while True:
            try:
                await batch.commit()
            except Unavailable as error:
                logger.warning("server away, committing later", batch=repr(batch), error=str(error))
                await asyncio.sleep(waits.next())
            except Exception as error:  # noqa: BLE001 - it is told by flush, and harms no other
                # After a try without an answer it may be refused because it took effect.
                if not (waits.attempts and isinstance(error, LeaseLost)):
                    self._refused(batch, error)
                return
            else:
                return

    def _refused(self, batch: Batch, error: Exception) -> None:
        logger.warning("commit refused, comes again", batch=repr(batch), error=str(error))
        self._refusal = self._refusal or error
