"""Process leases, and what they protect.

A process says that it lives by renewing one row, `lease`, every third of ``lease.ttl``. Whatever it
owns (a partition of a group, a lane of a tube) is a row of `owner` with an *epoch* that rises at
every hand-over. Nothing is renewed per thing owned.

*Terms.* A process may believe that it still owns something after its lease ran out: it was
suspended, or cut off. That is allowed. What is not allowed is that it acknowledges anything after
somebody else took over: each acknowledgement carries the epoch and, as its last statement, takes
the owner row FOR SHARE with that epoch. If the epoch has moved the acknowledgement fails (TL423)
and with it the whole transaction. If it has not, the row lock keeps it from moving until the
transaction ends: a hand-over waits. So at any time at most one process can acknowledge, whatever
clocks, pauses and networks do; time only decides how soon somebody else may try.

Expiry is judged by the server's clock alone. The lease of a process that is killed ends earlier:
its session ends with it, and others see that within about a second (`Presence`).
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from trunkline.core import telemetry
from trunkline.core.calls import Call, nothing, scalar
from trunkline.core.errors import NotFound, TrunklineError, Unavailable
from trunkline.core.presence import WATCH_EVERY, Presence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime, timedelta

    import psycopg

    from trunkline.core.db import AsyncDb
    from trunkline.core.listen import Listener, Subscription

logger = telemetry.get_logger(__name__)

_RETRY_EVERY = 1.0
GOODBYE_WITHIN = 5.0  # seconds; without a goodbye the lease runs out by itself


def renew(process: UUID, name: str) -> Call[datetime]:
    """Say that a process lives; when its lease ends."""
    return Call("lease_renew", {"process": process, "name": name}, scalar, safe_to_repeat=True)


def ttl() -> Call[timedelta]:
    """How long a lease lasts."""
    return Call("lease_ttl", {}, scalar, safe_to_repeat=True)


def rest(process: UUID) -> Call[timedelta | None]:
    """How long the lease of a process lasts if it is not renewed."""
    return Call("lease_rest", {"process": process}, scalar, safe_to_repeat=True)


def watch(process: UUID) -> Call[str]:
    """Look whether the process after this one, in the order of their ids, is still there."""
    return Call("lease_watch", {"process": process}, scalar, safe_to_repeat=True)


def end(process: UUID) -> Call[int]:
    """A process leaves in good order: what it owned is free at once."""
    return Call("lease_end", {"process": process}, scalar, safe_to_repeat=True)


def expire(process: UUID) -> Call[None]:
    """Let the lease of a process run out now, as that of one that died."""
    return Call("_lease_expire", {"process": process}, nothing, safe_to_repeat=True)


def default_name() -> str:
    """What a process is called in listings: program, host and pid."""
    program = Path(sys.argv[0] or "python").name
    return f"{program}@{socket.gethostname()}:{os.getpid()}"


class ProcessLease:
    """The lease of this process, held from the first `hold` until `close`.

    With a ``listener`` it is tied to the session of that, and the leases of others are watched.
    """

    def __init__(self, db: AsyncDb, *, name: str | None = None, listener: Listener | None = None):
        self.process = uuid4()
        self.name = name or default_name()
        self.presence = Presence(self.process)
        self._db = db
        self._listener = listener
        self._heard: Subscription | None = None
        self._departed: list[Callable[[], None]] = []
        self._renew_after = 0.0
        self._valid_until = 0.0
        self._owed: list[Call[None]] = []
        self._task: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()

    @property
    def valid_until(self) -> float:
        """Until when, on the monotonic clock, the last renewal keeps others from taking over."""
        return self._valid_until

    async def hold(self) -> UUID:
        """Take the lease if it is not held yet, and keep it; the id of this process."""
        async with self._starting:
            if self._task is None:
                await self.renew()
                self._task = asyncio.create_task(self._keep(), name="lease")
                if self._listener is not None:
                    self._heard = self._listener.subscribe("lease:", self._tell_departure)
                    self._listener.add(self._heard)
        return self.process

    async def attend(self, session: psycopg.AsyncConnection[Any]) -> float:
        """What the listener runs on its session: `Presence.attend`, while the lease is held."""
        return WATCH_EVERY if self._task is None else await self.presence.attend(session)

    @contextmanager
    def departures(self, tell: Callable[[], None]) -> Iterator[None]:
        """Call this inside the block when another process has died: its work is to be had."""
        self._departed.append(tell)
        try:
            yield
        finally:
            self._departed.remove(tell)

    def _tell_departure(self, key: str) -> None:
        if key and self._listener is not None:
            self._listener.wake()  # all look, and this is called again
            return
        for tell in self._departed:
            tell()

    async def leave(self, farewell: Call[None]) -> None:
        """Say that one who works here leaves: within seconds, or else before the next renewal.

        Whoever works in this process lives by its lease: one that left must not be kept alive.
        """
        try:
            async with asyncio.timeout(GOODBYE_WITHIN):
                await self._db.run(farewell)
        except NotFound:
            raise  # what was to be left is gone
        except TimeoutError:
            self._owed.append(farewell)
            raise Unavailable(f"the server did not answer in {GOODBYE_WITHIN:g} s.") from None
        except TrunklineError:
            self._owed.append(farewell)
            raise

    async def renew(self) -> None:
        """Renew now: after a long pause, before something is taken."""
        await self._say_farewells()
        began = time.monotonic()
        await self._db.run(renew(self.process, self.name))
        lasts = (await self._db.run(ttl())).total_seconds()
        self._renew_after = lasts / 3
        self._valid_until = began + lasts

    async def close(self) -> None:
        """End the lease, so that others need not wait for it. Safe to call twice."""
        task, self._task = self._task, None
        if task is None:
            return
        if self._listener is not None and self._heard is not None:
            self._listener.remove(self._heard)
        self.presence.forget()
        task.cancel()
        await asyncio.wait({task})
        with suppress(TrunklineError, TimeoutError):
            async with asyncio.timeout(GOODBYE_WITHIN):
                await self._db.run(end(self.process))

    async def _say_farewells(self) -> None:
        for farewell in [*self._owed]:
            try:
                await self._db.run(farewell)
            except NotFound:
                pass  # what was to be left is gone
            except Unavailable:
                raise
            except TrunklineError as error:
                logger.warning("not left yet", error=str(error))
                continue
            self._owed = [other for other in self._owed if other is not farewell]

    async def _keep(self) -> None:
        wait = self._renew_after
        while True:
            await asyncio.sleep(wait)
            try:
                await self.renew()
                wait = self._renew_after
            except TrunklineError as error:
                wait = _RETRY_EVERY
                logger.warning("lease not renewed", error=str(error))
