"""`LaneWork`: handles the events of a lane.

One batch after the other, and what failed before in between; so no key is ever handled twice at the
same time. Positions are committed after the handler, or in its own transaction if it takes that.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

from trunkline.broker import handler_calls as calls
from trunkline.broker.lane import UNCOMMITTED, Cut, Lane
from trunkline.core.waiting import cut_off, set_within

if TYPE_CHECKING:
    import asyncio
    from contextlib import AbstractAsyncContextManager

    from trunkline.broker.attempts import Attempts
    from trunkline.broker.delivered import Delivered, RetryBatch
    from trunkline.broker.handlers import Handler
    from trunkline.core.db import AsyncDb

_FAR_BEHIND = 1_000  # deliveries: what an idle lane may lag before it commits its position
_RETRIES_AT_ONCE = 10
_SLOW = 0.5  # seconds


class Around(Protocol):
    """The worker that a lane belongs to."""

    told: asyncio.Future[Any]
    """Done when it is told to stop."""

    @property
    def is_stopping(self) -> bool:
        """Whether nothing more is begun."""

    def admission(self, lane: Lane, /) -> AbstractAsyncContextManager[bool]:
        """Whether a lane may handle something now."""

    def took(self, lane: Lane) -> None:
        """Events were taken from the queue of a lane: there may be room for more."""

    def rests(self) -> None:
        """A lane has nothing to do."""


class LaneWork:
    """Works for one handler, in as many tasks as it has lanes."""

    def __init__(self, db: AsyncDb, handler: Handler, attempts: Attempts, around: Around):
        self._db = db
        self._handler = handler
        self._attempts = attempts
        self._around = around

    async def run(self, lane: Lane) -> None:
        """Handle what is there, in order, until the lane ends; whatever goes wrong is raised."""
        while not self._ends(lane):
            lane.woken.clear()
            lane.resting = False
            if not await self._turn(lane):
                await self._idle(lane)
        if not lane.lost:
            await self._commit(lane)

    def _ends(self, lane: Lane) -> bool:
        return self._around.is_stopping or lane.ends

    async def _turn(self, lane: Lane) -> bool:
        """One batch that failed before, one that is new; whether there was any."""
        if not lane.has_work:
            return False
        async with self._around.admission(lane) as admitted:
            return admitted and await self._handle_next(lane)

    async def _handle_next(self, lane: Lane) -> bool:
        if not lane.retries and lane.is_due():
            lane.due = None
            lane.retries.extend(await self._due(lane))
            if len(lane.retries) == _RETRIES_AT_ONCE:
                lane.expect(0)
        busy = False
        if lane.retries:
            await self._attempts.again(lane, lane.retries.popleft())
            busy = True
        if not self._ends(lane) and (events := await self._next(lane)):
            self._around.took(lane)
            await self._first(lane, events)
            busy = True
        return busy

    async def _next(self, lane: Lane) -> list[Delivered]:
        """The next batch; written down first, if the handler keeps batches and it is not yet.

        After a crash those that are written down are tried first, as they were, and what comes
        after them one by one: that is cut the same way every time.
        """
        handler = self._handler
        if not handler.keeps_batches or (lane.is_suspect and not lane.cuts):
            return lane.take(1 if lane.is_suspect else handler.batch)
        events, written = lane.next_batch(), True
        if lane.queue and not lane.cuts:
            lane.cuts.extend(Cut(b[-1].delivery) for b in handler.batches(list(lane.queue)))
            events, written = lane.next_batch(), False
        if not events:
            return []
        if len(events) > 1 and lane.is_suspect and await self._attempts.is_hopeless(lane, events):
            lane.cuts.popleft()
            lane.cuts.extendleft(Cut(event.delivery) for event in reversed(events))
            events = events[:1]
        known = set(lane.cuts[0].aside)
        aside = known | self._attempts.aside(lane, events)
        sent = any(event.delivery not in aside for event in events)
        if sent and (aside != known or not written):
            lane.cuts[0] = Cut(lane.cuts[0].end, tuple(aside))
            await self._write_down(lane)
        return lane.take_batch()

    async def _first(self, lane: Lane, events: list[Delivered]) -> None:
        suspect, began = lane.is_suspect, time.monotonic()
        await self._attempts.first(lane, events)
        if not suspect:
            if lane.must_commit():
                await self._commit(lane)
            return
        lane.suspect_left -= len(events)
        slow = time.monotonic() - began > _SLOW
        if slow and lane.suspect_left <= UNCOMMITTED:  # before a slow one all others are committed
            lane.suspect_left = 0
        if not lane.is_suspect:
            await self._attempts.trust(lane)

    async def _due(self, lane: Lane) -> list[RetryBatch]:
        handler = self._handler
        async with cut_off(0, after=self._around.told):  # nothing more is begun then
            return await self._db.run(
                calls.retries(
                    handler.group,
                    handler.name,
                    lane.number,
                    lane.epoch,
                    max_batches=_RETRIES_AT_ONCE,
                    json_text=handler.takes_json_text,
                )
            )
        return []

    async def _idle(self, lane: Lane) -> None:
        """Nothing is to be done: commit after a moment, and wait until something is."""
        if lane.worked and await set_within(lane.woken, lane.commit_in()):
            return
        await self._commit(lane)
        if lane.is_suspect and lane.has_read_all and not lane.queue:
            lane.suspect_left = 0
            await self._attempts.trust(lane)
        lane.resting = True
        self._around.rests()
        await set_within(
            lane.woken, None if lane.due is None else max(0.0, lane.due - time.monotonic())
        )

    async def _commit(self, lane: Lane) -> None:
        up_to = lane.position()
        if up_to <= lane.committed or not (
            lane.worked or self._around.is_stopping or up_to - lane.committed >= _FAR_BEHIND
        ):
            return
        await self._write_down(lane)

    async def _write_down(self, lane: Lane) -> None:
        handler, up_to = self._handler, lane.position()
        await self._db.run(
            calls.commit(handler.group, handler.name, lane.number, lane.epoch, up_to, lane.cuts)
        )
        lane.has_committed(up_to)
