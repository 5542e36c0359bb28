"""Presence: the session of a process says that it is there, and sees when others are gone.

A lease that is not renewed ends after ``lease.ttl``. A process that is killed loses its sessions at
once, so one of them (that of the `Listener`) holds an advisory lock, and the lease is tied to it.
Every process tries, once a second, whether the lock of the next one is free.

Behind a pooler a session belongs to others too, and nothing is tied to it: leases end by time. So
they do when the server cannot see that a process is gone: suspended, or cut off by the network.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any

import psycopg

from trunkline.core import telemetry
from trunkline.core.connections import connect_arguments, hung_up
from trunkline.core.errors import is_disconnect

if TYPE_CHECKING:
    from uuid import UUID

WATCH_EVERY = 1.0  # seconds
_MISSING = 0.8  # seconds until another look at one whose session has ended

_PID = "select pg_backend_pid()"
_LOCK = "select pg_try_advisory_lock(trunkline.lease_key(%s))"
_ATTEND = "select trunkline.lease_attend(%s, %s)"
_WATCH = "select trunkline.lease_watch(%s)"

Session = psycopg.AsyncConnection[Any]

logger = telemetry.get_logger(__name__)


class Presence:
    """Ties the lease of a process to a session; `attend` is called on it again and again."""

    def __init__(self, process: UUID):
        self._process = process
        self._session: Session | None = None
        self._is_ours = False
        self._is_tied = False

    @property
    def is_tied(self) -> bool:
        """Whether the lease ends with the session."""
        return self._is_tied

    def forget(self) -> None:
        """Start over with the next session."""
        self._session = None
        self._is_tied = False

    async def attend(self, session: Session) -> float:
        """Hold the lock of the process, look after others; in how many seconds to do so again."""
        try:
            if session is not self._session:
                await self._begin(session)
            elif self._is_ours and not self._is_tied:
                await self._tie(session)
            answer = await _ask(session, _WATCH, self._process)
        except psycopg.Error as error:
            if is_disconnect(error) or session.closed:
                raise
            logger.info("no watch over other processes", error=str(error))
            return math.inf
        return _MISSING if answer == "missing" else WATCH_EVERY

    async def _begin(self, session: Session) -> None:
        self._is_ours = await _ask(session, _PID) == session.info.backend_pid
        self._is_tied = False
        if not self._is_ours:
            logger.info("the session is a pooler's: a process that dies is noticed after lease.ttl")
        elif not await self._tie(session):
            await _ask(session, _ATTEND, self._process, session.info.backend_pid)
        self._session = session

    async def _tie(self, session: Session) -> bool:
        """Take the lock, unless a session that this process has lost still holds it."""
        if await _ask(session, _LOCK, self._process):
            backend = session.info.backend_pid
            self._is_tied = await _ask(session, _ATTEND, self._process, backend)
        return self._is_tied


class Tie:
    """Ties the lease of a process to a session of its own; for blocking code."""

    def __init__(self, dsn: str, process: UUID):
        self._dsn = dsn
        self._process = process
        self._session: psycopg.Connection[Any] | None = None
        self._is_due = True

    def hold(self) -> None:
        """Connect if the session is gone, and take the lock; call it twice a second."""
        try:
            if self._session is None or hung_up(self._session):
                self.close()
                arguments = connect_arguments(self._dsn, prepare=False, connect_timeout=5)
                self._session = psycopg.connect(self._dsn, **arguments)
                (backend,) = self._session.execute(_PID).fetchone() or (0,)
                self._is_due = backend == self._session.info.backend_pid
            if self._is_due:
                self._session.execute(_LOCK.encode(), [self._process])
                values = [self._process, self._session.info.backend_pid]
                tied = self._session.execute(_ATTEND.encode(), values).fetchone()
                self._is_due = tied != (True,)
        except psycopg.Error as error:
            logger.info("the lease is not tied to a session", error=str(error))

    def close(self) -> None:
        """Let go of the session."""
        if self._session is not None:
            self._session.close()


async def _ask(session: Session, statement: str, *values: Any) -> Any:
    async with asyncio.timeout(10):
        row = await (await session.execute(statement.encode(), values)).fetchone()
    return row[0] if row else None
