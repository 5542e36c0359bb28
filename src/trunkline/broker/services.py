"""Background services of the broker."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from trunkline.broker import calls
from trunkline.broker.schedule import Gate
from trunkline.core.service import Service

if TYPE_CHECKING:
    from trunkline.core.db import AsyncDb

_RELEASE_EVERY = 0.02  # seconds: so late an event may be that waited for its time


class BrokerSequencer(Service):
    """Publishes what is due and numbers what was committed. Any number may run; one works."""

    name = "broker-sequencer"
    interval = 0.03
    pause = 0.003  # a tick takes all there is: many small ones would only cost more

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
        return released + await self._db.run(calls.tick())
