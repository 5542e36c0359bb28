"""`LiveStream`: the changes of a live table for one who looks, resumable on any node by a token.

A stream is a subscription that carries the process which serves it. It stands at a place in the
history of events. As long as that is behind the hub of the process it reads by itself; then it
joins the hub, and is told. When it cannot follow it falls behind, and the same begins anew. So a
slow reader costs no memory, and waits for nothing but itself.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Self, TypeVar

from trunkline.broker.stream import Heartbeat, Place, Reset, patiently, present_end
from trunkline.core import telemetry
from trunkline.core.acting import acting_as
from trunkline.core.errors import (
    DatabaseError,
    Invalid,
    PositionTrimmed,
    TrunklineError,
    Unavailable,
)
from trunkline.live import calls
from trunkline.live.hub import MOST_EVENTS, may_ask_for_less
from trunkline.live.judging import Wanted
from trunkline.live.mailbox import Mailbox
from trunkline.live.models import LiveBatch

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Awaitable,
        Callable,
        Iterable,
        Mapping,
    )

    from trunkline.core.calls import Call
    from trunkline.core.db import AsyncDb
    from trunkline.core.lease import ProcessLease
    from trunkline.live.hub import Hub
    from trunkline.live.models import LiveRead

T = TypeVar("T")
logger = telemetry.get_logger(__name__)

CHANGES = frozenset({"created", "updated", "deleted", "left"})

Item = LiveBatch | Heartbeat | Reset


class LiveStream:
    """``async for batch in stream``; `items` also tells of silence and of lost history.

    Looped over, it raises `PositionTrimmed` when changes are lost: what the reader has is then to
    be loaded anew.
    """

    def __init__(
        self,
        db: AsyncDb,
        lease: ProcessLease,
        hub: Hub,
        relation: str,
        *,
        condition: Mapping[str, Any] | None,
        changes: Iterable[str] | None,
        columns: Iterable[str] | None,
        after: str | None,
        role: str | None,
        settings: Mapping[str, str],
        heartbeat: float,
    ):
        if heartbeat <= 0:
            raise Invalid(f"heartbeat is a number of seconds above 0, got {heartbeat}.")
        self._db = db
        self._lease = lease
        self._hub = hub
        self._relation = relation
        self._condition = condition
        self._changes = None if changes is None else frozenset(changes)
        self._columns = None if columns is None else frozenset(columns)
        self._role = role
        self._settings = dict(settings)
        self._heartbeat = heartbeat
        self._most = MOST_EVENTS
        self._place = None if after is None else Place.parse(after)
        self._resumed = after is not None
        self._mailbox: Mailbox | None = None
        self._following: Mailbox | None = None
        self._spoken = 0.0
        self._closed = False

    @property
    def token(self) -> str | None:
        """Where the stream stands: after the last batch that it gave; None before it is open."""
        box = self._following
        if box is not None and box.empty and not box.closed:
            reached = self._hub.place(box.wanted.relation)
            if self._is_before(reached):
                self._place = reached
        return None if self._place is None else self._place.token

    async def open(self) -> None:
        """Subscribe: what is committed from now on is told. Checks condition and rights.

        Raises `PositionTrimmed` when the history after the token is gone.
        """
        if self._mailbox is not None:
            return
        await self._subscribe_wholly()
        try:
            if self._place is None:
                self._place = await present_end(self._db)
            else:  # whether all is there that follows it
                await self._db.run(self._reading(self._place, None, max_events=1))
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End the subscription. Safe to call twice."""
        self._closed = True
        mailbox, self._mailbox = self._mailbox, None
        if mailbox is None:
            return
        self._following = None
        self._hub.leave(mailbox)
        if not self._hub.closed:
            await self._unsubscribe(mailbox.subscription)

    def end(self) -> None:
        """Tell whoever loops over it to stop; the connection ends."""
        self._closed = True
        if self._mailbox is not None:
            self._mailbox.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def __aiter__(self) -> AsyncIterator[LiveBatch]:
        async for item in self.items():
            batch = self.told(item)
            if batch is not None:
                yield batch

    def told(self, item: Item) -> LiveBatch | None:
        """What a loop is told of an item: the batch, if it is one."""
        if isinstance(item, Reset):
            raise PositionTrimmed(
                item.reason, hint="Load the rows again, and start without a token."
            )
        return item if isinstance(item, LiveBatch) else None

    async def items(self) -> AsyncGenerator[Item, None]:
        """Batches, a `Heartbeat` after every silence, a `Reset` where history is gone.

        Without a token to go on after, a `Heartbeat` comes first: whoever is cut off before the
        first change can go on from there.
        """
        await self.open()
        self._spoken = time.monotonic()
        if not self._resumed:
            yield Heartbeat(self.token or "")
        try:
            while not self._closed:
                mailbox = await self._fresh_mailbox()
                if self._closed:  # meanwhile: what was made anew ends, too
                    await self.close()
                    return
                start = await self._hub.join(mailbox)
                async for item in self._catch_up(start):
                    yield item
                async for item in self._live(mailbox):
                    yield item
        except Unavailable:
            if not self._hub.closed:  # the end of the connection is the end of its streams
                raise

    async def _fresh_mailbox(self) -> Mailbox:
        """A mailbox that nobody has put anything in, of a subscription that is there."""
        assert self._mailbox is not None
        if self._mailbox.renew:
            former = self._mailbox.subscription
            await self._patiently(self._subscribe_wholly)
            await self._unsubscribe(former)
        elif self._mailbox.joined:
            self._hub.leave(self._mailbox)
            self._mailbox = Mailbox(self._mailbox.subscription, self._mailbox.wanted)
        return self._mailbox

    async def _catch_up(self, to: Place) -> AsyncIterator[Item]:
        """What lies between the place of the stream and that from which on the hub reads for it."""
        assert self._place is not None
        while not self._closed and self._is_before(to):
            call = self._reading(self._place, to.position, max_events=self._most)
            try:
                rows = await self._patiently(lambda call=call: self._db.run(call))  # type: ignore[misc]
            except PositionTrimmed as error:
                self._place = to
                yield self._said(Reset(to.token, error.message))
                return
            except DatabaseError as error:
                if not may_ask_for_less(error, self._most):
                    raise
                self._most //= 2
                continue
            self._most = min(MOST_EVENTS, self._most * 2)
            place = Place(self._place.incarnation, max(row.up_to for row in rows))
            item = await self._found(rows, place)
            self._place = place  # who stops here goes on after this one
            if item is not None:
                yield self._said(item)
            elif self._silence <= 0:
                yield self._said(Heartbeat(place.token))

    async def _found(self, rows: list[LiveRead], place: Place) -> LiveBatch | Reset | None:
        assert self._mailbox is not None
        number, wanted = self._mailbox.subscription, self._mailbox.wanted
        told = await self._patiently(
            lambda: self._hub.judge.tell(rows, {number: wanted}, incarnation=place.incarnation)
        )
        if number in told.failures:
            raise told.failures[number]
        if number in told.lost:
            self._mailbox.close(renew=True)
            return Reset(place.token, told.lost[number])
        changes = told.changes.get(number)
        return LiveBatch(place.token, tuple(changes)) if changes else None

    async def _live(self, mailbox: Mailbox) -> AsyncIterator[Item]:
        """What the hub tells, until the mailbox is closed and empty."""
        self._following = mailbox
        try:
            while not self._closed:
                item = mailbox.take()
                if isinstance(item, LiveBatch):
                    item = self._unseen(item)
                    if item is None:
                        continue
                if item is not None:
                    self._place = Place.parse(item.token)
                    yield self._said(item)
                elif mailbox.closed:
                    return
                elif self._silence <= 0:
                    yield self._said(Heartbeat(self.token or ""))
                else:
                    await mailbox.wait(self._silence)
        finally:
            if self._following is mailbox:
                self._following = None

    def _unseen(self, batch: LiveBatch) -> LiveBatch | None:
        """What of a batch is new: who comes from a quicker process may be ahead of the hub."""
        if self._is_before(Place.parse(batch.changes[0].token)):
            return batch
        if not self._is_before(Place.parse(batch.changes[-1].token)):
            return None
        fresh = (c for c in batch.changes if self._is_before(Place.parse(c.token)))
        return LiveBatch(batch.token, tuple(fresh))

    def _is_before(self, other: Place | None) -> bool:
        """Whether the stream stands before a place; one of another life is beyond."""
        if other is None or self._place is None:
            return False
        here = self._place
        return here.incarnation != other.incarnation or here.position < other.position

    def _reading(
        self, place: Place, to_position: int | None, *, max_events: int = MOST_EVENTS
    ) -> Call[list[LiveRead]]:
        assert self._mailbox is not None
        return calls.read(
            place.position,
            subscription=self._mailbox.subscription,
            incarnation=place.incarnation,
            max_events=max_events,
            to_position=to_position,
        )

    async def _subscribe_wholly(self) -> None:
        """Subscribe; who is cancelled meanwhile leaves no subscription behind."""
        subscribing = asyncio.create_task(self._subscribe())
        try:
            await asyncio.shield(subscribing)
        except asyncio.CancelledError:
            await asyncio.wait({subscribing})
            if subscribing.exception() is None:
                await self.close()
            raise

    async def _subscribe(self) -> None:
        process = await self._lease.hold()
        self._hub.used = True
        known = self._mailbox
        table = await self._hub.table(str(known.wanted.relation) if known else self._relation)
        async with (
            self._db.connection() as connection,
            acting_as(connection, self._role, self._settings),
        ):
            made = await self._db.run(
                calls.subscribe(
                    str(table.oid),
                    self._condition,
                    changes=self._changes,
                    columns=None if self._columns is None else sorted(self._columns),
                    settings=self._settings,
                    process=process,
                ),
                on=connection,
            )
        self._mailbox = Mailbox(
            made.subscription,
            Wanted(
                relation=table.oid,
                key_columns=tuple(table.key_columns),
                changes=CHANGES if self._changes is None else self._changes,
                columns=self._columns,
                condition_columns=frozenset(self._condition or ()),
                role=made.role,
                settings=tuple(sorted(self._settings.items())),
            ),
        )

    async def _unsubscribe(self, number: int) -> None:
        farewell = calls.unsubscribe(number, process=self._lease.process)
        try:
            await self._lease.leave(farewell)  # type: ignore[arg-type]
        except TrunklineError as error:
            logger.info("live subscription not ended yet", error=str(error))

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        return await patiently(ask, until=lambda: self._closed or self._hub.closed)

    def _said(self, item: Item) -> Item:
        self._spoken = time.monotonic()
        return item

    @property
    def _silence(self) -> float:
        """The seconds after which a heartbeat is due."""
        return self._heartbeat - (time.monotonic() - self._spoken)
