"""What every connection of ours has, and how to see that one is of no more use."""

from __future__ import annotations

import os
import select
import socket
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from trunkline.core.errors import (
    ONLY_READS,
    UNKNOWN_STATEMENT,
    DatabaseError,
    is_stale_plan,
)

APPLICATION_NAME = "trunkline"

_LARGE_ANSWER = 8 << 20
_LARGE_BATCH = 1 << 20
_OUR_TERMS = (
    b"select set_config(name, value, false) from (values"
    b" ('default_transaction_isolation', 'read committed'), ('datestyle', 'iso'),"
    b" ('intervalstyle', 'postgres'), ('standard_conforming_strings', 'on'), ('array_nulls', 'on'),"
    b" ('quote_all_identifiers', 'off'))"
    b" wanted (name, value)"
    b" where split_part(lower(current_setting(name)), ',', 1) <> value"
    b" union all select set_config('synchronous_commit', 'on', false)"
    b" where current_setting('synchronous_commit') = 'off'"
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


async def on_our_terms_async(connection: psycopg.AsyncConnection[Any]) -> None:
    """Whatever the defaults are: statements see what is committed, commits wait for the disk, the
    driver can read times, a backslash is a backslash, a null in a list is a null, and names come
    without quotes.

    Not behind a transaction pooler, that is, where nothing is prepared: its sessions are others'
    too.
    """
    _make_room(connection)
    await connection.execute(_OUR_TERMS)


def on_our_terms(connection: psycopg.Connection[Any]) -> None:
    """The blocking twin of `on_our_terms_async`."""
    _make_room(connection)
    connection.execute(_OUR_TERMS)


def _make_room(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """Let a large batch go out at once, as far as the system allows it, and not in parts.

    Only on this machine: what the sockets of a network need, the system finds out by itself.
    """
    if not hasattr(socket, "AF_UNIX"):
        return
    with socket.socket(fileno=os.dup(connection.fileno())) as wire:
        if wire.family == socket.AF_UNIX:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LARGE_BATCH)


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


def is_spoilt_by(error: Exception) -> bool:
    """Whether a connection would go on to refuse what another one may take.

    A write was refused by a standby, or because the role or database is read-only: a session stays
    so. Or a prepared statement has other columns since ALTER TABLE or an upgrade, or is gone: code
    of a user ran DEALLOCATE ALL.
    """
    if is_stale_plan(error):
        return True
    return isinstance(error, psycopg.Error | DatabaseError) and error.sqlstate in {
        ONLY_READS,
        UNKNOWN_STATEMENT,
    }
