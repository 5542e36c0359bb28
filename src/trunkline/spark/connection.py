"""Connections of Spark's processes, one pool each: the driver locates the database, tasks use it.

Whatever carries a DSN to a task is pickled and never printed; whatever the driver libraries say is
redacted before Spark copies it into a log.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from trunkline.core import migrate
from trunkline.core.db import Db
from trunkline.core.embedded import resolve
from trunkline.core.errors import DatabaseError, TrunklineError, Unavailable
from trunkline.core.telemetry import redact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from adbc_driver_postgresql.dbapi import Connection

    from trunkline.core.embedded import Target


def locate(dsn: str | None) -> str:
    """Where the database is; an embedded one stays up as long as this process lives."""
    with plain_errors():
        return _located(dsn, os.getpid()).dsn


@cache
def _located(dsn: str | None, _pid: int) -> Target:
    target = resolve(dsn)
    try:
        if target.server is not None:
            migrate.install(target.dsn)
        else:
            migrate.check(target.dsn)
    except BaseException:
        target.close()
        raise
    return target


def db(dsn: str) -> Db:
    """The pool of this process; a forked child makes its own."""
    return _pool(dsn, os.getpid())


@cache
def _pool(dsn: str, _pid: int) -> Db:
    return Db(dsn, patience=20)


def adbc(dsn: str) -> Connection:
    """A new Arrow connection; the caller closes it."""
    from adbc_driver_postgresql import dbapi
    from psycopg.conninfo import conninfo_to_dict

    with plain_errors():
        return dbapi.connect(_uri(conninfo_to_dict(dsn)), autocommit=True)


def _uri(parts: dict[str, Any]) -> str:
    """A connection string as a URI, which is all that the Arrow driver takes."""
    from urllib.parse import urlencode

    return "postgresql://?" + urlencode({name: str(value) for name, value in parts.items()})


@contextmanager
def plain_errors() -> Iterator[None]:
    """Let only errors out that say what to do and hold no password, without a driver's trace."""
    try:
        yield
    except TrunklineError as error:
        error.message, error.hint = redact(error.message), redact(error.hint)
        raise error.with_traceback(None) from None
    except Exception as error:
        if _lost_connection(error):
            raise Unavailable(
                redact(str(error)).partition("\n")[0], hint="Is the server running?"
            ) from None
        if not type(error).__module__.startswith(("psycopg", "adbc")):
            raise
        raise DatabaseError(redact(str(error)).strip()) from None


def _lost_connection(error: Exception) -> bool:
    """Whether the Arrow driver lost the server; while rows come it says so as an OSError."""
    from adbc_driver_manager import AdbcStatusCode, OperationalError

    if isinstance(error, OperationalError):
        return error.status_code == AdbcStatusCode.IO and not error.sqlstate
    return isinstance(error, OSError) and "[libpq]" in str(error)
