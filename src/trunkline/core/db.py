"""`AsyncDb` and `Db`: the only places that open connections and run `Call` values.

A call that is safe to repeat (it only reads, or carries an idempotence key) is tried again with
back-off while the server is away; any other call that loses its connection raises `Unavailable`,
because nobody can know whether it took effect. One that was rolled back because it met another (a
deadlock, a serialisation failure) is tried again too: nothing of it was done.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.rows import dict_row

from trunkline.core.backoff import Backoff
from trunkline.core.callers import insist_on_connection
from trunkline.core.connections import (
    connect_arguments,
    hung_up,
    is_spoilt_by,
    keep_freed_memory,
    on_our_terms,
    on_our_terms_async,
)
from trunkline.core.cursors import KeepingConnection
from trunkline.core.eager import EagerConnection
from trunkline.core.errors import BadRequest, DatabaseError, Unavailable, is_clash
from trunkline.core.execution import execute, execute_async, translated
from trunkline.core.forking import is_forked, refuse_forked
from trunkline.core.pipeline import Pipeline
from trunkline.core.pools import AsyncPool, Pool
from trunkline.core.waiting import cancelled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from trunkline.core.calls import Call

T = TypeVar("T")


class AsyncDb:
    """A pool of connections that runs calls; for clients, services and the gateway."""

    def __init__(
        self,
        dsn: str,
        *,
        pool_max: int = 10,
        prepare: bool = True,
        connect_timeout: float = 10,
        patience: float = 30,
    ):
        self.dsn = dsn
        self._patience = patience
        self._arguments = connect_arguments(dsn, prepare=prepare, connect_timeout=connect_timeout)
        self._connect_timeout = connect_timeout
        self._pool = AsyncPool(
            dsn,
            connection_class=EagerConnection,
            min_size=0,
            max_size=pool_max,
            open=False,
            kwargs=self._arguments,
            configure=on_our_terms_async if prepare else None,
            timeout=connect_timeout,
            reconnect_timeout=connect_timeout,
        )
        self._opening = asyncio.Lock()
        self._opened = False
        self._alone: list[AsyncDb] = []
        self._process = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def connections_made(self) -> int:
        """How often the pool has connected: behind another connection may be another server."""
        return self._pool.get_stats().get("connections_num", 0)

    def alone(self) -> AsyncDb:
        """The same database over one connection of its own, closed with this.

        For what asks the same again and again: a pool lends its connections in turn, and each of
        them would plan the same statements anew.
        """
        one = AsyncDb(
            self.dsn,
            pool_max=1,
            prepare=self.prepares,
            connect_timeout=self._connect_timeout,
            patience=self._patience,
        )
        self._alone.append(one)
        return one

    async def run(
        self,
        call: Call[T],
        *,
        on: psycopg.AsyncConnection[Any] | None = None,
        then: Call[Any] | None = None,
    ) -> T:
        """Run one call, in a transaction of its own or in the caller's (``on``).

        ``then`` follows on the same connection; if that breaks in between, both are repeated.
        """
        if on is not None:
            insist_on_connection(on, asynchronous=True)
            with translated(on):
                return await execute_async(on, call)
        waits = Backoff(first=0.05, longest=2.0)
        give_up = time.monotonic() + self._patience
        while True:
            try:
                async with self.connection() as connection:
                    with translated(connection):
                        answer = await execute_async(connection, call, connection.kept_cursor)
                        if then is not None:
                            await execute_async(connection, then, connection.kept_cursor)
                        return answer
            except Unavailable:
                closed = self._opened and self._pool.closed
                if closed or not call.safe_to_repeat or time.monotonic() > give_up:
                    raise
            except DatabaseError as error:
                whole = then is None or call.safe_to_repeat  # else the first may be done
                if not (is_clash(error) and whole) or time.monotonic() > give_up:
                    raise
            await asyncio.sleep(waits.next())

    async def run_after(self, first: Call[Any], call: Call[T]) -> T:
        """Run two calls in one transaction and one message; the answer of the second."""
        async with self.connection() as connection:
            with translated(connection):
                cursor = psycopg.AsyncClientCursor(connection, row_factory=dict_row)
                await cursor.execute(
                    first.statement() + b"; " + call.statement(), first.values() + call.values()
                )
                cursor.nextset()
                return call.shape(await cursor.fetchall())

    @asynccontextmanager
    async def pipeline(self) -> AsyncIterator[Pipeline]:
        """Lend a connection for calls that do not wait for each other's answers."""
        async with self.connection() as connection, Pipeline(connection) as pipeline:
            yield pipeline

    @property
    def crowded(self) -> bool:
        """Whether somebody waits for a connection."""
        return self._pool.crowded

    @property
    def prepares(self) -> bool:
        """Whether a session is ours alone; not behind a transaction pooler."""
        return self._arguments["prepare_threshold"] is not None

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[EagerConnection]:
        """Lend a connection in autocommit mode; what runs on it raises the driver's errors."""
        self._refuse_elsewhere()
        with translated():
            if not self._opened:
                await self._open()
            while hung_up(connection := await self._lend()):
                await connection.close()
                await self._pool.putconn(connection)
        try:
            yield connection
        except Exception as error:
            if is_spoilt_by(error):
                await connection.close()
            raise
        finally:
            await self._pool.putconn(connection)

    async def _open(self) -> None:
        async with self._opening:
            if not self._opened:
                keep_freed_memory()
                self._loop = asyncio.get_running_loop()
                await self._pool.open()
                self._opened = True

    def _refuse_elsewhere(self) -> None:
        """What keeps the pool runs in the loop that opened it, which has perhaps ended."""
        refuse_forked(self._process)
        if self._loop not in (None, asyncio.get_running_loop()):
            raise BadRequest(
                "this connection belongs to another event loop.",
                hint="Connect, work and close within one asyncio.run(), or use connect_sync().",
            )

    async def _lend(self) -> EagerConnection:
        """A connection of the pool.

        The pool waits with `asyncio.wait_for`, in which Python 3.11 forgets a cancellation that
        comes together with the connection; here it is remembered.
        """
        task = asyncio.current_task()
        before = task.cancelling() if task else 0
        connection = await self._pool.getconn()
        if task and task.cancelling() > before:
            await self._pool.putconn(connection)
            await cancelled()
        return connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[EagerConnection]:
        """Lend a connection inside a transaction that commits at the end of the block."""
        async with self.connection() as connection, connection.transaction():
            yield connection

    async def connect(self) -> psycopg.AsyncConnection[Any]:
        """Open a connection outside of the pool; the caller closes it."""
        with translated():
            return await EagerConnection.connect(self.dsn, **self._arguments)

    async def close(self) -> None:
        """Close the pool for good; safe to call twice. A forked child leaves it to its parent."""
        if is_forked(self._process):
            return
        self._refuse_elsewhere()
        self._opened = True  # or the next call would open it
        for one in self._alone:
            await one.close()
        await self._pool.close()


class SparingDb(AsyncDb):
    """The pool of another, of which it uses ``most`` connections at once.

    For crowds: however many wait here, the others' turn comes as if there were only so many.
    """

    def __init__(self, db: AsyncDb, most: int):
        self.dsn = db.dsn
        self._db = db
        self._free = asyncio.Semaphore(most)

    @property
    def connections_made(self) -> int:
        return self._db.connections_made

    @property
    def crowded(self) -> bool:
        return self._free.locked() or self._db.crowded

    @property
    def prepares(self) -> bool:
        return self._db.prepares

    async def run(
        self,
        call: Call[T],
        *,
        on: psycopg.AsyncConnection[Any] | None = None,
        then: Call[Any] | None = None,
    ) -> T:
        if on is not None:
            return await self._db.run(call, on=on, then=then)
        async with self._free:
            return await self._db.run(call, then=then)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[EagerConnection]:
        async with self._free, self._db.connection() as connection:
            yield connection

    async def connect(self) -> psycopg.AsyncConnection[Any]:
        return await self._db.connect()

    async def close(self) -> None:
        """Nothing: the connections are the other's."""


class Db:
    """The blocking twin of `AsyncDb`; for scripts and Spark executors."""

    def __init__(
        self,
        dsn: str,
        *,
        pool_max: int = 4,
        prepare: bool = True,
        connect_timeout: float = 10,
        patience: float = 30,
    ):
        self.dsn = dsn
        self._patience = patience
        self._pool = Pool(
            dsn,
            connection_class=KeepingConnection,
            min_size=0,
            max_size=pool_max,
            open=False,
            kwargs=connect_arguments(dsn, prepare=prepare, connect_timeout=connect_timeout),
            configure=on_our_terms if prepare else None,
            timeout=connect_timeout,
            reconnect_timeout=connect_timeout,
        )
        self._opening = threading.Lock()
        self._opened = False
        self._process = os.getpid()

    def run(self, call: Call[T], *, on: psycopg.Connection[Any] | None = None) -> T:
        """Run one call, in a transaction of its own or in the caller's (``on``)."""
        if on is not None:
            insist_on_connection(on, asynchronous=False)
            with translated(on):
                return execute(on, call)
        waits = Backoff(first=0.05, longest=2.0)
        give_up = time.monotonic() + self._patience
        while True:
            try:
                with self.connection() as connection, translated(connection):
                    return execute(connection, call, connection.kept_cursor)
            except Unavailable:
                closed = self._opened and self._pool.closed
                if closed or not call.safe_to_repeat or time.monotonic() > give_up:
                    raise
            except DatabaseError as error:
                if not is_clash(error) or time.monotonic() > give_up:
                    raise
            time.sleep(waits.next())

    @contextmanager
    def connection(self) -> Iterator[KeepingConnection]:
        """Lend a connection in autocommit mode; what runs on it raises the driver's errors."""
        refuse_forked(self._process)
        with translated():
            if not self._opened:
                self._open()
            connection = self._lend()
        try:
            yield connection
        except Exception as error:
            if is_spoilt_by(error):
                connection.close()
            raise
        finally:
            self._pool.putconn(connection)

    def _open(self) -> None:
        with self._opening:
            if not self._opened:
                keep_freed_memory()
                self._pool.open()
                self._opened = True

    def _lend(self) -> KeepingConnection:
        while True:
            connection = self._pool.getconn()
            try:
                gone = hung_up(connection)
            except BaseException:  # control-C: the pool shall not have one less
                self._pool.putconn(connection)
                raise
            if not gone:
                return connection
            connection.close()
            self._pool.putconn(connection)

    @contextmanager
    def transaction(self) -> Iterator[KeepingConnection]:
        """Lend a connection inside a transaction that commits at the end of the block."""
        with self.connection() as connection, connection.transaction():
            yield connection

    def close(self) -> None:
        """Close the pool for good; safe to call twice."""
        self._opened = True  # or the next call would open it
        self._pool.close()
