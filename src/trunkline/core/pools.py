"""Pools that lend the connection again that came back last, look often for a lost server, and say
why they have none.

psycopg's lend in turn: a session that has just worked has its plans and the server's caches at
hand, and what is not lent for a while is closed. They wait one second, then two, then four before
they try again to connect: a server that restarts is back long before the next try. Why they could
not connect they tell the log, not who waits.
"""

from __future__ import annotations

import asyncio
from typing import Any

from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolTimeout
from psycopg_pool.pool import ReturnConnection, WaitingClient
from psycopg_pool.pool_async import StopWorker

from trunkline.core.backoff import Backoff
from trunkline.core.cursors import KeepingConnection
from trunkline.core.eager import EagerConnection


class Attempt:
    """One connection's tries, in the words of psycopg's pools."""

    def __init__(self, patience: float):
        self.delay = 0.0
        self._waits = Backoff(first=0.1, longest=1.0)
        self._patience = patience
        self._give_up_at: float | None = None

    def update_delay(self, now: float) -> None:
        """It failed: ``delay`` is how long to wait now."""
        if self._give_up_at is None:
            self._give_up_at = now + self._patience
        self.delay = self._waits.next()

    def time_to_give_up(self, now: float) -> bool:
        """Whether the patience has ended, counted from the first failure."""
        return self._give_up_at is not None and now >= self._give_up_at


class AsyncPool(AsyncConnectionPool[EagerConnection]):
    """Otherwise as psycopg's."""

    _trouble: Exception | None = None

    @property
    def crowded(self) -> bool:
        """Whether somebody waits for a connection."""
        return bool(self._waiting)

    async def getconn(self, timeout: float | None = None) -> EagerConnection:
        """A connection; whoever waited in vain is told why the last try to connect failed."""
        try:
            return await super().getconn(timeout)
        except PoolTimeout as error:
            raise _told(error, self._trouble) from self._trouble

    async def putconn(self, conn: EagerConnection) -> None:
        """Take a connection back; whoever is cancelled meanwhile has given it back all the same."""
        giving = super().putconn(conn)
        if self.crowded or self._lock.locked():
            await asyncio.shield(asyncio.create_task(giving))
        else:
            await giving

    async def _connect(self, timeout: float | None = None) -> EagerConnection:
        try:
            connection = await super()._connect(timeout)
        except Exception as error:
            self._trouble = error
            raise
        self._trouble = None
        return connection

    async def _get_ready_connection(self, timeout: float | None) -> EagerConnection | None:
        self._pool.rotate(1)
        return await super()._get_ready_connection(timeout)

    async def _add_connection(self, attempt: Any, *rest: Any, **named: Any) -> None:
        attempt = attempt or Attempt(self.reconnect_timeout)
        await super()._add_connection(attempt, *rest, **named)
        worker = asyncio.current_task()
        if worker and worker.cancelling():  # by a loop that ends: psycopg's would go on for ever
            self.run_task(StopWorker(self))

    async def _signal_stop_worker(self) -> list[asyncio.Task[None]]:
        # A loop that ends has cancelled them: who closes the pool then must not be cancelled too.
        workers = await super()._signal_stop_worker()
        return [worker for worker in workers if not worker.cancelling()]


class Pool(ConnectionPool[KeepingConnection]):
    """Otherwise as psycopg's."""

    _trouble: Exception | None = None

    def getconn(self, timeout: float | None = None) -> KeepingConnection:
        """The blocking twin of `AsyncPool.getconn`."""
        try:
            return super().getconn(timeout)
        except PoolTimeout as error:
            raise _told(error, self._trouble) from self._trouble

    def _getconn_unchecked(self, timeout: float) -> KeepingConnection:
        """As psycopg's, but who is interrupted leaves the queue: no connection shall go there."""
        with self._lock:
            if not (connection := self._get_ready_connection(timeout)):
                place: WaitingClient[KeepingConnection] = WaitingClient()
                self._waiting.append(place)
                self._maybe_grow_pool()
        if not connection:
            try:
                connection = place.wait(timeout)
            except BaseException as error:
                place.fail(PoolTimeout(repr(error)))
                if place.conn:
                    self.run_task(ReturnConnection(self, place.conn, from_getconn=True))
                raise
        connection._pool = self  # noqa: SLF001 - as psycopg's does, which takes back no other
        return connection

    def _connect(self, timeout: float | None = None) -> KeepingConnection:
        try:
            connection = super()._connect(timeout)
        except Exception as error:
            self._trouble = error
            raise
        self._trouble = None
        return connection

    def _get_ready_connection(self, timeout: float | None) -> KeepingConnection | None:
        self._pool.rotate(1)
        return super()._get_ready_connection(timeout)

    def _add_connection(self, attempt: Any, *rest: Any, **named: Any) -> None:
        attempt = attempt or Attempt(self.reconnect_timeout)
        super()._add_connection(attempt, *rest, **named)


def _told(error: PoolTimeout, trouble: Exception | None) -> PoolTimeout:
    """Without trouble every connection was lent."""
    return error if trouble is None else PoolTimeout(f"{error}: {trouble}")
