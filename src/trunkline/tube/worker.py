"""`Worker`: takes the touches of a tube to its downstream, at least once, newest state last.

It owns lanes (by lease and epoch), reads their entries, and keeps one `LaneQueue` per lane. Batches
of keys go out in parallel (`delivery`), and what failed is noted. What failed comes
back with back-off; a key that keeps failing is parked. Watermarks are acknowledged with the epoch;
a worker that lost its lane is refused and forgets it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trunkline.core import telemetry
from trunkline.core.backoff import Backoff
from trunkline.core.errors import LeaseLost, NotFound, TrunklineError, Unavailable
from trunkline.core.service import Probe
from trunkline.tube import calls
from trunkline.tube.delivery import delivery_of
from trunkline.tube.models import BACKFILL, LIVE, Entry, KeyId, Version
from trunkline.tube.queue import LaneQueue, Pending, Place

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from uuid import UUID

    from trunkline.core.db import AsyncDb
    from trunkline.core.lease import ProcessLease
    from trunkline.core.listen import Listener, Subscription
    from trunkline.tube.downstreams.base import Downstream
    from trunkline.tube.enrichment import Enricher
    from trunkline.tube.models import LaneShare

logger = telemetry.get_logger(__name__)

_REJOIN_EVERY = 3.0
_FAR_BEHIND = 1_000  # positions: what an idle lane may lag before it writes its cursor
_READ_ENTRIES = 200
_SEND_EVERY = 16  # entries: what is queued goes out while the rest of a read is being queued
_ACK_EVERY = 0.1  # seconds, while batches are in flight
_READ_POSITIONS = 20_000
_GARBAGE_PAGE = 5_000
_ROOM_POLL = 0.02
_TROUBLE = (Unavailable, OSError, TimeoutError)


@dataclass(frozen=True, slots=True)
class Pace:
    """How a worker goes about it.

    ``batch`` keys go out together, four times as many where rows and documents are in one
    database. Memory is bounded per lane by ``queue_keys`` plus what one read brings (200 entries).
    """

    batch: int = 1_000
    parallelism: int = 4
    queue_keys: int = 20_000
    backfill_share: float = 0.2
    exclude_backfill: bool = False
    park_after: int = 8
    retry_first: float = 0.5
    retry_longest: float = 60.0
    poll_interval: float = 0.25


@dataclass(slots=True, eq=False)
class Lane:
    """A lane that is ours."""

    number: int
    lanes: int
    epoch: int
    queue: LaneQueue
    acked: list[int]
    controls: list[tuple[Place, Entry]] = field(default_factory=list)
    surplus: bool = False
    lost: bool = False
    worked: bool = False


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
        self._bring = delivery_of(db, enricher, downstream)
        self._member = member
        self._pace = pace or Pace()
        self._lanes: dict[int, Lane] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._collecting: set[asyncio.Task[None]] = set()
        self._trouble = Backoff(first=0.2, longest=10.0)
        self._hold_until = 0.0
        self._rejoin_at = 0.0
        self._ack_at = 0.0
        self._sending = False
        self._delivered = 0
        self._turn = 0
        self._woken = asyncio.Event()
        self._counter = telemetry.counter("tube_delivered_keys", tube=tube)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until told to stop; then finish what is in flight and give the lanes back."""
        process = await self._lease.hold()
        stopped = asyncio.create_task(stop.wait())
        self._sending = True
        try:
            await self._open(stopped)
            async with self._listener.subscribe("tube:") as heard:
                listening = asyncio.create_task(self._listen(heard))
                try:
                    while not stop.is_set():
                        self._woken.clear()
                        busy = await self._step(process)
                        if not busy:
                            await self._rest(stopped)
                finally:
                    listening.cancel()
                    await asyncio.wait({listening})
        finally:
            stopped.cancel()
            await self._finish(process)

    async def run_once(self) -> int:
        """Deliver what is there now, and return how many keys it was; for tests and scripts."""
        process = await self._lease.hold()
        await self._downstream.open()
        before = self._delivered
        self._rejoin_at = 0.0
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
            if time.monotonic() >= self._rejoin_at:
                await self._rejoin(process)
            read = await self._read()
            sent = self._send()
            if not self._tasks or time.monotonic() >= self._ack_at:
                await self._acknowledge()
        except _TROUBLE as error:
            self._hold(error)
            return False
        except NotFound:  # the tube was dropped
            self._lanes.clear()
            self._rejoin_at = time.monotonic() + _REJOIN_EVERY
            return False
        return bool(read or sent)

    def _unsettled(self) -> bool:
        return any(len(lane.queue) or lane.controls for lane in self._lanes.values()) or bool(
            self._tasks or self._collecting
        )

    async def _listen(self, heard: Subscription) -> None:
        while True:
            if await heard.wait(3600):
                self._woken.set()

    async def _rest(self, stopped: asyncio.Task[bool]) -> None:
        """Wait for a wake-up, a batch that ends, a retry that is due, or the poll interval."""
        now = time.monotonic()
        due = [at for lane in self._lanes.values() if (at := lane.queue.next_due()) is not None]
        until = min([now + self._pace.poll_interval, *due])
        if self._hold_until > now:
            until = min(self._hold_until, now + self._pace.poll_interval)
        woken = asyncio.create_task(self._woken.wait())
        await asyncio.wait(
            {stopped, woken, *self._tasks, *self._collecting},
            timeout=max(0.0, until - now),
            return_when=asyncio.FIRST_COMPLETED,
        )
        woken.cancel()

    async def _rejoin(self, process: UUID) -> None:
        try:
            shares = await self._db.run(calls.join(self.tube, process, member=self._member))
        except LeaseLost:
            await self._lease.renew()
            return
        self._rejoin_at = time.monotonic() + _REJOIN_EVERY
        ours = {share.lane: share for share in shares}
        for number, lane in list(self._lanes.items()):
            if number not in ours or ours[number].epoch != lane.epoch:
                self._lose(lane)
        for share in shares:
            lane = self._lanes.get(share.lane) or self._begin(share)
            lane.surplus = share.surplus
        leaving = [
            lane.number for lane in self._lanes.values() if lane.surplus and not len(lane.queue)
        ]
        if leaving:
            await self._acknowledge()
            await self._db.run(calls.leave(self.tube, process, member=self._member, lanes=leaving))
            for number in leaving:
                del self._lanes[number]

    def _begin(self, share: LaneShare) -> Lane:
        lane = Lane(
            share.lane,
            share.lanes,
            share.epoch,
            LaneQueue(share.live_up_to, share.backfill_up_to),
            [share.live_up_to, share.backfill_up_to],
        )
        self._lanes[share.lane] = lane
        return lane

    def _lose(self, lane: Lane) -> None:
        lane.lost = True
        self._lanes.pop(lane.number, None)
        logger.info("lane lost", tube=self.tube, lane=lane.number, epoch=lane.epoch)

    async def _read(self) -> int:
        """Fill the queues of lanes that have room; how many entries came."""
        roomy = [lane for lane in self._lanes.values() if self._has_room(lane)]
        if self._lanes and not roomy:
            return 0
        head = await self._db.run(calls.head())
        came = 0
        for lane in roomy:
            for priority in (LIVE, BACKFILL):
                if not self._has_room(lane):
                    continue
                if priority == BACKFILL and self._pace.exclude_backfill:
                    continue
                came += await self._read_lane(lane, priority, head)
        return came

    def _has_room(self, lane: Lane) -> bool:
        return not lane.surplus and len(lane.queue) < self._pace.queue_keys

    async def _read_lane(self, lane: Lane, priority: int, head: int) -> int:
        queue = lane.queue
        first = queue.read_up_to[priority] + 1
        if first > head:
            return 0
        last = min(head, first + _READ_POSITIONS)  # others' entries lie between ours
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
        if now < self._hold_until:
            return 0
        for lane in self._lanes.values():
            self._control(lane)
        for lane in self._lanes.values():
            lane.queue.wake(now)
        most = self._pace.batch * self._bring.stretch
        lanes = deque(self._lanes.values())
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
            failures = await self._bring(batch)
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
        for pending in batch:
            reason = failures.get(pending.id) if failures else None
            if reason is None:
                lane.queue.done(pending)
            else:
                await self._failed(lane, pending, reason, now)
        done = len(batch) - len(failures)
        self._delivered += done
        self._counter.inc(done)
        self.delivered.send(done)

    async def _failed(self, lane: Lane, pending: Pending, reason: str, now: float) -> None:
        pending.attempts += 1
        if pending.attempts < self._pace.park_after:
            wait = min(
                self._pace.retry_first * 2 ** (pending.attempts - 1), self._pace.retry_longest
            )
            lane.queue.failed(pending, retry_at=now + wait)
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
            self._lose(lane)
        except TrunklineError:
            lane.queue.failed(pending, retry_at=now + self._pace.retry_longest)
        else:
            logger.warning("parked", tube=self.tube, key=key, shard=shard, error=reason)
            lane.queue.done(pending)

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
                self._start(self._collecting, self._collect(lane, place, entry))

    async def _collect(self, lane: Lane, place: Place, entry: Entry) -> None:
        """Queue every document older than a backfill or truncate: its row decides about it.

        What goes wrong here is tried again here, and holds nothing else back.
        """
        waits = Backoff(first=0.5, longest=30.0)
        while not lane.lost:
            try:
                await self._queue_garbage(lane, place, entry)
            except Exception as error:  # noqa: BLE001 - it is tried again
                wait = waits.next()
                logger.warning("garbage not listed", tube=self.tube, error=str(error))
                await asyncio.sleep(wait)
            else:
                lane.queue.settle(place)
                break
        self._woken.set()

    async def _queue_garbage(self, lane: Lane, place: Place, entry: Entry) -> None:
        version = await self._bound(entry)
        after: str | None = None
        while not lane.lost:
            page = await self._downstream.older_than(
                entry.relation or "", None, version, after, _GARBAGE_PAGE
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
            self._woken.set()
            if page.after is None:
                return
            after = page.after
            while len(lane.queue) >= self._pace.queue_keys:  # noqa: ASYNC110 - batches make room
                await asyncio.sleep(_ROOM_POLL)

    async def _bound(self, entry: Entry) -> Version:
        if entry.control == "backfill_end":
            return Version.parse(entry.payload["incarnation"], entry.payload["lsn"])
        return await self._db.run(calls.version())

    async def _acknowledge(self) -> None:
        self._ack_at = time.monotonic() + _ACK_EVERY
        for lane in list(self._lanes.values()):
            marks = [lane.queue.watermark(LIVE), lane.queue.watermark(BACKFILL)]
            moved = max(mark - acked for mark, acked in zip(marks, lane.acked, strict=True))
            if moved <= 0 or (moved < _FAR_BEHIND and not lane.worked):
                continue
            try:
                await self._db.run(
                    calls.ack(
                        self.tube,
                        lane.number,
                        lane.epoch,
                        live_up_to=marks[LIVE],
                        backfill_up_to=marks[BACKFILL],
                    )
                )
                lane.acked = marks
                lane.worked = marks != lane.queue.read_up_to
            except LeaseLost:
                self._lose(lane)
                self._rejoin_at = 0.0

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
            await self._acknowledge()
            await self._db.run(calls.leave(self.tube, process, member=self._member))
        self._lanes.clear()
        await self._downstream.close()
