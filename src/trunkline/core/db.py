"""`AsyncDb` and `Db`: the only places that open connections and run `Call` values.

A call that is safe to repeat (it only reads, or carries an idempotence key) is tried again with
back-off while the server is away; any other call that loses its connection raises `Unavailable`,
because nobody can know whether it took effect. One that was rolled back because it met another (a
deadlock, a serialisation failure) is tried again too: nothing of it was done.
"""

from __future__ import annotations

import asyncio
import os
import select
import threading
import time
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import DictRow, dict_row
from psycopg.types.string import TextLoader
from psycopg_pool import PoolClosed, PoolTimeout

from trunkline.core.backoff import Backoff
from trunkline.core.eager import EagerConnection
from trunkline.core.errors import (
    ONLY_READS,
    DatabaseError,
    Invalid,
    Unavailable,
    from_database,
    is_clash,
)
from trunkline.core.forking import refuse_forked
from trunkline.core.pools import AsyncPool, Pool
from trunkline.core.unread import UnreadLoader

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from trunkline.core.calls import Call

T = TypeVar("T")
AsyncDictCursor = psycopg.AsyncCursor[DictRow]
DictCursor = psycopg.Cursor[DictRow]

APPLICATION_NAME = "trunkline"

_LARGE_ANSWER = 8 << 20
_OUR_TERMS = (
    b"select set_config(name, value, false) from (values"
    b" ('default_transaction_isolation', 'read committed'), ('datestyle', 'iso'),"
    b" ('intervalstyle', 'postgres'), ('standard_conforming_strings', 'on'), ('array_nulls', 'on'))"
    b" wanted (name, value)"
    b" where split_part(lower(current_setting(name)), ',', 1) <> value"
)


# A host that is gone says nothing: for 15 minutes if something was sent, else for two hours.
_GIVE_UP = {
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}


def connect_arguments(dsn: str, *, prepare: bool, connect_timeout: float) -> dict[str, Any]:
    """Keyword arguments that every connection of ours is opened with; what a DSN says stays."""
    said = conninfo_to_dict(dsn)
    return {
        **{name: value for name, value in _GIVE_UP.items() if name not in said},
        "autocommit": True,
        "prepare_threshold": 5 if prepare else None,
        "connect_timeout": max(1, int(connect_timeout)),
        "fallback_application_name": APPLICATION_NAME,
        "client_encoding": "UTF8",  # whatever PGCLIENTENCODING or the role say
    }


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

    @property
    def connections_made(self) -> int:
        """How often the pool has connected: behind another connection may be another server."""
        return self._pool.get_stats().get("connections_num", 0)

    def alone(self) -> AsyncDb:
        """The same database over one connection of its own, closed with this.

        For what asks the same again and again: a pool lends its connections in turn, and each of
        them would plan the same statements anew.
        """
        prepare = self._arguments["prepare_threshold"] is not None
        one = AsyncDb(
            self.dsn,
            pool_max=1,
            prepare=prepare,
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
                        answer = await execute_async(connection, call)
                        if then is not None:
                            await execute_async(connection, then)
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
    async def connection(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """Lend a connection in autocommit mode; what runs on it raises the driver's errors."""
        with translated():
            async with self._opening:
                if not self._opened:
                    keep_freed_memory()
                    await self._pool.open()
                    self._opened = True
            while hung_up(connection := await self._lend()):
                await connection.close()
                await self._pool.putconn(connection)
        try:
            yield connection
        except Exception as error:
            if takes_only_reads(error):
                await connection.close()
            raise
        finally:
            await self._pool.putconn(connection)

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
            raise asyncio.CancelledError
        return connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """Lend a connection inside a transaction that commits at the end of the block."""
        async with self.connection() as connection, connection.transaction():
            yield connection

    async def connect(self) -> psycopg.AsyncConnection[Any]:
        """Open a connection outside of the pool; the caller closes it."""
        with translated():
            return await EagerConnection.connect(self.dsn, **self._arguments)

    async def close(self) -> None:
        """Close the pool for good; safe to call twice."""
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
    async def connection(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
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
                    return execute(connection, call)
            except Unavailable:
                closed = self._opened and self._pool.closed
                if closed or not call.safe_to_repeat or time.monotonic() > give_up:
                    raise
            except DatabaseError as error:
                if not is_clash(error) or time.monotonic() > give_up:
                    raise
            time.sleep(waits.next())

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        """Lend a connection in autocommit mode; what runs on it raises the driver's errors."""
        refuse_forked(self._process)
        with translated():
            with self._opening:
                if not self._opened:
                    keep_freed_memory()
                    self._pool.open()
                    self._opened = True
            while hung_up(connection := self._pool.getconn()):
                connection.close()
                self._pool.putconn(connection)
        try:
            yield connection
        except Exception as error:
            if takes_only_reads(error):
                connection.close()
            raise
        finally:
            self._pool.putconn(connection)

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """Lend a connection inside a transaction that commits at the end of the block."""
        with self.connection() as connection, connection.transaction():
            yield connection

    def close(self) -> None:
        """Close the pool for good; safe to call twice."""
        self._opened = True  # or the next call would open it
        self._pool.close()


async def on_our_terms_async(connection: psycopg.AsyncConnection[Any]) -> None:
    """Whatever the defaults are: statements see what is committed, the driver can read times,
    a backslash is a backslash, and a null in a list is a null.

    Not behind a transaction pooler, that is, where nothing is prepared: its sessions are others'
    too.
    """
    await connection.execute(_OUR_TERMS)


def on_our_terms(connection: psycopg.Connection[Any]) -> None:
    """The blocking twin of `on_our_terms_async`."""
    connection.execute(_OUR_TERMS)


def insist_on_connection(on: Any, *, asynchronous: bool) -> None:
    """Refuse what no call can be run on; what stands for a blocking connection will do."""
    if asynchronous:
        fits = isinstance(on, psycopg.AsyncConnection)
    else:
        fits = hasattr(on, "cursor") and not isinstance(on, psycopg.AsyncConnection)
    if not fits:
        expected = "psycopg.AsyncConnection" if asynchronous else "psycopg.Connection"
        raise Invalid(
            f"a transaction to take part in is that of a {expected}, got {type(on).__name__}.",
            hint="SQLAlchemy has it as the driver_connection of its raw connection.",
        )


async def execute_async(connection: psycopg.AsyncConnection[Any], call: Call[T]) -> T:
    """Run a call on a connection of the caller's."""
    async with _cursor_async(connection, call) as cursor:
        if call.json_text or call.json_unread:
            loader = TextLoader if call.json_text else UnreadLoader
            cursor.adapters.register_loader("jsonb", loader)
        try:
            await cursor.execute(call.statement(), call.values())
        except psycopg.errors.UndefinedFunction:
            call.refuse_too_large()
            raise
        except psycopg.errors.ProgramLimitExceeded:
            if not _may_ask_otherwise(connection, call):
                raise
            call = replace(call, function=call.readable)
            await cursor.execute(call.statement(), call.values())
        return call.shape(await cursor.fetchall())


def execute(connection: psycopg.Connection[Any], call: Call[T]) -> T:
    """The blocking twin of `execute_async`."""
    with _cursor(connection, call) as cursor:
        if call.json_text or call.json_unread:
            loader = TextLoader if call.json_text else UnreadLoader
            cursor.adapters.register_loader("jsonb", loader)
        try:
            cursor.execute(call.statement(), call.values())
        except psycopg.errors.UndefinedFunction:
            call.refuse_too_large()
            raise
        except psycopg.errors.ProgramLimitExceeded:
            if not _may_ask_otherwise(connection, call):
                raise
            call = replace(call, function=call.readable)
            cursor.execute(call.statement(), call.values())
        return call.shape(cursor.fetchall())


def _cursor_async(connection: psycopg.AsyncConnection[Any], call: Call[Any]) -> AsyncDictCursor:
    """A cursor that takes our placeholders, whatever those of the connection take."""
    if issubclass(connection.cursor_factory, psycopg.AsyncRawCursor):
        cursor = psycopg.AsyncCursor(connection, row_factory=dict_row)
        cursor.format = psycopg.pq.Format(call.binary)
        return cursor
    return connection.cursor(row_factory=dict_row, binary=call.binary)


def _cursor(connection: psycopg.Connection[Any], call: Call[Any]) -> DictCursor:
    """The blocking twin of `_cursor_async`."""
    if issubclass(connection.cursor_factory, psycopg.RawCursor):
        cursor = psycopg.Cursor(connection, row_factory=dict_row)
        cursor.format = psycopg.pq.Format(call.binary)
        return cursor
    return connection.cursor(row_factory=dict_row, binary=call.binary)


def _may_ask_otherwise(connection: psycopg.BaseConnection[Any], call: Call[Any]) -> bool:
    """Whether the call has another form, and the failure of the first has ended no transaction."""
    idle = connection.info.transaction_status is psycopg.pq.TransactionStatus.IDLE
    return idle and call.readable != ""


def keep_freed_memory() -> None:
    """Let the next large answer find its memory where the last one left it.

    The allocator of glibc gives what is freed back to the system above a limit, twice the size of
    the largest block that it has seen come and go. Answers are many blocks of less than that, and
    to have their memory mapped anew each time costs as much as to receive them.
    """
    bytes(_LARGE_ANSWER)


def hung_up(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """Whether the server left while the connection was idle; asks the socket, not the server."""
    if connection.closed or not hasattr(select, "poll"):
        return connection.closed
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))  # nobody speaks on an idle connection but to say goodbye


def takes_only_reads(error: Exception) -> bool:
    """Whether a write was refused as such: by a standby, or where the role or database says so.

    A session stays so for its whole life; the next one may be with another server, or find it
    otherwise.
    """
    return isinstance(error, psycopg.Error | DatabaseError) and error.sqlstate == ONLY_READS


@contextmanager
def translated(connection: psycopg.BaseConnection[Any] | None = None) -> Iterator[None]:
    """Raise the error tree of `core.errors` instead of the driver's."""
    try:
        yield
    except (PoolTimeout, PoolClosed) as error:
        raise Unavailable(f"no connection to the server: {error}") from error
    except UnicodeEncodeError as error:
        raise Invalid(f"text must be Unicode, got {error.object!r:.100}.") from error
    except NotImplementedError as error:  # times in a style of the server that the driver lacks
        raise DatabaseError(
            f"{error}.",
            hint="For the role of Trunkline: alter role ... set datestyle = 'ISO', and set"
            " intervalstyle = 'postgres'.",
        ) from error
    except psycopg.Error as error:
        raise from_database(error, role=_role(connection)) from error


def _role(connection: psycopg.BaseConnection[Any] | None) -> str | None:
    """Whom a connection belongs to, if it is still there to say so."""
    if connection is None or connection.closed:
        return None
    return connection.info.parameter_status("session_authorization")
