"""`Garbage`: documents that a backfill or a TRUNCATE has left behind.

Every document that is older is queued as a touch of its key, in the queue that all others are in:
the row decides about it, as it does about any other.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from trunkline.core import telemetry
from trunkline.core.backoff import Backoff
from trunkline.tube import calls
from trunkline.tube.models import Entry, KeyId, Version

if TYPE_CHECKING:
    from collections.abc import Callable

    from trunkline.core.db import AsyncDb
    from trunkline.tube.downstreams.base import Downstream
    from trunkline.tube.lanes import Lane
    from trunkline.tube.queue import Place

logger = telemetry.get_logger(__name__)

_PAGE = 5_000
_ROOM_POLL = 0.02


class Garbage:
    """Lists what is older than a control entry, and queues it."""

    def __init__(
        self,
        db: AsyncDb,
        downstream: Downstream,
        *,
        tube: str,
        queue_keys: int,
        tell: Callable[[], None],
    ):
        """``tell`` is called when something was queued."""
        self._db = db
        self._downstream = downstream
        self._tube = tube
        self._queue_keys = queue_keys
        self._tell = tell

    async def collect(self, lane: Lane, place: Place, entry: Entry) -> None:
        """Queue every document older than a backfill or truncate: its row decides about it.

        What goes wrong here is tried again here, and holds nothing else back.
        """
        waits = Backoff(first=0.5, longest=30.0)
        while not lane.lost:
            try:
                await self._queue(lane, place, entry)
            except Exception as error:  # noqa: BLE001 - it is tried again
                wait = waits.next()
                logger.warning("garbage not listed", tube=self._tube, error=str(error))
                await asyncio.sleep(wait)
            else:
                lane.queue.settle(place)
                break
        self._tell()

    async def _queue(self, lane: Lane, place: Place, entry: Entry) -> None:
        version = await self._bound(entry)
        after: str | None = None
        while not lane.lost:
            page = await self._downstream.older_than(
                entry.relation or "", None, version, after, _PAGE
            )
            lane.queue.extend(
                place,
                (
                    KeyId(entry.attachment or 0, shard, key)
                    for shard, key in page.keys
                    if shard % lane.lanes == lane.number
                ),
                relation=entry.relation,
                op="D",
            )
            self._tell()
            if page.after is None:
                return
            after = page.after
            while len(lane.queue) >= self._queue_keys and not lane.lost:  # noqa: ASYNC110 - batches make room
                await asyncio.sleep(_ROOM_POLL)

    async def _bound(self, entry: Entry) -> Version:
        if entry.control == "backfill_end":
            # an entry of before there were generations has none: nothing is older
            return Version.parse(entry.payload.get("generation", 0), entry.payload["lsn"])
        return await self._db.run(calls.version())
