"""Transactions in another role, with the settings that policies read."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import psycopg

from trunkline.core.errors import Forbidden
from trunkline.core.execution import translated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from trunkline.core.eager import EagerConnection

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
