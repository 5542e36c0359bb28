"""`HandlerWorker`: brings the events of a group to one handler, each key in order, none skipped.

It registers the handler before anything is read, owns lanes (by lease and epoch), and lets them be
filled (`lane_reading`). Every lane has a task that handles its events (`lane_work`).

What fails is set aside with its error, in the transaction that moves the position past it: for
another try, or as a dead letter. Whatever goes wrong otherwise (the server is away, the lane went
to another process) drops the lane: it is taken up again from the position that is committed.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

from trunkline.broker import handler_calls as calls
from trunkline.broker.attempts import Attempts, Shared
from trunkline.broker.calls import group, incarnation
from trunkline.broker.invocation import Withdrawn
from trunkline.broker.lane import UNCOMMITTED, Cut, Lane
from trunkline.broker.lane_reading import LaneReading
from trunkline.broker.lane_work import LaneWork
from trunkline.broker.subscription_calls import subscribe
from trunkline.core import telemetry
from trunkline.core.backoff import Backoff
from trunkline.core.errors import (
    Invalid,
    LeaseLost,
    NotFound,
    TrunklineError,
    Unavailable,
)
from trunkline.core.lease import GOODBYE_WITHIN
from trunkline.core.service import Probe
from trunkline.core.waiting import cut_off, set_within

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager
    from uuid import UUID

    from trunkline.broker.attempts import Attempt
    from trunkline.broker.delivered import HandlerLane
    from trunkline.broker.handlers import Handler
    from trunkline.core.calls import Call
    from trunkline.core.db import AsyncDb
    from trunkline.core.lease import ProcessLease
    from trunkline.core.listen import Listener, Subscription

logger = telemetry.get_logger(__name__)

_STOP_PATIENCE = 10.0  # seconds beyond the time that a handler may take


class HandlerWorker:
    """Works for one handler. Any number may run; each lane has one of them."""

    rejoin_every = 3.0
    look_every = 0.5
    pace = 0.0
    """Seconds between two wake-ups at least; what comes meanwhile is read together."""
    told: asyncio.Future[Any]
    """Done when it is told to stop; there as soon as it runs."""

    def __init__(
        self,
        db: AsyncDb,
        lease: ProcessLease,
        listener: Listener,
        handler: Handler,
        *,
        member: str = "",
        read_ahead: int = 10,
        shared: Shared | None = None,
        tell: Callable[[Attempt], None] | None = None,
    ):
        self.handler = handler
        self.attempted: Probe[Attempt] = Probe()
        self.quiet: Probe[None] = Probe()
        self._db = db
        self._lease = lease
        self._listener = listener
        self._member = member
        attempts = Attempts(db, handler, shared or Shared(), self._told)
        self._lane_work = LaneWork(db, handler, attempts, self)
        self._tell = tell
        self._lanes: dict[int, Lane] = {}
        self.reading = LaneReading(
            db,
            handler,
            self._lanes,
            room=max(1, read_ahead) * handler.batch,
            check=self._refuse_another_server,
        )
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._joined = False
        self._stopping = False
        self._rejoin_at = 0.0
        self._connections = 0
        self._life: int | None = None
        self._look_at = 0.0
        self._hold_until = 0.0
        self._trouble = Backoff(first=0.1, longest=10.0)
        self._woken = asyncio.Event()
        self._counter = telemetry.counter(
            "broker_handled_events", group=handler.group, handler=handler.name
        )

    @property
    def lanes(self) -> Sequence[Lane]:
        """The lanes that are ours."""
        return tuple(self._lanes.values())

    @property
    def is_stopping(self) -> bool:
        """Whether nothing more is begun."""
        return self._stopping

    async def register(self) -> int:
        """Make subscription and handler, so that from now on nothing is missed; the group's id."""
        process = await self._lease.hold()
        try:
            return await self._register(process)
        except LeaseLost:  # the program was held up for longer than a lease lasts
            await self._lease.renew()
            return await self._register(process)

    async def _register(self, process: UUID) -> int:
        handler = self.handler
        life = await self._db.run(incarnation())
        subscribed = subscribe(
            handler.group,
            handler.condition,
            handler.params,
            from_position=handler.from_position,
            from_time=handler.from_time,
            process=process,
            handler=handler.name,
            ordering=handler.ordering,
            replace=True,  # the code declares the condition: a changed one takes over
        )
        try:
            await self._db.run(subscribed)
        except Invalid as error:
            error.message = f'handler "{handler.name}" of "{handler.group}": {error.message}'
            raise
        self._life = life
        return await self._db.run(group(handler.group))

    async def run(self, stop: asyncio.Event) -> None:
        """Work until told to stop; then finish what is in hand and give the lanes back at once."""
        self.told = stopped = asyncio.create_task(stop.wait())
        stopped.add_done_callback(lambda _: self._woken.set())
        process = await self._lease.hold()
        try:
            with self._lease.departures(self._rejoin_now):
                async with cut_off(GOODBYE_WITHIN, after=stopped):
                    await self._serve(process, stopped)
        finally:
            stopped.cancel()
            await self._finish(process)

    async def _serve(self, process: UUID, stopped: asyncio.Task[bool]) -> None:
        group_id = await self._registered(stopped)
        about = f"broker:group:{group_id}:"
        async with self._listener.subscribe(about, self._heard) as heard:
            listening = asyncio.create_task(self._listen(heard))
            try:
                while not stopped.done():
                    self._woken.clear()
                    if not await self._step(process):
                        await self._rest()
            finally:
                listening.cancel()
                await asyncio.wait({listening})

    async def run_until_quiet(self) -> None:
        """Work until nothing is left to do at this moment; for tests and scripts."""
        stop = asyncio.Event()
        quiet = self.quiet.wait(timeout=3600)
        work = asyncio.create_task(self.run(stop))
        try:
            await asyncio.wait({quiet, work}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            quiet.cancel()
            stop.set()
            await work

    async def _registered(self, stopped: asyncio.Task[bool]) -> int:
        """Register; while the server is away, or too slow for our lease, try again."""
        while True:
            try:
                return await self.register()
            except (TrunklineError, OSError) as error:
                passing = _is_trouble(error) or isinstance(error, LeaseLost)
                if not passing or stopped.done():
                    raise
                self._hold(error)
                await asyncio.wait({stopped}, timeout=self._hold_until - time.monotonic())

    async def _step(self, process: UUID) -> bool:
        """One round: who owns what, what is there; whether to go on at once."""
        now = time.monotonic()
        if now < self._hold_until:
            return False
        try:
            if now >= self._rejoin_at or self._may_be_another_server():
                await self._rejoin(process)
            if now >= self._look_at:
                self._look_at = now + self.look_every
                await self.reading.look()
            came = await self.reading.fill()
        except LeaseLost:
            self._rejoin_at = 0.0
            return False
        except Exception as error:  # noqa: BLE001 - the worker outlives whatever it meets
            self._hold(error)
            return False
        self._trouble.reset()
        has_all = self._joined and self._rejoin_at > now  # none was dropped meanwhile
        if not came and has_all and all(lane.idle for lane in self._lanes.values()):
            self.quiet.send(None)
        return came

    def _rejoin_now(self) -> None:
        self._rejoin_at = 0.0
        self._woken.set()

    def _heard(self, key: str) -> None:
        """Something came for the lanes that the last part of the key names; if none, for all."""
        named = key.rpartition(":")[2].split(",")
        for number, lane in self._lanes.items():
            if named == [""] or str(number) in named:
                lane.more = True

    async def _listen(self, heard: Subscription) -> None:
        while True:
            if await heard.wait(3600):
                self._woken.set()
                if self.pace:
                    await asyncio.sleep(self.pace)

    async def _rest(self) -> None:
        """Wait for a wake-up, or until it is time to look."""
        until = max(min(self._look_at, self._rejoin_at), self._hold_until)
        await set_within(self._woken, max(0.0, until - time.monotonic()))

    def _may_be_another_server(self) -> bool:
        """Whether a standby may have taken over since we joined, which never had what we read."""
        return self._connections != self._db.connections_made

    def _refuse_another_server(self) -> None:
        if self._may_be_another_server():
            raise LeaseLost("the server may be another by now.")

    async def _rejoin(self, process: UUID) -> None:
        handler = self.handler
        connections = self._db.connections_made
        try:
            await self._register_anew()
            shares = await self._db.run(
                calls.join(handler.group, handler.name, process, member=self._member)
            )
        except LeaseLost:
            await self._lease.renew()
            return
        except NotFound:  # the group was deleted: it begins anew
            await self.register()
            return
        self._rejoin_at = time.monotonic() + self.rejoin_every
        self._connections = connections
        ours = {share.lane: share for share in shares}
        for number, lane in list(self._lanes.items()):
            if number not in ours or ours[number].epoch != lane.epoch:
                self._drop(lane)
        fresh = []
        for share in shares:
            if held := self._lanes.get(share.lane):
                held.surplus = share.surplus
                held.woken.set()
            elif not share.surplus and share.lane not in self._tasks:
                fresh.append(share)
        cuts = await self._cuts(fresh)
        for share in fresh:
            self._begin(share, cuts.get(share.lane, ()))
        await self._give_back(process, ours)
        self._joined = True

    async def _register_anew(self) -> None:
        """Register in every life of the server: a standby may not have heard that we did."""
        if self._life != await self._db.run(incarnation()):
            await self.register()

    async def _give_back(self, process: UUID, ours: dict[int, HandlerLane]) -> None:
        """Surplus lanes go once nothing is in hand."""
        leaving = [
            number for number, share in ours.items() if share.surplus and number not in self._tasks
        ]
        if leaving:
            await self._db.run(self._farewell(process, leaving))

    async def _cuts(self, shares: Sequence[HandlerLane]) -> dict[int, list[Cut]]:
        """The batches that whoever had these lanes wrote down and did not commit."""
        handler = self.handler
        if not shares or not handler.keeps_batches:
            return {}
        lanes = [share.lane for share in shares]
        return await self._db.run(calls.cuts(handler.group, handler.name, lanes))

    def _begin(self, share: HandlerLane, cuts: Sequence[Cut]) -> None:
        suspect = UNCOMMITTED + self.handler.batch if share.suspect else 0
        lane = Lane(share.lane, share.epoch, share.up_to, suspect, deque(cuts))
        self._lanes[share.lane] = lane
        self._tasks[share.lane] = asyncio.create_task(
            self._work(lane), name=f"{self.handler.name} {share.lane}"
        )
        if suspect:
            logger.info("the process before died", **self._about(lane))

    def _drop(self, lane: Lane) -> None:
        """Forget a lane; it is taken up again from what is committed, if it is still ours."""
        lane.lost = True
        lane.woken.set()
        if self._lanes.get(lane.number) is lane:
            del self._lanes[lane.number]
            self._rejoin_now()

    async def _work(self, lane: Lane) -> None:
        """The task of a lane: handle what is there, in order, until the lane ends."""
        try:
            await self._lane_work.run(lane)
        except asyncio.CancelledError:
            raise
        except LeaseLost:
            logger.info("lane lost", **self._about(lane))
        except Withdrawn as reason:
            logger.info("events given back", reason=str(reason), **self._about(lane))
        except Exception as error:  # noqa: BLE001 - the lane is taken up again
            self._hold(error)
        finally:
            del self._tasks[lane.number]
            self._drop(lane)

    def admission(self, _lane: Lane) -> AbstractAsyncContextManager[bool]:
        """Whether a lane may handle something now; for those who know when it had better not."""
        return nullcontext(True)  # noqa: FBT003 - what it yields

    def took(self, lane: Lane) -> None:
        """Events were taken from the queue of a lane: there may be room for more."""
        if self.reading.wants_more(lane):
            self._woken.set()

    def rests(self) -> None:
        """A lane has nothing to do."""
        self._woken.set()

    def _told(self, attempt: Attempt) -> None:
        if attempt.error is None:
            self._counter.inc(len(attempt.events))
        self.attempted.send(attempt)
        if self._tell is not None:
            self._tell(attempt)

    def _hold(self, error: BaseException) -> None:
        """Something is wrong: wait before trying again, longer every time."""
        if time.monotonic() < self._hold_until:
            return  # what was under way together fails together: that is one failure
        wait = self._trouble.next()
        self._hold_until = time.monotonic() + wait
        self._rejoin_at = 0.0
        logger.warning(
            "handler held back",
            error=telemetry.redact(f"{type(error).__name__}: {error}"),
            retry_after=round(wait, 2),
            exc_info=None if _is_trouble(error) else error,
            **self._about(),
        )

    def _about(self, lane: Lane | None = None) -> dict[str, Any]:
        about: dict[str, Any] = {"group": self.handler.group, "handler": self.handler.name}
        return about if lane is None else {**about, "lane": lane.number, "epoch": lane.epoch}

    def _farewell(self, process: UUID, lanes: list[int] | None = None) -> Call[None]:
        handler = self.handler
        return calls.leave(handler.group, handler.name, process, member=self._member, lanes=lanes)

    async def _finish(self, process: UUID) -> None:
        self._stopping = True
        for lane in self._lanes.values():
            lane.woken.set()
        if tasks := set(self._tasks.values()):
            _, late = await asyncio.wait(tasks, timeout=self.handler.timeout + _STOP_PATIENCE)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=_STOP_PATIENCE)
        with suppress(TrunklineError, OSError):
            await self._lease.leave(self._farewell(process))
        self._lanes.clear()


def _is_trouble(error: BaseException) -> bool:
    """Whether it is the server's or the network's doing, and passes by itself."""
    return isinstance(error, Unavailable | OSError | TimeoutError)
