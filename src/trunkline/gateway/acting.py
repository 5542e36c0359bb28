"""`ActingDb`: the database as whoever asks may use it.

Every call is a transaction in the role that the token names, with the settings that come from its
claims. So Postgres' own grants decide, and the rights of the gateway are nobody's: it needs no more
than membership in the roles that it becomes.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from trunkline.core.acting import acting_as
from trunkline.core.backoff import Backoff
from trunkline.core.db import AsyncDb
from trunkline.core.errors import (
    ONLY_READS,
    BadRequest,
    DatabaseError,
    TrunklineError,
    Unavailable,
    is_clash,
    is_shortage,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    import psycopg

    from trunkline.core.calls import Call
    from trunkline.core.eager import EagerConnection
    from trunkline.gateway.auth import Identity

T = TypeVar("T")

_PATIENCE = 5.0  # seconds for a server that is away: whoever asked waits with us
_OUT_OF_TIME = "57014"
_TOO_LARGE = "54000"


class ActingDb(AsyncDb):
    """The pool of another, whose connections act as somebody; ``within`` so many seconds."""

    def __init__(self, db: AsyncDb, identity: Identity, *, within: float):
        self.dsn = db.dsn
        self.identity = identity
        self._db = db
        self._settings = {"statement_timeout": f"{within * 1000:.0f}", **identity.settings}

    @property
    def connections_made(self) -> int:
        return self._db.connections_made

    @property
    def crowded(self) -> bool:
        return self._db.crowded

    @property
    def prepares(self) -> bool:
        """No: a session is ours for a transaction, and nothing may outlive that."""
        return False

    async def run(
        self,
        call: Call[T],
        *,
        on: psycopg.AsyncConnection[Any] | None = None,
        then: Call[Any] | None = None,
    ) -> T:
        """Run one call as whoever asks; what was rolled back for another's sake is tried again."""
        if on is not None:
            return await self._db.run(call, on=on)
        waits = Backoff(first=0.02, longest=1.0)
        give_up = time.monotonic() + _PATIENCE
        while True:
            try:
                return await self._run(call, then)
            except Unavailable:
                if not call.safe_to_repeat or time.monotonic() > give_up:
                    raise
            except DatabaseError as error:
                if error.sqlstate == _TOO_LARGE and call.readable:
                    call = replace(call, function=call.readable, readable="")
                    continue
                whole = then is None or call.safe_to_repeat  # else the first may be done
                if not (is_clash(error) and whole) or time.monotonic() > give_up:
                    raise self._told(error) from error
            await asyncio.sleep(waits.next())

    async def _run(self, call: Call[T], then: Call[Any] | None) -> T:
        async with self._db.connection() as connection:
            async with self._as_somebody(connection):
                answer = await self._db.run(call, on=connection)
            if then is not None:
                async with self._as_somebody(connection):
                    await self._db.run(then, on=connection)
            return answer

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[EagerConnection]:
        """Lend a connection inside a transaction of whoever asks."""
        try:
            async with self._db.connection() as connection, self._as_somebody(connection):
                yield connection
        except DatabaseError as error:
            raise self._told(error) from error

    def _as_somebody(self, connection: EagerConnection) -> AbstractAsyncContextManager[None]:
        return acting_as(connection, self.identity.role, self._settings)

    def _told(self, error: DatabaseError) -> TrunklineError:
        """What nobody's value is at fault for, as a matter of the moment."""
        if error.sqlstate == _OUT_OF_TIME:
            return Unavailable(
                "the database took too long for this.", hint="Ask for less, or try again later."
            )
        if is_clash(error) or is_shortage(error) or error.sqlstate == ONLY_READS:
            return Unavailable(error.message, hint=error.hint or "Try again later.")
        return error

    async def connect(self) -> psycopg.AsyncConnection[Any]:
        """Refused: a connection of its own would be the gateway's."""
        raise BadRequest("a request cannot use the gateway's own role.")

    async def close(self) -> None:
        """Nothing: the connections are the other's."""
