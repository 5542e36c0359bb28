"""`Attempts`: one try of a handler with a batch, and what becomes of it.

A handler that takes the transaction is run inside of it: effect, position and failures commit
together. Any other is run first, and what it failed with is set aside together with the position.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.pq import TransactionStatus

from trunkline.broker import handler_calls as calls
from trunkline.broker.handlers import Unfit
from trunkline.broker.invocation import Failed, beside, told
from trunkline.core import telemetry
from trunkline.core.errors import (
    LeaseLost,
    PositionTrimmed,
    TrunklineError,
    Unavailable,
    from_database,
    is_disconnect,
    is_outlasted,
)
from trunkline.core.execution import translated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from trunkline.broker.delivered import Delivered, RetryBatch
    from trunkline.broker.handlers import Handler
    from trunkline.broker.lane import Lane
    from trunkline.core.calls import Call
    from trunkline.core.db import AsyncDb

    Connection = psycopg.AsyncConnection[Any]

TRIALS = 3
"""How often an event is tried alone after a crash before it is a dead letter."""

_HOPELESS = (
    f"the process died over it, and again each of the {TRIALS} times that it was tried alone"
)
_REFUSALS = (psycopg.Error, TrunklineError, Failed)

logger = telemetry.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call of a handler, or events that it could not be called with."""

    group: str
    handler: str
    events: Sequence[Delivered]
    error: str | None
    retry_after: float | None
    """Seconds until the next try; None when it went well, or when it was the last one."""


@dataclass(slots=True)
class Result:
    """What became of a batch."""

    attempts: list[Attempt] = field(default_factory=list)
    parked: list[Delivered] = field(default_factory=list)

    @property
    def failures(self) -> list[Attempt]:
        """The attempts that failed."""
        return [attempt for attempt in self.attempts if attempt.error is not None]


@dataclass(frozen=True, slots=True)
class Shared:
    """What the handlers of a process share."""

    transactions: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(4))
    """As many handlers may hold a transaction; the other connections are for everybody."""
    alone: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while an event is tried over which processes may have died more than once."""


class Attempts:
    """Runs a handler with batches of a lane and settles them."""

    def __init__(
        self,
        db: AsyncDb,
        handler: Handler,
        shared: Shared,
        tell: Callable[[Attempt], None],
    ):
        self._db = db
        self._handler = handler
        self._shared = shared
        self._tell = tell

    async def first(self, lane: Lane, events: list[Delivered]) -> None:
        """Handle events that are new."""
        async with self._trial(lane, _batch_number(events)) as has_hope:
            if not has_hope:
                result = Result([self._attempt(events, _HOPELESS, last=True)])
                await self._settle(lane, events, result)
            elif self._handler.takes_transaction:
                result = await self._first_within(lane, events)
            else:
                result = await self._handle(lane, events, None)
                if result.failures or result.parked or lane.is_suspect:
                    await self._settle(lane, events, result)
                else:
                    lane.done(events)
        self._hold_back(lane, result.parked)
        for attempt in result.attempts:
            self._told(lane, attempt)

    async def again(self, lane: Lane, batch: RetryBatch) -> None:
        """Handle events that failed before, or that waited for one that did."""
        events = list(batch.events)
        async with self._trial(lane, events[0].delivery) as has_hope:
            if not has_hope:
                attempt = self._attempt(events, _HOPELESS, last=True)
                freed = await self._retried(lane, batch, attempt)
            elif self._handler.takes_transaction:
                attempt, freed = await self._again_within(lane, batch, events)
            else:
                attempt = await self._fit_and_call(events, None)
                freed = await self._retried(lane, batch, attempt)
        keys = {event.key for event in events if event.key is not None}
        lane.blocked.difference_update(freed)
        if attempt.error is None and keys - set(freed):
            lane.expect(0)  # what was parked behind it is due by now
        self._told(lane, attempt)

    async def trust(self, lane: Lane) -> None:
        """Nothing that the process before may have died over is left."""
        await self._db.run(calls.trial(*self._place(lane), None))

    async def is_hopeless(self, lane: Lane, events: list[Delivered]) -> bool:
        """Whether processes died too often over a batch of a suspect lane."""
        place = *self._place(lane), _batch_number(events)
        return await self._db.run(calls.trial(*place, note=False)) >= TRIALS

    def aside(self, lane: Lane, events: list[Delivered]) -> set[int]:
        """The deliveries that would be parked if a batch were handled now."""
        parked = Result()
        self._free(lane, events, parked)
        return {event.delivery for event in parked.parked}

    @asynccontextmanager
    async def _trial(self, lane: Lane, number: int) -> AsyncIterator[bool]:
        """Note that an event of a suspect lane is tried; False when that was done too often.

        From the second time on nothing else that is suspect is tried meanwhile: a process dies
        with everything in it, and only the event that killed it may be blamed. Whatever comes of
        the trial, a process that lives to see it was not killed.
        """
        if not lane.is_suspect:
            yield True
            return
        place = *self._place(lane), number
        tried = await self._db.run(calls.trial(*place, note=False))
        if tried >= TRIALS:
            yield False
            return
        async with self._shared.alone if tried else nullcontext():
            await self._db.run(calls.trial(*place))
            try:
                yield True
            except Exception:
                with suppress(TrunklineError, OSError):
                    await self._db.run(calls.trial_over(*place))
                raise
            await self._db.run(calls.trial_over(*place))

    async def _first_within(self, lane: Lane, events: list[Delivered]) -> Result:
        """Handle new events in the transaction that commits their position."""
        result = Result()
        free = self._free(lane, events, result)
        refused = Result(parked=result.parked)
        if not free:  # nothing is tried, so nothing could be a failure of the handler
            await self._settle(lane, events, refused)
            return refused
        async with self._shared.transactions:
            try:
                async with self._db.transaction() as connection:
                    result = await self._handle(lane, events, connection)
                    await self._write(lane, events, result, connection)
            except _REFUSALS as error:
                refused.attempts.append(self._attempt(free, _refusal(error), wait=_wait(error)))
                await self._settle(lane, events, refused)
                return refused
        lane.done(events)
        lane.has_committed(events[-1].delivery)
        return result

    async def _again_within(
        self, lane: Lane, batch: RetryBatch, events: list[Delivered]
    ) -> tuple[Attempt, list[str]]:
        async with self._shared.transactions:
            try:
                async with self._db.transaction() as connection:
                    attempt = await self._fit_and_call(events, connection)
                    return attempt, await self._retried(lane, batch, attempt, connection)
            except _REFUSALS as error:
                attempt = self._attempt(events, _refusal(error), wait=_wait(error))
        return attempt, await self._retried(lane, batch, attempt)

    async def _handle(
        self, lane: Lane, events: Sequence[Delivered], connection: Connection | None
    ) -> Result:
        """Call the handler, part by part; later events of a key that failed are parked."""
        result = Result()
        free = self._free(lane, events, result)
        try:
            parts = self._handler.split(free)
        except Exception as error:  # noqa: BLE001 - it is the user's function
            result.attempts.append(self._attempt(free, told(error)))
            return result
        for part in parts:
            quiet = self._quiet(lane, self._free(lane, part, result), result)
            fit, values = self._fit(lane, quiet, result)
            if fit:
                attempt = await self._call(fit, values, connection)
                result.attempts.append(attempt)
                if attempt.error is not None:
                    self._hold_back(lane, fit)
        return result

    def _free(self, lane: Lane, events: Sequence[Delivered], result: Result) -> list[Delivered]:
        """The events that may be handled now; the others are parked."""
        if self._handler.ordering != "strict":
            return list(events)
        free: list[Delivered] = []
        for event in events:
            (result.parked if lane.holds_back(event) else free).append(event)
        return free

    def _quiet(self, lane: Lane, events: list[Delivered], result: Result) -> list[Delivered]:
        """The events beside whose keys no call goes on after its time; the others have failed."""
        if not self._handler.is_busy_with(events):
            return events
        busy = [event for event in events if self._handler.is_busy_with([event])]
        failure = beside(self._handler.timeout)
        result.attempts.append(self._attempt(busy, str(failure), wait=failure.wait))
        self._hold_back(lane, busy)
        return [event for event in events if event not in busy]

    def _fit(
        self, lane: Lane, events: Sequence[Delivered], result: Result
    ) -> tuple[list[Delivered], list[Any]]:
        """The events whose payloads are what the handler asks for, and what it is given."""
        fit: list[Delivered] = []
        values: list[Any] = []
        for event in events:
            if fit and not self._free(lane, [event], result):
                continue
            try:
                values.append(self._handler.fitted(event))
                fit.append(event)
            except Exception as error:  # noqa: BLE001 - a validator is the user's function
                result.attempts.append(self._misfit([event], error))
                self._hold_back(lane, [event])
        return fit, values

    async def _fit_and_call(
        self, events: Sequence[Delivered], connection: Connection | None
    ) -> Attempt:
        if self._handler.is_busy_with(events):
            failure = beside(self._handler.timeout)
            return self._attempt(events, str(failure), wait=failure.wait)
        try:
            values = [self._handler.fitted(event) for event in events]
        except Exception as error:  # noqa: BLE001 - a validator is the user's function
            return self._misfit(events, error)
        return await self._call(events, values, connection)

    def _misfit(self, events: Sequence[Delivered], error: Exception) -> Attempt:
        """Payloads could not be made into what the handler asks for."""
        if isinstance(error, Unfit):
            return self._attempt(events, str(error), last=True)
        return self._attempt(events, told(error))

    async def _call(
        self, events: Sequence[Delivered], values: Sequence[Any], connection: Connection | None
    ) -> Attempt:
        """One call of the handler; in a transaction, what a failed one did there is undone."""
        handler = self._handler
        call = handler.call(events, values, connection)
        try:
            if connection is None:
                await handler.invoke(call, events)
            else:
                async with connection.transaction():
                    await handler.invoke(call, events)
                    _check(connection)
        except Failed as failure:
            if connection is not None and failure.stuck:
                await connection.close()  # it may go on as long as it likes, but not there
            if connection is not None and connection.broken and not is_outlasted(failure):
                raise Unavailable("the server left while the handler was at work.") from failure
            if connection is not None and connection.closed:
                raise
            return self._attempt(events, str(failure), last=failure.last, wait=failure.wait)
        return self._attempt(events, None)

    def _hold_back(self, lane: Lane, events: Sequence[Delivered]) -> None:
        if self._handler.ordering == "strict":
            lane.hold_back(events)

    async def _settle(self, lane: Lane, events: Sequence[Delivered], result: Result) -> None:
        """Set aside what failed and what is parked, and move the position past the batch."""
        with translated():
            async with self._db.transaction() as connection:
                await self._write(lane, events, result, connection)
        lane.done(list(events))
        lane.has_committed(events[-1].delivery)

    async def _write(
        self, lane: Lane, events: Sequence[Delivered], result: Result, connection: Connection
    ) -> None:
        place = self._place(lane)
        for failure in result.failures:
            fail = partial(
                calls.fail,
                *place,
                error=failure.error or "",
                retry_after=_interval(failure.retry_after),
            )
            await self._set_aside(fail, failure.events, connection)
        if result.parked:
            await self._set_aside(partial(calls.park, *place), result.parked, connection)
        commit = calls.commit(*place, events[-1].delivery, lane.cuts)
        await self._db.run(commit, on=connection)

    async def _set_aside(
        self,
        aside: Callable[..., Call[Any]],
        events: Sequence[Delivered],
        connection: Connection,
    ) -> None:
        """Set events aside together; when some have left, each of the others by itself."""
        try:
            async with connection.transaction():
                call = aside(deliveries=[event.delivery for event in events])
                await self._db.run(call, on=connection)
        except PositionTrimmed as error:
            if len(events) > 1:
                for event in events:
                    await self._set_aside(aside, [event], connection)
                return
            lost = {"group": self._handler.group, "handler": self._handler.name}
            logger.error("events lost", error=str(error), **lost)  # noqa: TRY400 - no bug

    async def _retried(
        self,
        lane: Lane,
        batch: RetryBatch,
        attempt: Attempt,
        connection: Connection | None = None,
    ) -> list[str]:
        return await self._db.run(
            calls.retried(
                *self._place(lane),
                batch.batch,
                error=attempt.error,
                retry_after=_interval(attempt.retry_after),
            ),
            on=connection,
        )

    def _place(self, lane: Lane) -> tuple[str, str, int, int]:
        return self._handler.group, self._handler.name, lane.number, lane.epoch

    def _attempt(
        self,
        events: Sequence[Delivered],
        error: str | None,
        *,
        last: bool = False,
        wait: float | None = None,
    ) -> Attempt:
        tried = max(event.attempt for event in events)
        delay = None if error is None or last else self._handler.delay_after(tried)
        if delay is not None and wait is not None:
            delay = max(delay, wait)
        return Attempt(self._handler.group, self._handler.name, events, error, delay)

    def _told(self, lane: Lane, attempt: Attempt) -> None:
        self._tell(attempt)
        if attempt.error is None:
            return
        if attempt.retry_after is not None:
            lane.expect(attempt.retry_after)
        self._hold_back(lane, attempt.events)
        logger.warning(
            "handler failed" if attempt.retry_after is not None else "dead letter",
            group=attempt.group,
            handler=attempt.handler,
            events=[event.event_id for event in attempt.events],
            attempt=max(event.attempt for event in attempt.events),
            retry_after=attempt.retry_after,
            error=attempt.error.splitlines()[0],
        )


def _batch_number(events: Sequence[Delivered]) -> int:
    """What the trials of new events are counted under; those of a batch are not its first one's."""
    first = events[0].delivery
    return first if len(events) == 1 else -first


def _check(connection: Connection) -> None:
    if connection.info.transaction_status == TransactionStatus.INERROR:
        raise Failed("the handler went on after an error of its transaction")
    if connection.closed and not connection.broken:
        raise Failed("the handler closed the connection of its transaction")


def _interval(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)


def _wait(error: Exception) -> float | None:
    return error.wait if isinstance(error, Failed) else None


def _refusal(error: Exception) -> str:
    """Why a transaction was not committed, as an error of the handler; the server's leaving and
    the loss of the lane are none, but that it took too long for the server is."""
    if isinstance(error, psycopg.Error):
        if is_disconnect(error) and not is_outlasted(error):
            raise from_database(error) from error
        return told(error)
    if isinstance(error, LeaseLost | Unavailable):
        raise error
    return str(error) if isinstance(error, Failed) else told(error)
