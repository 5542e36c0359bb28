"""`Hub`: reads the changes of live tables once, for all streams of the process.

The process is what the seed of live tables calls a device: its subscriptions are rows that carry
its id, they end with its lease, and one call reads for all of them. What a call finds is put into
the mailboxes of the streams that it concerns, each table by its own `Lane`. The hub waits for
nobody: see `Mailbox`. What it cannot read for all, each stream reads by itself.

A stream *joins*: it is told the place from which on the hub reads for it. That place is taken
before a read begins, so the read sees the subscription, which was committed before. What lies
between the place where the stream stands and that one, the stream reads by itself.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from trunkline.broker.stream import Place, Reset, present_end
from trunkline.core import telemetry
from trunkline.core.backoff import Backoff
from trunkline.core.errors import (
    DatabaseError,
    Invalid,
    LeaseLost,
    NotFound,
    PositionTrimmed,
    TrunklineError,
    Unavailable,
)
from trunkline.core.service import Probe
from trunkline.core.waiting import set_within
from trunkline.live import calls
from trunkline.live.judging import Judge
from trunkline.live.lane import Lane, Load

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trunkline.core.db import AsyncDb
    from trunkline.core.lease import ProcessLease
    from trunkline.core.listen import Listener
    from trunkline.live.mailbox import Mailbox
    from trunkline.live.models import LiveRead, LiveTable

logger = telemetry.get_logger(__name__)

LOOK_EVERY = 1.0  # seconds, where no wake-up comes
MOST_EVENTS = 1_000  # that one call looks at
_TOO_MUCH = {"54000", "53200"}  # more than a value may hold, or than there is memory for


class Hub:
    """Reads for all streams of a process, from the first that joins until the last has left."""

    def __init__(self, db: AsyncDb, lease: ProcessLease, listener: Listener):
        self.read: Probe[int] = Probe()
        self.used = False
        """Whether there is, or was, a subscription of the process."""
        self.closed = False
        self.judge = Judge(db)
        self._db = db
        self._lease = lease
        self._listener = listener
        self._place: Place | None = None
        self._generation = 0
        self._tables: list[LiveTable] = []
        self._looked = float("-inf")
        self._most = MOST_EVENTS
        self._members: dict[int, Mailbox] = {}
        self._lanes: dict[int, Lane] = {}
        self._joining: list[tuple[Mailbox, asyncio.Future[Place]]] = []
        self._woken = asyncio.Event()
        self._ended = False
        self._task: asyncio.Task[None] | None = None

    def place(self, relation: int) -> Place | None:
        """How far was read for a table: a stream with an empty mailbox stands here."""
        lane = self._lanes.get(relation)
        return (lane and lane.place) or self._place

    async def table(self, relation: str) -> LiveTable:
        """A live table by its name among them, or as SQL names it, as it was a second ago."""
        if time.monotonic() - self._looked > LOOK_EVERY:
            self._tables = await self._db.run(calls.tables())
            self._looked = time.monotonic()
        for table in self._tables:
            if relation in {table.name, table.relation}:
                return table
        with suppress(NotFound, Invalid):
            if found := await self._db.run(calls.tables(relation)):
                return found[0]
        raise NotFound(
            f'"{relation[:100]}" is not a live table.',
            hint="Its owner makes it one with live_watch(); live_tables() lists them.",
        )

    async def join(self, mailbox: Mailbox) -> Place:
        """Read for a stream from now on; from where."""
        if self.closed:
            raise Unavailable("the connection is closed.")
        joined: asyncio.Future[Place] = asyncio.get_running_loop().create_future()
        self._joining.append((mailbox, joined))
        self._woken.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="live hub")
        return await joined

    def leave(self, mailbox: Mailbox) -> None:
        """Read for a stream no longer."""
        mailbox.close()
        if self._members.get(mailbox.subscription) is mailbox:
            del self._members[mailbox.subscription]

    async def close(self) -> None:
        """Read for nobody any more. Safe to call twice."""
        self.closed = True
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
        await self._stop_lanes()
        for mailbox in self._members.values():
            mailbox.close()
        self._members.clear()

    async def _run(self) -> None:
        self._place = None
        waits = Backoff(first=0.1, longest=5.0)
        try:
            async with (
                self._listener.subscribe("broker:tick", self._hear),
                self._listener.subscribe("live:", self._hear_of_end),
            ):
                while self._joining or self._members:
                    self._woken.clear()
                    try:
                        await self._round()
                        waits.reset()
                    except Unavailable as error:
                        await self._pause(error, waits.next())
                    except Exception as error:  # noqa: BLE001 - all streams of the process depend on us
                        self._refuse(error)  # first: who joins in the pause had no part in it
                        await self._pause(error, waits.next())
                        self._give_up()
        finally:
            for _, joined in self._joining:
                joined.cancel()
            self._joining.clear()

    async def _round(self) -> None:
        if self._place is None:
            await self._begin()
        self._admit()
        if self._ended:
            self._ended = False
            await self._part_with_ended()
        if not await self._read():
            await set_within(self._woken, LOOK_EVERY)

    async def _pause(self, error: Exception, wait: float) -> None:
        logger.warning(
            "live tables held back",
            error=telemetry.redact(str(error)),
            retry_after=round(wait, 2),
            exc_info=None if isinstance(error, TrunklineError) else error,
        )
        await asyncio.sleep(wait)

    def _refuse(self, error: Exception) -> None:
        """Whoever would have begun with a round that failed is told why."""
        joining, self._joining = self._joining, []
        for _, joined in joining:
            if not joined.done():
                joined.set_exception(error)

    def _give_up(self) -> None:
        """What cannot be read for all is read by each: whom it does not concern goes on."""
        self._place = None
        members, self._members = self._members, {}
        for member in members.values():
            member.close()

    def _hear(self, _key: str) -> None:
        self._woken.set()

    def _hear_of_end(self, _key: str) -> None:
        self._ended = True
        self._woken.set()

    async def _begin(self) -> None:
        await self._stop_lanes()  # nobody is left whom they would tell
        self._generation = await self._db.run(calls.enter(await self._lease.hold()))
        self._place = await present_end(self._db)

    def _admit(self) -> None:
        assert self._place is not None
        joining, self._joining = self._joining, []
        for mailbox, joined in joining:
            if not joined.done():
                mailbox.joined = True
                self._members[mailbox.subscription] = mailbox
                joined.set_result(self._place)

    async def _read(self) -> bool:
        """One read for all; whether anything was new."""
        assert self._place is not None
        place = self._place
        call = calls.read(
            place.position,
            process=self._lease.process,
            incarnation=place.incarnation,
            max_events=self._most,
            generation=self._generation,
        )
        try:
            rows = await self._db.run(call)
        except PositionTrimmed as error:
            await self._reset(error.message)
            return True
        except LeaseLost:
            await self._renew()
            return True
        except DatabaseError as error:
            if not may_ask_for_less(error, self._most):
                raise
            self._most //= 2
            return True
        self._most = min(MOST_EVENTS, self._most * 2)
        if rows:
            self._tell(rows, Place(place.incarnation, max(row.up_to for row in rows)))
        self.read.send(len(rows))
        return bool(rows)

    def _tell(self, rows: list[LiveRead], place: Place) -> None:
        assert self._place is not None
        self._members = {n: member for n, member in self._members.items() if not member.closed}
        by_table: dict[int, list[LiveRead]] = {}
        for row in rows:
            if row.relation is not None:
                by_table.setdefault(row.relation, []).append(row)
        for relation, some in by_table.items():
            concerned = {number for row in some for number in row.subscriptions or ()}
            members = {n: self._members[n] for n in concerned if n in self._members}
            lane = self._lanes.setdefault(relation, Lane(self.judge))
            lane.put(Load(some, members, self._place, place))
        self._place = place

    async def _reset(self, reason: str) -> None:
        end = await present_end(self._db)
        await self._stop_lanes()  # what is under way is of the history that is gone
        self._place = end
        for member in self._members.values():
            member.reset(Reset(self._place.token, reason))

    async def _stop_lanes(self) -> None:
        for relation in [*self._lanes]:
            await self._lanes[relation].close()
            del self._lanes[relation]

    async def _renew(self) -> None:
        """The lease ran out: each stream subscribes anew, and goes on where it stands."""
        logger.warning("lease ran out, streams subscribe again", streams=len(self._members))
        await self._lease.renew()
        self._generation = await self._db.run(calls.enter(self._lease.process))
        members, self._members = self._members, {}
        for member in members.values():
            member.close(renew=True)

    async def _part_with_ended(self) -> None:
        """Somebody ended subscriptions, or a table is live no longer."""
        known = set(self._members)
        there = await self._db.run(calls.subscriptions(self._lease.process))
        try:
            present = await self._db.run(calls.enter(self._lease.process))
        except LeaseLost:
            present = 0
        if present == self._generation:
            self._end_all(known - {subscription.subscription for subscription in there})
        else:  # they are gone for another reason
            await self._renew()

    def _end_all(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if member := self._members.pop(number, None):
                member.fail(
                    NotFound(
                        "the subscription was ended: by somebody, or because the table is live no"
                        " longer.",
                        hint="live_tables() lists those that are.",
                    )
                )


def may_ask_for_less(error: DatabaseError, most: int) -> bool:
    """Whether fewer events might be read where this many were too much for the server."""
    return error.sqlstate in _TOO_MUCH and most > 1
