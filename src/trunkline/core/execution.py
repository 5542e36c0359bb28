"""How a `Call` is run on a connection, and what it raises."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.pq import Format
from psycopg.rows import dict_row
from psycopg_pool import PoolClosed, PoolTimeout

from trunkline.core.errors import DatabaseError, Invalid, Unavailable, from_database
from trunkline.core.loaders import JsonTextLoader, UnreadLoader

if TYPE_CHECKING:
    from types import TracebackType

    from trunkline.core.calls import Call
    from trunkline.core.cursors import AsyncDictCursor, AsyncKeptCursor, DictCursor, KeptCursor

T = TypeVar("T")
_UNREADABLE = (
    psycopg.errors.InvalidDatetimeFormat,
    psycopg.errors.DatetimeFieldOverflow,
    psycopg.errors.IntervalFieldOverflow,
)
_FORMATS = {False: Format.TEXT, True: Format.BINARY}


async def execute_async(
    connection: psycopg.AsyncConnection[Any], call: Call[T], kept: AsyncKeptCursor | None = None
) -> T:
    """Run a call on a connection of the caller's; ``kept`` if nobody else runs one there."""
    if kept is None or call.json_text or call.json_unread or not kept.fits:
        async with _cursor_async(connection, call) as cursor:
            return await _answer_async(cursor, call)
    kept.format = _FORMATS[call.binary]
    try:
        return await _answer_async(kept, call)
    finally:
        kept.forget()


def execute(
    connection: psycopg.Connection[Any], call: Call[T], kept: KeptCursor | None = None
) -> T:
    """The blocking twin of `execute_async`."""
    if kept is None or call.json_text or call.json_unread or not kept.fits:
        with _cursor(connection, call) as cursor:
            return _answer(cursor, call)
    kept.format = _FORMATS[call.binary]
    try:
        return _answer(kept, call)
    finally:
        kept.forget()


async def _answer_async(cursor: AsyncDictCursor, call: Call[T]) -> T:
    try:
        await cursor.execute(call.statement(), call.values())
    except psycopg.errors.UndefinedFunction:
        call.refuse_too_large()
        raise
    except _UNREADABLE as error:
        call.refuse_unreadable(error)
        raise
    except psycopg.errors.ProgramLimitExceeded:
        if not _may_ask_otherwise(cursor.connection, call):
            raise
        call = replace(call, function=call.readable)
        await cursor.execute(call.statement(), call.values())
    return call.shape(await cursor.fetchall())


def _answer(cursor: DictCursor, call: Call[T]) -> T:
    try:
        cursor.execute(call.statement(), call.values())
    except psycopg.errors.UndefinedFunction:
        call.refuse_too_large()
        raise
    except _UNREADABLE as error:
        call.refuse_unreadable(error)
        raise
    except psycopg.errors.ProgramLimitExceeded:
        if not _may_ask_otherwise(cursor.connection, call):
            raise
        call = replace(call, function=call.readable)
        cursor.execute(call.statement(), call.values())
    return call.shape(cursor.fetchall())


def _cursor_async(connection: psycopg.AsyncConnection[Any], call: Call[Any]) -> AsyncDictCursor:
    """A cursor that takes our placeholders, whatever those of the connection take."""
    if issubclass(connection.cursor_factory, psycopg.AsyncRawCursor):
        cursor = psycopg.AsyncCursor(connection, row_factory=dict_row)
        cursor.format = _FORMATS[call.binary]
    else:
        cursor = connection.cursor(row_factory=dict_row, binary=call.binary)
    _read_json_as_asked(cursor, call)
    return cursor


def _cursor(connection: psycopg.Connection[Any], call: Call[Any]) -> DictCursor:
    """The blocking twin of `_cursor_async`."""
    if issubclass(connection.cursor_factory, psycopg.RawCursor):
        cursor = psycopg.Cursor(connection, row_factory=dict_row)
        cursor.format = _FORMATS[call.binary]
    else:
        cursor = connection.cursor(row_factory=dict_row, binary=call.binary)
    _read_json_as_asked(cursor, call)
    return cursor


def _read_json_as_asked(cursor: AsyncDictCursor | DictCursor, call: Call[Any]) -> None:
    if call.json_text or call.json_unread:
        loader = JsonTextLoader if call.json_text else UnreadLoader
        cursor.adapters.register_loader("jsonb", loader)


def _may_ask_otherwise(connection: psycopg.BaseConnection[Any], call: Call[Any]) -> bool:
    """Whether the call has another form, and the failure of the first has ended no transaction."""
    idle = connection.info.transaction_status is psycopg.pq.TransactionStatus.IDLE
    return idle and call.readable != ""


class _Translated:
    """A class, for every call passes through it: a generator would take thrice as long."""

    __slots__ = ("_connection",)

    def __init__(self, connection: psycopg.BaseConnection[Any] | None):
        self._connection = connection

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            _raise_as_ours(error, self._connection)


def translated(connection: psycopg.BaseConnection[Any] | None = None) -> _Translated:
    """Raise the error tree of `core.errors` instead of the driver's."""
    return _Translated(connection)


def _raise_as_ours(error: BaseException, connection: psycopg.BaseConnection[Any] | None) -> None:
    """Raise what stands for an error of the driver's; all others go on as they are."""
    match error:
        case PoolClosed():
            raise Unavailable("the connection is closed.") from error
        case PoolTimeout():
            raise Unavailable(f"no connection to the server: {error}") from error
        case UnicodeEncodeError():
            raise Invalid(f"text must be Unicode, got {error.object!r:.100}.") from error
        case NotImplementedError():  # times in a style of the server that the driver lacks
            raise DatabaseError(
                f"{error}.",
                hint="For the role of Trunkline: alter role ... set datestyle = 'ISO', and set"
                " intervalstyle = 'postgres'.",
            ) from error
        case psycopg.Error():
            raise from_database(error, role=_role(connection)) from error


def _role(connection: psycopg.BaseConnection[Any] | None) -> str | None:
    """The role in which a connection works, if it is still open."""
    if connection is None or connection.closed:
        return None
    acting: str | None = getattr(connection, "acting_role", None)
    return acting or connection.info.parameter_status("session_authorization")
