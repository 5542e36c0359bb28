"""`BrokerForwarder`: events of topics that are also topics of the log become messages there.

Each topic is forwarded in a transaction of its own, which waits only briefly for an append that is
under way: one that is held open holds back its topic and no other. That topic is tried again with
a back-off of its own. A tick wakes the forwarder; a look at everything now and then finds what a
forwarder that died left behind.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from trunkline.broker import calls
from trunkline.broker.schedule import Gate
from trunkline.core import telemetry
from trunkline.core.backoff import Backoff
from trunkline.core.errors import DatabaseError, NotFound, TrunklineError, Unavailable
from trunkline.core.listen import Waker
from trunkline.core.service import Service

if TYPE_CHECKING:
    from trunkline.core.db import AsyncDb
    from trunkline.core.listen import Listener

_HELD = "55P03"  # a lock was not to be had in time
_LOOK_EVERY = 1.0  # seconds between two looks at all cursors
_PACE = 0.1  # seconds between two wake-ups: larger batches cost less, and the log can wait
_AT_ONCE = 4  # topics

logger = telemetry.get_logger(__name__)


class BrokerForwarder(Service):
    """Forwards events into the log. Any number may run; one works on a topic at a time."""

    name = "broker-forwarder"
    interval = 1.0

    def __init__(self, db: AsyncDb, listener: Listener, *, max_events: int = 10_000):
        self._db = db
        self._gate = Gate(db)
        self._waker = Waker(listener, "broker:tick", self.wake, pace=_PACE)
        self._max_events = max_events
        self._waiting: dict[str, _Pause] = {}
        self._seen = 0
        self._looked_at = float("-inf")
        self._free = asyncio.Semaphore(_AT_ONCE)

    async def run_once(self) -> int:
        if not await self._gate.is_open():
            return 0
        self._waker.start()
        await self._look()
        due = [topic for topic, pause in self._waiting.items() if pause.over]
        return sum(await asyncio.gather(*map(self._forward, due)))

    async def close(self) -> None:
        await self._waker.close()

    async def _look(self) -> None:
        """Learn which topics have events that are not in the log."""
        now = time.monotonic()
        # Beyond what was seen, except now and then: a topic that was made meanwhile begins before.
        everything = now - self._looked_at >= _LOOK_EVERY
        head = await self._db.run(calls.head())
        if not everything and head <= self._seen:
            return
        found = await self._db.run(calls.forwardable(None if everything else self._seen))
        for topic in found:
            self._waiting.setdefault(topic, _Pause())
        self._seen = head
        if everything:
            self._looked_at = now

    async def _forward(self, topic: str) -> int:
        async with self._free:
            try:
                done = await self._db.run(calls.forward(topic, max_events=self._max_events))
            except NotFound:  # the topic was deleted
                done = 0
            except Unavailable:
                raise
            except TrunklineError as error:
                self._waiting[topic].longer()
                if not _is_held(error):
                    logger.warning("not forwarded", topic=topic, error=telemetry.redact(str(error)))
                return 0
        if done:
            self._waiting[topic] = _Pause()
        else:
            del self._waiting[topic]
        return done


class _Pause:
    """When a topic that could not be forwarded may be tried again."""

    def __init__(self) -> None:
        self._backoff = Backoff(first=0.1, longest=5.0)
        self._until = 0.0

    @property
    def over(self) -> bool:
        return time.monotonic() >= self._until

    def longer(self) -> None:
        self._until = time.monotonic() + self._backoff.next()


def _is_held(error: TrunklineError) -> bool:
    return isinstance(error, DatabaseError) and error.sqlstate == _HELD
