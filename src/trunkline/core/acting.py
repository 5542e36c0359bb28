"""Transactions in another role, with the settings that policies read."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg import sql

from trunkline.core.calls import Call, scalar
from trunkline.core.db import AsyncDb
from trunkline.core.errors import Forbidden
from trunkline.core.execution import execute_async, translated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from trunkline.core.eager import EagerConnection

T = TypeVar("T")

_BECOME = (
    b"select set_config(name, value, true) from unnest(%s::text[], %s::text[]) s (name, value)"
)
_NOT_ALLOWED = {"22023", "42501"}  # there is no such role, or it is not ours to become


@asynccontextmanager
async def acting_as(
    connection: EagerConnection, role: str | None, settings: Mapping[str, str]
) -> AsyncIterator[None]:
    """Open a transaction in a role (None: that of the session) with settings.

    Errors of the driver are translated, and name this role.
    """
    try:
        with translated(connection):
            async with connection.transaction():
                await _become(connection, role, settings)
                connection.acting_role = role
                yield
    finally:
        connection.acting_role = None


async def _become(
    connection: psycopg.AsyncConnection[Any], role: str | None, settings: Mapping[str, str]
) -> None:
    wanted = dict(settings)
    if role == "none":  # no role is called that: it means whoever is logged in
        raise may_not_act(connection, role)
    if role is not None:
        wanted["role"] = role  # the last: it may do less
    if not wanted:
        return
    try:
        await connection.execute(_BECOME, (list(wanted), list(wanted.values())))
    except psycopg.Error as error:
        if role is None or error.sqlstate not in _NOT_ALLOWED:
            raise
        raise may_not_act(connection, role) from error


def may_not_act(connection: psycopg.AsyncConnection[Any], role: str) -> Forbidden:
    """The error for a role that the session's user may not take, or that does not exist."""
    us = connection.info.user
    return Forbidden(
        f'"{us}" may not act as "{role}".',
        hint=f'If there is such a role, have a DBA run: grant "{role}" to "{us}";',
    )


def stored_role(author: str | None, what: str) -> Call[str]:
    """The role that something stored runs as; `Forbidden` when the session may not act as it."""
    return Call(
        "_stored_role",
        {"authors": [author], "what": what},
        scalar,
        safe_to_repeat=True,
        types={"authors": "name[]", "what": "text"},
    )


async def become(connection: psycopg.AsyncConnection[Any], role: str) -> None:
    """Act as a role until the transaction ends; a plain statement, which no search_path changes."""
    statement = sql.SQL("set local role {}").format(sql.Identifier(role))
    try:
        await connection.execute(statement)
    except psycopg.Error as error:
        if error.sqlstate not in _NOT_ALLOWED:
            raise
        raise may_not_act(connection, role) from error


class RoleDb(AsyncDb):
    """The pool of another database object; every transaction runs as the role of an author.

    Only functions of ours and statements of ours may run here: text of users can return to the role
    of the session. SQL functions of ours run such text with ``trunkline._run_as()``.
    """

    def __init__(self, db: AsyncDb, author: str | None, *, what: str):
        """``author`` is the role that configured ``what``, which errors name."""
        self.dsn = db.dsn
        self._db = db
        self._author = author
        self._what = what

    @property
    def connections_made(self) -> int:
        return self._db.connections_made

    @property
    def crowded(self) -> bool:
        return self._db.crowded

    @property
    def prepares(self) -> bool:
        """No: a session has the role for a transaction only."""
        return False

    async def role(self) -> str:
        """The role to act as; `Forbidden` when it is gone, or not for us to become."""
        return await self._db.run(stored_role(self._author, self._what))

    async def run(
        self,
        call: Call[T],
        *,
        on: psycopg.AsyncConnection[Any] | None = None,
        then: Call[Any] | None = None,
    ) -> T:
        """Run one call as the role; the caller repeats it when the server is away."""
        if on is not None:
            return await self._db.run(call, on=on, then=then)
        async with self.connection() as connection:
            with translated(connection):
                answer = await execute_async(connection, call)
                if then is not None:
                    await execute_async(connection, then)
                return answer

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[EagerConnection]:
        """Lend a connection inside a transaction of the role."""
        role = await self.role()
        async with self._db.connection() as connection, connection.transaction():
            await become(connection, role)
            yield connection

    async def connect(self) -> psycopg.AsyncConnection[Any]:
        return await self._db.connect()

    async def close(self) -> None:
        """Nothing: the connections belong to the other object."""
