"""Cursors that connections of ours keep for their calls.

A cursor finds out once for each type how it is sent and read. One that is made for every call finds
it out every time, which takes longer than the answer to a small call. It finds out once, too, how
the connection encodes text: where whoever it was lent to has changed that, it is of no use.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import DictRow, dict_row

if TYPE_CHECKING:
    from psycopg import AsyncConnection, Connection

DictCursor = psycopg.Cursor[DictRow]
AsyncDictCursor = psycopg.AsyncCursor[DictRow]

_ENCODING = b"client_encoding"


class KeptCursor(psycopg.Cursor[DictRow]):
    """Of whoever has the connection to himself; rows are dicts."""

    def __init__(self, connection: Connection[Any]):
        super().__init__(connection, row_factory=dict_row)

    @property
    def fits(self) -> bool:
        """Whether text is still encoded as when the connection was made."""
        return self._pgconn.parameter_status(_ENCODING) == b"UTF8"

    def forget(self) -> None:
        """Let go of the last answer, which may be large."""
        self._reset()
        self._tx.set_pgresult(None)


class AsyncKeptCursor(psycopg.AsyncCursor[DictRow]):
    """The asynchronous twin of `KeptCursor`."""

    def __init__(self, connection: AsyncConnection[Any]):
        super().__init__(connection, row_factory=dict_row)

    @property
    def fits(self) -> bool:
        """Whether text is still encoded as when the connection was made."""
        return self._pgconn.parameter_status(_ENCODING) == b"UTF8"

    def forget(self) -> None:
        """Let go of the last answer, which may be large."""
        self._reset()
        self._tx.set_pgresult(None)


class KeepingConnection(psycopg.Connection[Any]):
    """Otherwise as psycopg's."""

    @cached_property
    def kept_cursor(self) -> KeptCursor:
        """Not for two at once: the answer of one would be taken for that of the other."""
        return KeptCursor(self)
