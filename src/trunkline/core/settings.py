"""What the environment says: `Settings`, and where the database is (`find_dsn`).

Who wins: an explicit argument, then the environment, then the file `.env` of the working directory.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import psycopg
from dotenv import dotenv_values
from platformdirs import user_data_path
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pydantic import BeforeValidator, Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from trunkline.core.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DOTENV = ".env"

# The libpq variables that say *where* the database is. PGUSER, PGSSLMODE and the like only say how
# to talk to it, and people set them for good without having a server.
PLACES = ("PGHOST", "PGHOSTADDR", "PGPORT", "PGSERVICE", "PGDATABASE")

_FORMS = "Expected postgresql://user@host:port/database or libpq's key=value form."
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9.-]*)(?P<driver>\+[A-Za-z0-9_]+)?://")


def default_home() -> Path:
    """Where embedded servers keep their data: per user, and for root where a daemon keeps its."""
    if os.geteuid() == 0:
        return Path("/var/lib/trunkline")
    return user_data_path("trunkline")


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


LogLevel = Annotated[
    Literal["debug", "info", "warning", "error", "critical"], BeforeValidator(_lower)
]


class Settings(BaseSettings):
    """Every knob of a process, each as ``TRUNKLINE_<NAME>`` in the environment or in `.env`."""

    model_config = SettingsConfigDict(
        env_prefix="TRUNKLINE_",
        env_file=DOTENV,
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
    )

    dsn: str | None = Field(default=None, repr=False)
    home: Path = Field(default_factory=default_home)
    instance: str = "default"
    pg_bin: Path | None = None
    pool_max: int = Field(default=10, ge=1)
    log_level: LogLevel = "info"
    prepare: bool = True
    connect_timeout: float = Field(default=10, gt=0, lt=2**31)
    read_ahead: int = Field(default=10, ge=1)
    callables: str = ""

    @classmethod
    def load(cls, **explicit: Any) -> Settings:
        """Read the environment; a value that makes no sense is a `BadRequest` with its name."""
        if unknown := sorted(set(explicit) - set(cls.model_fields)):
            known = ", ".join(sorted(cls.model_fields))
            raise BadRequest(f'there is no setting "{unknown[0]}".', hint=f"There are: {known}.")
        try:
            with _readable():
                return cls(**explicit)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            name = "_".join(str(part) for part in first["loc"]).upper()
            said = first["msg"].removeprefix("Value error, ")
            raise BadRequest(f"TRUNKLINE_{name}: {said}.") from None


def find_dsn(settings: Settings, dsn: str | None = None) -> str | None:
    """The DSN to use, or None when nobody names a database and the embedded server serves.

    The empty string is an answer too: libpq then reads its own variables.
    """
    if dsn is not None:
        return normalise(dsn)
    environment, file = os.environ, _dotenv()
    if settings.dsn and settings.dsn != file.get("TRUNKLINE_DSN"):
        return normalise(settings.dsn)
    for names in (environment, file):
        for name in ("TRUNKLINE_DSN", "DATABASE_URL"):
            if names.get(name):
                return normalise(names[name])
        if any(names.get(name) for name in PLACES):
            return _from_libpq_names(file, unless=environment)
    return None


def normalise(dsn: str) -> str:
    """Check a DSN and bring it into a form that libpq takes (SQLAlchemy's ``+driver`` goes away).

    What libpq says about a bad DSN may quote the password, so it is not repeated here.
    """
    if not isinstance(dsn, str):  # URLs of other libraries hide the password when they are text
        raise BadRequest(f"a DSN is text, got {type(dsn).__name__}.", hint=_FORMS)
    dsn = dsn.strip()
    if scheme := _SCHEME.match(dsn):
        name = scheme["scheme"].lower()
        if name not in {"postgres", "postgresql"}:
            raise BadRequest(
                f'the DSN has the scheme "{name}", which is not Postgres.', hint=_FORMS
            )
        dsn = "postgresql://" + dsn[scheme.end() :]
    if not _can_be_read(dsn):
        hint = f"{_FORMS} In a URL, special characters of the password are written as %XX."
        raise BadRequest("the DSN cannot be read.", hint=hint)
    return dsn


def _can_be_read(dsn: str) -> bool:
    try:
        hosts = str(conninfo_to_dict(dsn).get("host", "")).split(",")
    except (psycopg.Error, UnicodeEncodeError):
        return False
    # an @ begins the name of an abstract socket; further on it is part of a password
    return not any("@" in host[1:] for host in hosts)


def _dotenv() -> dict[str, str]:
    with _readable():
        return {name: value for name, value in dotenv_values(DOTENV).items() if value}


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise BadRequest(f"the file {DOTENV} here cannot be read: {why}.") from None


def _from_libpq_names(file: Mapping[str, str], *, unless: Mapping[str, str]) -> str:
    """A DSN of the libpq variables in `.env`; what the environment has, libpq reads by itself."""
    options = {
        keyword: file[name]
        for name, keyword in _libpq_keywords().items()
        if name in file and not unless.get(name)
    }
    return normalise(make_conninfo("", **options))


@cache
def _libpq_keywords() -> dict[str, str]:
    options = pq.Conninfo.get_defaults()
    return {option.envvar.decode(): option.keyword.decode() for option in options if option.envvar}
