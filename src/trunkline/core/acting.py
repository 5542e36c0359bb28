"""Acting as another role for the rest of a transaction, with the settings that policies read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg

from trunkline.core.errors import Forbidden

if TYPE_CHECKING:
    from collections.abc import Mapping

_BECOME = (
    b"select set_config(name, value, true) from unnest(%s::text[], %s::text[]) s (name, value)"
)
_NOT_ALLOWED = {"22023", "42501"}  # there is no such role, or it is not ours to become


async def act_as(
    connection: psycopg.AsyncConnection[Any], role: str | None, settings: Mapping[str, str]
) -> None:
    """Take settings and a role, None: stay who one is, until the transaction ends."""
    wanted = dict(settings)
    if role == "none":  # no role is called that: it means whoever is logged in
        raise _not_allowed(connection, role)
    if role is not None:
        wanted["role"] = role  # the last: it may do less
    if not wanted:
        return
    try:
        await connection.execute(_BECOME, (list(wanted), list(wanted.values())))
    except psycopg.Error as error:
        if role is None or error.sqlstate not in _NOT_ALLOWED:
            raise
        raise _not_allowed(connection, role) from error


def _not_allowed(connection: psycopg.AsyncConnection[Any], role: str) -> Forbidden:
    us = connection.info.user
    return Forbidden(
        f'"{us}" may not act as "{role}".',
        hint=f'If there is such a role, have a DBA run: grant "{role}" to "{us}";',
    )
