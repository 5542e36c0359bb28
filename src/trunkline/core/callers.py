"""Connections of the caller: which ones a call can run on, and what to pass instead of others."""

from __future__ import annotations

from typing import Any

import psycopg

from trunkline.core.errors import Invalid

_INSTEAD = {
    "psycopg": "Blocking clients (trunkline.connect_sync) take a psycopg.Connection, asynchronous"
    " ones (trunkline.connect) a psycopg.AsyncConnection.",
    "psycopg2": "Connect with psycopg 3, or call the SQL function in this transaction:"
    " cursor.execute('select trunkline.broker_publish(%s, %s)', [topic, json]).",
    "asyncpg": "Connect with psycopg 3, or call the SQL function in this transaction:"
    " await connection.fetchval('select trunkline.broker_publish($1, $2)', topic, json).",
    "django": "Pass connection.connection, the connection of psycopg 3 inside Django's.",
    "sqlalchemy": "Pass session.connection().connection.driver_connection; with asyncio"
    " (await (await session.connection()).get_raw_connection()).driver_connection.",
}
_ELSE = "Take one from tl.transaction(), or from psycopg 3."


def insist_on_connection(on: Any, *, asynchronous: bool) -> None:
    """Refuse what no call can run on; a proxy of a blocking psycopg connection will do."""
    if asynchronous:
        fits = isinstance(on, psycopg.AsyncConnection)
    else:
        factory = getattr(on, "cursor_factory", None)
        fits = isinstance(factory, type) and issubclass(factory, psycopg.Cursor)
    if not fits:
        expected = "psycopg.AsyncConnection" if asynchronous else "psycopg.Connection"
        kind = type(on)
        packages = (base.__module__.partition(".")[0] for base in kind.__mro__)
        raise Invalid(
            f'"on" takes a {expected}, got {kind.__module__}.{kind.__qualname__}.',
            hint=next((_INSTEAD[name] for name in packages if name in _INSTEAD), _ELSE),
        )
