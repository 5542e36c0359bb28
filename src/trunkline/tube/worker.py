"""`Worker`: takes the touches of a tube to its downstream, at least once, newest state last.

It reads the entries of the lanes that it owns (`lanes`), and keeps one `LaneQueue` for each.
Batches of keys go out in parallel (`delivery`). What failed comes back with back-off; a key that
keeps failing is parked. Control entries start the collection of `garbage`.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from trunkline.core import telemetry
from trunkline.core.backoff import Backoff
from trunkline.core.errors import (
    DatabaseError,
    Forbidden,
    Invalid,
    LeaseLost,
    NotFound,
    PositionTrimmed,
    TrunklineError,
    Unavailable,
    is_shortage,
)
from trunkline.core.lease import GOODBYE_WITHIN
from trunkline.core.notes import storable
from trunkline.core.service import Probe
from trunkline.core.waiting import cut_off
from trunkline.tube import calls
from trunkline.tube.delivery import delivery_of
from trunkline.tube.garbage import Garbage
from trunkline.tube.lanes import Lanes
from trunkline.tube.models import BACKFILL, LIVE
from trunkline.tube.pace import Pace

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence
    from uuid import UUID

    from trunkline.core.db import AsyncDb
    from trunkline.core.lease import ProcessLease
    from trunkline.core.listen import Listener, Subscription
    from trunkline.tube.downstreams.base import Downstream
    from trunkline.tube.enrichment import Enricher
    from trunkline.tube.lanes import Lane
    from trunkline.tube.models import KeyId
    from trunkline.tube.queue import Pending

logger = telemetry.get_logger(__name__)

_READ_ENTRIES = 200
_SEND_EVERY = 16  # entries: what is queued goes out while the rest of a read is being queued
_ACK_EVERY = 0.1  # seconds, while batches are in flight
_READ_POSITIONS = 20_000
_ENTRIES_PER_KEY = 10  # that a queue holds while keys are touched again before they are delivered
_TROUBLE = (Unavailable, OSError, TimeoutError)


class Worker:
    """Works one tube into one downstream. Any number may run; each lane has one of them."""

    def __init__(
        self,
        db: AsyncDb,
        lease: ProcessLease,
        listener: Listener,
        *,
        tube: str,
        downstream: Downstream,
        enricher: Enricher,
        member: str = "",
        pace: Pace | None = None,
    ):
        self.tube = tube
        self.delivered: Probe[int] = Probe()
        self._db = db
        self._lease = lease
        self._listener = listener
        self._downstream = downstream
        self._pace = pace or Pace()
        self._lanes = Lanes(db, lease, tube=tube, member=member)
        self._bring = delivery_of(db, enricher, downstream, lanes=self._lanes)
        self._tasks: set[asyncio.Task[None]] = set()
        self._collecting: set[asyncio.Task[None]] = set()
        self._trouble = Backoff(first=0.2, longest=10.0)
        self._hold_until = 0.0
        self._ack_at = 0.0
        self._sending = False
        self._delivered = 0
        self._turn = 0
        self._incarnation: int | None = None
        self._woken = asyncio.Event()
        self._garbage = Garbage(
            db, downstream, tube=tube, queue_keys=self._pace.queue_keys, tell=self._woken.set
        )
        self._counter = telemetry.counter("tube_delivered_keys", tube=tube)

    @property
    def lanes(self) -> int:
        """How many lanes of the tube are ours at the moment."""
        return sum(1 for _ in self._lanes)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until told to stop; then finish what is in flight and give the lanes back."""
        process = await self._lease.hold()
        stopped = asyncio.create_task(stop.wait())
        self._sending = True
        try:
            with self._lease.departures(self._rejoin_now):
                async with cut_off(GOODBYE_WITHIN, after=stopped):
                    await self._serve(process, stopped)
        finally:
            stopped.cancel()
            await self._finish(process)

    def _rejoin_now(self) -> None:
        self._lanes.hasten()
        self._woken.set()

    async def _serve(self, process: UUID, stopped: asyncio.Task[bool]) -> None:
        await self._open(stopped)
        async with self._listener.subscribe("tube:") as heard:
            listening = asyncio.create_task(self._listen(heard))
            try:
                while not stopped.done():
                    self._woken.clear()
                    try:
                        more = await self._step(process)
                    except DatabaseError as error:  # a full disk, a limit: it may pass
                        self._hold(error)
                        more = False
                    if not more:
                        await self._rest(stopped)
            finally:
                listening.cancel()
                await asyncio.wait({listening})

    async def run_once(self) -> int:
        """Deliver what is there now, and return how many keys it was; for tests and scripts."""
        process = await self._lease.hold()
        await self._downstream.open()
        before = self._delivered
        self._lanes.hasten()
        self._sending = True
        try:
            while await self._step(process) or self._unsettled():
                if self._tasks or self._collecting:
                    await asyncio.wait(
                        self._tasks | self._collecting,
                        timeout=self._pace.poll_interval,
                        return_when=asyncio.FIRST_COMPLETED,
                    )
                else:
                    await asyncio.sleep(0.01)
        finally:
            self._sending = False
        await self._acknowledge()
        return self._delivered - before

    async def _open(self, stopped: asyncio.Task[bool]) -> None:
        """Open the downstream; while it is away, hold back."""
        while not stopped.done():
            try:
                await self._downstream.open()
                break
            except _TROUBLE as error:
                self._hold(error)
                await asyncio.wait({stopped}, timeout=self._hold_until - time.monotonic())

    async def _step(self, process: UUID) -> bool:
        """One round: who owns what, read, send, acknowledge; whether there is more to do now."""
        try:
            if self._lanes.is_due:
                await self._lanes.rejoin(process)
            read = await self._read()
            sent = self._send()
            if not self._tasks or time.monotonic() >= self._ack_at:
                await self._acknowledge()
        except _TROUBLE as error:
            self._hold(error)
            return False
        except NotFound:  # the tube was dropped
            self._lanes.clear()
            self._lanes.postpone()
            return False
        return bool(read or sent)

    def _unsettled(self) -> bool:
        return any(len(lane.queue) or lane.controls for lane in self._lanes) or bool(
            self._tasks or self._collecting
        )

    async def _listen(self, heard: Subscription) -> None:
        while True:
            if await heard.wait(3600):
                self._woken.set()

    async def _rest(self, stopped: asyncio.Task[bool]) -> None:
        """Wait for a wake-up, a batch that ends, a retry that is due, or the poll interval."""
        now = time.monotonic()
        due = [at for lane in self._lanes if (at := lane.queue.next_due()) is not None]
        until = min([now + self._pace.poll_interval, *due])
        if self._hold_until > now:
            until = min(self._hold_until, now + self._pace.poll_interval)
        woken = asyncio.create_task(self._woken.wait())
        try:
            await asyncio.wait(
                {stopped, woken, *self._tasks, *self._collecting},
                timeout=max(0.0, until - now),
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            woken.cancel()

    async def _read(self) -> int:
        """Fill the queues of lanes that have room; how many entries came."""
        roomy = [lane for lane in self._lanes if self._has_room(lane)]
        if self._lanes and not roomy:
            return 0
        reach = await self._db.run(calls.reach())
        if self._incarnation not in {None, reach.incarnation}:
            self._lanes.clear()  # what we read after may have been given out again
            self._lanes.hasten()
            roomy = []
        self._incarnation = reach.incarnation
        came = 0
        for lane in roomy:
            for priority in (LIVE, BACKFILL):
                if not self._has_room(lane):
                    continue
                if priority == BACKFILL and self._pace.exclude_backfill:
                    continue
                came += await self._read_lane(lane, priority, reach.head)
        return came

    def _has_room(self, lane: Lane) -> bool:
        most = self._pace.queue_keys
        return (
            not lane.surplus
            and len(lane.queue) < most
            and lane.queue.entries < _ENTRIES_PER_KEY * most
        )

    async def _read_lane(self, lane: Lane, priority: int, head: int) -> int:
        queue = lane.queue
        first = queue.read_up_to[priority] + 1
        if lane.lost or first > head:
            return 0
        last = min(head, first + _READ_POSITIONS)  # others' entries lie between ours
        try:
            entries = await self._db.run(
                calls.read(
                    self.tube,
                    lane.number,
                    priority,
                    first,
                    last,
                    max_entries=_READ_ENTRIES,
                )
            )
        except (Invalid, PositionTrimmed):  # there are other lanes now, or others worked this one
            self._lanes.lose(lane)
            self._lanes.hasten()
            return 0
        lane.worked = lane.worked or bool(entries)
        for number, entry in enumerate(entries, 1):
            queue.add(priority, entry)
            queue.read_up_to[priority] = entry.up_to
            if entry.control is not None:
                lane.controls.append(((priority, entry.up_to), entry))
            if number % _SEND_EVERY == 0:
                self._send()
                await asyncio.sleep(0)
        if len(entries) < _READ_ENTRIES:
            queue.read_up_to[priority] = last
        return len(entries) or last < head

    def _send(self) -> int:
        """Start batches while there is room; how many keys went out."""
        now = time.monotonic()
        sent = 0
        if now < self._hold_until or not self._lanes.are_fresh:
            return 0
        for lane in self._lanes:
            self._control(lane)
        for lane in self._lanes:
            lane.queue.wake(now)
        most = self._pace.batch * self._bring.stretch
        lanes = deque(self._lanes)
        lanes.rotate(-self._turn)  # no lane is first for ever
        self._turn += 1
        while lanes and len(self._tasks) < self._pace.parallelism:
            lane = lanes.popleft()
            batch = lane.queue.take(most, backfill_share=self._pace.backfill_share)
            if batch:
                sent += len(batch)
                task = self._start(self._tasks, self._deliver(lane, batch))
                task.add_done_callback(self._send_more)
                lanes.append(lane)
        return sent

    def _send_more(self, _ended: asyncio.Task[None]) -> None:
        """Let the next batch take the place of one that ended, whatever else is under way."""
        if self._sending:
            self._send()

    @staticmethod
    def _start(
        tasks: set[asyncio.Task[None]], work: Coroutine[None, None, None]
    ) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return task

    async def _deliver(self, lane: Lane, batch: Sequence[Pending]) -> None:
        try:
            failures = await self._brought(batch)
        except _TROUBLE as error:
            self._hold(error)
            failures = None
        except Exception as error:  # noqa: BLE001 - one bad key harms only itself
            if len(batch) > 1:
                middle = len(batch) // 2
                await self._deliver(lane, batch[:middle])
                await self._deliver(lane, batch[middle:])
                return
            failures = {batch[0].id: f"{type(error).__name__}: {error}"}
        if lane.lost:
            return
        now = time.monotonic()
        if failures is None:
            for pending in batch:
                lane.queue.failed(pending, retry_at=self._hold_until)
            return
        self._trouble.reset()
        if not failures:
            lane.queue.done(batch)
        else:
            lane.queue.done([pending for pending in batch if pending.id not in failures])
            for pending in batch:
                if pending.id in failures:
                    await self._failed(lane, pending, failures[pending.id], now)
        done = len(batch) - len(failures)
        self._delivered += done
        self._counter.inc(done)
        self.delivered.send(done)

    async def _brought(self, batch: Sequence[Pending]) -> Mapping[KeyId, str]:
        """Bring a batch downstream; what is the fault of none of its keys is trouble."""
        try:
            return await self._bring(batch)
        except Forbidden as error:  # a role or a grant is missing: that is no fault of a key
            raise Unavailable(error.message, hint=error.hint) from error
        except DatabaseError as error:
            if is_shortage(error):
                raise Unavailable(error.message, hint=error.hint) from error
            raise

    async def _failed(self, lane: Lane, pending: Pending, reason: str, now: float) -> None:
        pending.attempts += 1
        if pending.attempts < self._pace.park_after:
            lane.queue.failed(pending, retry_at=now + self._pace.retry_after(pending.attempts))
            return
        attachment, shard, key = pending.id
        try:
            await self._db.run(
                calls.park(
                    self.tube,
                    lane.number,
                    lane.epoch,
                    attachment=attachment,
                    shard=shard,
                    key=key,
                    attempts=pending.attempts,
                    error=reason,
                )
            )
        except LeaseLost:
            self._lanes.lose(lane)
        except TrunklineError:
            lane.queue.failed(pending, retry_at=now + self._pace.retry_longest)
        else:
            logger.warning("parked", tube=self.tube, key=key, shard=shard, error=storable(reason))
            lane.queue.done([pending])

    def _control(self, lane: Lane) -> None:
        """Start what control entries ask for, once their time has come."""
        while lane.controls:
            place, entry = lane.controls[0]
            priority, position = place
            if entry.control == "backfill_end" and lane.queue.watermark(priority) < position - 1:
                return
            lane.controls.pop(0)
            if entry.control == "backfill_start":
                lane.queue.settle(place)
            else:
                self._start(self._collecting, self._garbage.collect(lane, place, entry))

    async def _acknowledge(self) -> None:
        self._ack_at = time.monotonic() + _ACK_EVERY
        await self._lanes.acknowledge()

    def _hold(self, error: Exception) -> None:
        if time.monotonic() < self._hold_until:
            return  # what was under way together fails together: that is one failure
        wait = self._trouble.next()
        self._hold_until = time.monotonic() + wait
        logger.warning(
            "tube held back", tube=self.tube, error=str(error), retry_after=round(wait, 2)
        )

    async def _finish(self, process: UUID) -> None:
        self._sending = False
        for task in self._collecting:
            task.cancel()
        if tasks := self._tasks | self._collecting:
            await asyncio.wait(tasks, timeout=30)
        with suppress(TrunklineError, OSError):
            async with asyncio.timeout(GOODBYE_WITHIN):
                await self._acknowledge()
        with suppress(TrunklineError, OSError):
            await self._lanes.leave(process)
        self._lanes.clear()
        await self._downstream.close()
