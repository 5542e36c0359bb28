"""How a `Call` is run on a connection, and what it raises."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.rows import DictRow, dict_row
from psycopg_pool import PoolClosed, PoolTimeout

from trunkline.core.errors import DatabaseError, Invalid, Unavailable, from_database
from trunkline.core.loaders import JsonTextLoader, UnreadLoader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trunkline.core.calls import Call

T = TypeVar("T")
AsyncDictCursor = psycopg.AsyncCursor[DictRow]
DictCursor = psycopg.Cursor[DictRow]


def insist_on_connection(on: Any, *, asynchronous: bool) -> None:
    """Refuse what no call can be run on; what stands for a blocking connection will do."""
    if asynchronous:
        fits = isinstance(on, psycopg.AsyncConnection)
    else:
        fits = hasattr(on, "cursor") and not isinstance(on, psycopg.AsyncConnection)
    if not fits:
        expected = "psycopg.AsyncConnection" if asynchronous else "psycopg.Connection"
        came = f"{type(on).__module__}.{type(on).__qualname__}"
        raise Invalid(
            f"a transaction to take part in is that of a {expected}, got {came}.",
            hint="SQLAlchemy has it as the driver_connection of its raw connection.",
        )


async def execute_async(connection: psycopg.AsyncConnection[Any], call: Call[T]) -> T:
    """Run a call on a connection of the caller's."""
    async with _cursor_async(connection, call) as cursor:
        if call.json_text or call.json_unread:
            loader = JsonTextLoader if call.json_text else UnreadLoader
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
            loader = JsonTextLoader if call.json_text else UnreadLoader
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


@contextmanager
def translated(connection: psycopg.BaseConnection[Any] | None = None) -> Iterator[None]:
    """Raise the error tree of `core.errors` instead of the driver's."""
    try:
        yield
    except PoolClosed as error:
        raise Unavailable("the connection is closed.") from error
    except PoolTimeout as error:
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
