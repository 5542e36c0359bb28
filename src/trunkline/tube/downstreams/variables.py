"""``${NAME}`` in options of downstreams, and connection strings that are stored."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from trunkline.core.errors import Forbidden, Invalid

if TYPE_CHECKING:
    from collections.abc import Callable

PREFIX = "TRUNKLINE_DOWNSTREAM_"
"""What the names of the variables begin with that stored options may name."""

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_USER_PART = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#]*@", re.IGNORECASE)
_TAKES = {
    "host", "hostaddr", "port", "dbname", "user", "password", "connect_timeout", "sslmode",
    "sslrootcert", "application_name", "options", "channel_binding", "target_session_attrs",
}  # fmt: skip
# Nothing of the account that the worker runs in: no peer or trust, no file of passwords or keys.
_OF_ITS_OWN = {
    "require_auth": "password,md5,scram-sha-256",
    "passfile": os.devnull,
    "sslcertmode": "disable",
    "gssencmode": "disable",
}
_KNOWS_REQUIRE_AUTH = 160000


def any_variable(name: str) -> None:
    """For options of the process itself."""


def shared_variable(name: str) -> None:
    """For stored options: refuse a variable that is not meant for downstreams."""
    if not name.startswith(PREFIX):
        raise Forbidden(
            f"stored options may not name the environment variable {name}.",
            hint=f"Call it {PREFIX}{name}: variables with this prefix are for downstreams.",
        )


def filled(value: Any, allowed: Callable[[str], None]) -> Any:
    """An option with the variables of the environment in it.

    Before the @ of a URL they are percent-encoded: a slash in a password does not end the host.
    """
    if not isinstance(value, str):
        return value
    user_part = _USER_PART.match(_VARIABLE.sub(lambda found: "x" * len(found[0]), value))
    encoded_up_to = user_part.end() if user_part else 0

    def fill(found: re.Match[str]) -> str:
        name = found[1]
        allowed(name)
        if name not in os.environ:
            raise Invalid(f"the environment has no {name}, which a downstream's options name.")
        text = os.environ[name]
        return quote(text, safe="") if found.start() < encoded_up_to else text

    return _VARIABLE.sub(fill, value)


def trusted_dsn(option: str, dsn: str) -> str:
    """A stored connection string that uses nothing of the worker's account.

    One that the operator keeps as a whole in a variable is taken as it is.
    """
    if _VARIABLE.fullmatch(option):
        return dsn
    try:
        named = conninfo_to_dict(dsn)
    except psycopg.Error as error:
        raise Invalid(f"the dsn cannot be read: {error}") from None
    hint = f"Or keep the whole dsn in a variable: ${{{PREFIX}DSN}}."
    if unknown := sorted(set(named) - _TAKES):
        raise Forbidden(f"a stored dsn may not have {', '.join(unknown)}.", hint=hint)
    for part in ("host", "dbname", "user", "password"):
        if not named.get(part):
            raise Forbidden(f"a stored dsn names its {part}.", hint=hint)
    if pq.version() < _KNOWS_REQUIRE_AUTH:
        raise Forbidden("a stored dsn needs libpq 16 or newer.", hint=hint)
    return make_conninfo(dsn, **_OF_ITS_OWN)
