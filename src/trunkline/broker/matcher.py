"""`BrokerMatcher`: finds who wants the events that were numbered.

A round is one SQL call under a time limit. Conditions that fail are set aside by the database
itself. One that takes too long ends the round by its limit: the round is tried again with few
events, and if that takes too long as well every condition is tried by itself and the slow ones are
set aside. So a slow condition costs the others a few seconds, once. Events that take long to be
read, whatever the condition, are tried with fewer at a time: none is blamed for them.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from trunkline.broker import calls
from trunkline.broker.schedule import Gate
from trunkline.core import telemetry
from trunkline.core.errors import DatabaseError
from trunkline.core.listen import Waker
from trunkline.core.service import Probe, Service

if TYPE_CHECKING:
    from collections.abc import Callable

    from trunkline.core.calls import Call
    from trunkline.core.db import AsyncDb
    from trunkline.core.listen import Listener

T = TypeVar("T")

_TIME_IS_UP = "57014"
_FEW = 100  # events over which a condition may take broker.condition_timeout

_PAUSE = 0.02  # seconds; a tick ends it
_MANY = 1_000  # events: after so many there may be more
_CATCH_UP_EVERY = 0.1  # seconds, while there is something to match: that goes first

logger = telemetry.get_logger(__name__)


class BrokerMatcher(Service):
    """Matches events with subscriptions. Any number may run; one works."""

    name = "broker-matcher"
    interval = 0.5
    pause = _PAUSE

    def __init__(self, db: AsyncDb, listener: Listener):
        self._db = db
        self._gate = Gate(db)
        self._most: int | None = None
        self._caught_up_at = float("-inf")
        self._waker = Waker(listener, "broker:tick", self.wake)
        self.quarantined: Probe[int] = Probe()

    async def run_once(self) -> int:
        if not await self._gate.is_open():
            return 0
        self._waker.start()
        try:
            matched = await self._within_limit(calls.match(max_events=self._most))
        except TimeoutError:
            return await self._slower()
        if self._most is not None:  # it went well: take more, until there is no limit any more
            self._most = None if self._most > _FEW * 100 else self._most * 2
        self.pause = 0.0 if matched >= _MANY else _PAUSE
        if matched and time.monotonic() - self._caught_up_at < _CATCH_UP_EVERY:
            return matched
        self._caught_up_at = time.monotonic()
        caught_up = await self._catch_up()
        if caught_up:
            self.pause = 0.0
        return matched + caught_up

    async def close(self) -> None:
        await self._waker.close()

    async def _slower(self) -> int:
        if self._most != _FEW:
            self._most = _FEW
            return 1
        found, few = 0, await self._readable(late=False)
        for condition in await self._db.run(calls.conditions()):
            if few and condition.live:
                found += await self._judge(
                    calls.match_try(condition.condition_id, max_events=few),
                    partial(calls.quarantine, condition_id=condition.condition_id),
                    few,
                )
        if found:
            return found
        # each of them is quick enough: all together they are many, or the events are large
        return await self._db.run(calls.match(max_events=few or 1))

    async def _catch_up(self) -> int:
        try:
            return await self._within_limit(calls.catch_up(max_events=self._most))
        except TimeoutError:
            few = await self._readable(late=True)
        if not few:
            return await self._db.run(calls.catch_up(max_events=1))
        await self._judge(calls.catch_up(max_events=few), calls.quarantine, few)
        return 1  # it has come further, or was set aside

    async def _readable(self, *, late: bool) -> int:
        """How many events a condition can be tried with: they themselves do not take too long."""
        few = _FEW
        while few:
            try:
                await self._within_limit(calls.match_weigh(few, late=late))
            except TimeoutError:
                few //= 10
            else:
                break
        return few

    async def _judge(self, trial: Call[T], quarantine: Callable[[str], Call[int]], few: int) -> int:
        """Try something over few events; set aside whoever makes it take too long."""
        try:
            await self._within_limit(trial)
        except TimeoutError:
            error = f"over {few} events the condition takes longer than broker.condition_timeout"
            number = await self._db.run(quarantine(error))
            logger.warning("subscriptions quarantined", subscriptions=number, error=error)
            self.quarantined.send(number)
            return 1
        return 0

    async def _within_limit(self, call: Call[T]) -> T:
        """Run a call; `TimeoutError` when the server ended it for the time it took."""
        try:
            return await self._db.run_after(calls.limit(), call)
        except DatabaseError as error:
            if error.sqlstate == _TIME_IS_UP:
                raise TimeoutError from error
            raise
