"""Background services of the broker."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from trunkline.broker import calls
from trunkline.broker.schedule import Gate
from trunkline.core.service import Service

if TYPE_CHECKING:
    from trunkline.core.db import AsyncDb

_RELEASE_EVERY = 0.05  # seconds: so late an event may be that waited for its time
_SHORTEST, _LONGEST = 0.002, 0.025  # seconds between two ticks while events come
_PER_EVENT = 0.0005  # seconds: when very many come, fewer ticks leave more to publishers


class BrokerSequencer(Service):
    """Publishes what is due and numbers what was committed. Any number may run; one works."""

    name = "broker-sequencer"
    interval = 0.03
    pause = _SHORTEST

    def __init__(self, db: AsyncDb):
        self._db = db
        self._gate = Gate(db)
        self._released_at = float("-inf")

    async def run_once(self) -> int:
        if not await self._gate.is_open():
            return 0
        released = 0
        if time.monotonic() - self._released_at >= _RELEASE_EVERY:
            self._released_at = time.monotonic()
            released = await self._db.run(calls.release())
        numbered = await self._db.run(calls.tick())
        self.pause = min(max(_SHORTEST, numbered * _PER_EVENT), _LONGEST)
        return released + numbered
