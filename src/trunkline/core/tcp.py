"""How programs reach an embedded server over TCP: on loopback, with a password."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from psycopg import sql

from trunkline.core.directories import lock_file
from trunkline.core.errors import BadRequest

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg

    from trunkline.core.binaries import Account

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_ADDRESS = re.compile(r"(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:\[\]]+)):(?P<port>\d{1,5})")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens."""

    host: str
    port: int

    def dsn(self, database: str, user: str, password: str) -> str:
        """The URL that libpq and most drivers take."""
        return f"postgresql://{user}:{quote(password, safe='')}@{self}/{quote(database, safe='')}"

    def jdbc(self, database: str, user: str, password: str) -> str:
        """The URL that JDBC takes, and with it DBeaver."""
        query = urlencode({"user": user, "password": password})
        return f"jdbc:postgresql://{self}/{quote(database, safe='')}?{query}"

    def __str__(self) -> str:
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def read_address(text: str) -> Address:
    """Read HOST:PORT; only loopback addresses are taken."""
    found = _ADDRESS.fullmatch(text.strip())
    if found is None or not 0 < int(found["port"]) < 1 << 16:
        raise BadRequest(
            f'an address is HOST:PORT, got "{text}".', hint="For example: 127.0.0.1:15432"
        )
    host = (found["v6"] or found["host"]).lower()
    if host not in _LOOPBACK:
        raise BadRequest(
            f'the embedded server listens on loopback only, got "{host}".',
            hint="Use 127.0.0.1, or run a Postgres of your own for clients on other machines.",
        )
    return Address(host, int(found["port"]))


def keep_password(file: Path, account: Account | None) -> str:
    """The password in a file; a missing or empty file gets a random one."""
    with os.fdopen(lock_file(file, fcntl.LOCK_EX, account), "r+") as opened:
        password = opened.read().strip()
        if not password:
            password = secrets.token_urlsafe(24)
            opened.write(password)
    return password


def set_password(connection: psycopg.Connection, user: str, password: str) -> None:
    """Give a role a password; the server sees only its SCRAM verifier."""
    encrypted = connection.pgconn.encrypt_password(
        password.encode(), user.encode(), b"scram-sha-256"
    )
    connection.execute(
        sql.SQL("alter role {} password {}").format(
            sql.Identifier(user), sql.Literal(encrypted.decode())
        )
    )
