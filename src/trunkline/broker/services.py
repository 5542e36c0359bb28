"""Background services of the broker."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from trunkline.broker import calls
from trunkline.broker.schedule import Gate
from trunkline.core.quiet import Quiet
from trunkline.core.service import Service

if TYPE_CHECKING:
    from trunkline.core.db import AsyncDb
    from trunkline.core.quiet import Commits

_RELEASE_EVERY = 0.05  # seconds: so late an event may be that waited for its time
_RELEASE_LATEST = 1.0  # seconds: the server's clock may be stepped forward
_SHORTEST, _LONGEST = 0.002, 0.025  # seconds between two ticks while events come
_PER_EVENT = 0.0005  # seconds: when very many come, fewer ticks leave more to publishers
_REST = 2.0  # times what a tick took: where cores are short, more ticks would make all of them late


class BrokerSequencer(Service):
    """Publishes what is due and numbers what was committed. Any number may run; one works."""

    name = "broker-sequencer"
    interval = 0.03
    pause = _SHORTEST

    def __init__(self, db: AsyncDb, commits: Commits | None = None):
        self._db = db
        self._gate = Gate(db)
        self._quiet = Quiet(db, commits=commits, wake=self.wake.set)
        self._released_at = self._release_at = float("-inf")

    async def run_once(self) -> int:
        if not await self._gate.is_open():
            return 0
        released = await self._release() if time.monotonic() >= self._release_at else 0
        return released + await self._quiet.unless_still(self._number)

    async def _release(self) -> int:
        released, due_in = 0, await self._db.run(calls.due_in())
        if due_in is not None and due_in <= 0:
            released = await self._db.run(calls.release())
            due_in = await self._db.run(calls.due_in())
        self._released_at = time.monotonic()
        wait = _RELEASE_LATEST if due_in is None else min(due_in, _RELEASE_LATEST)
        self._release_at = self._released_at + wait
        return released

    async def _number(self) -> int:
        # what was committed may be an event that waits for its time, and not for long
        self._release_at = min(self._release_at, self._released_at + _RELEASE_EVERY)
        began = time.monotonic()
        numbered = await self._db.run(calls.tick())
        took = time.monotonic() - began
        self.pause = min(max(_SHORTEST, numbered * _PER_EVENT, took * _REST), _LONGEST)
        return numbered
