"""Where the database is, by what people say in arguments, environment and `.env`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict
from pydantic import ValidationError

from trunkline.core.errors import BadRequest
from trunkline.core.settings import Settings, default_home, find_dsn, normalise

SECRET = "tr0ub4dor"


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty environment and an empty working directory."""
    for name in os.environ:
        if name.startswith(("TRUNKLINE_", "PG", "DATABASE_URL")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def dotenv(text: str) -> None:
    Path(".env").write_text(text)


def test_nothing_named_means_the_embedded_server() -> None:
    assert find_dsn(Settings()) is None


def test_defaults_are_the_documented_ones() -> None:
    settings = Settings()

    assert settings.home == default_home()
    assert (settings.instance, settings.pg_bin, settings.pool_max) == ("default", None, 10)
    assert (settings.log_level, settings.prepare) == ("info", True)


def test_root_keeps_its_data_where_daemons_do() -> None:
    expected = os.geteuid() == 0
    assert (default_home() == Path("/var/lib/trunkline")) is expected


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        Settings().pool_max = 3  # type: ignore[misc]


def test_settings_come_from_the_environment_and_then_from_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dotenv("TRUNKLINE_INSTANCE=from_file\nTRUNKLINE_POOL_MAX=7\n")
    monkeypatch.setenv("TRUNKLINE_INSTANCE", "from_environment")
    monkeypatch.setenv("TRUNKLINE_LOG_LEVEL", "DEBUG")

    settings = Settings()

    assert (settings.instance, settings.pool_max) == ("from_environment", 7)
    assert settings.log_level == "debug"


def test_a_setting_that_makes_no_sense_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUNKLINE_POOL_MAX", "many")

    with pytest.raises(BadRequest, match="TRUNKLINE_POOL_MAX"):
        Settings.load()


def test_a_file_that_is_no_text_is_named() -> None:
    Path(".env").write_bytes(b"\xff\xfe=1")
    for read in (Settings.load, lambda: find_dsn(Settings(_env_file=None))):
        with pytest.raises(BadRequest, match=r"\.env here cannot be read: it is not UTF-8"):
            read()


def test_every_place_is_asked_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    dotenv("DATABASE_URL=postgresql://url-in-file/db\n")
    assert find_dsn(Settings()) == "postgresql://url-in-file/db"

    dotenv("DATABASE_URL=postgresql://url-in-file/db\nTRUNKLINE_DSN=postgresql://own-in-file/db\n")
    assert find_dsn(Settings()) == "postgresql://own-in-file/db"

    monkeypatch.setenv("PGHOST", "libpq")
    assert find_dsn(Settings()) == ""

    monkeypatch.setenv("DATABASE_URL", "postgresql://url/db")
    assert find_dsn(Settings()) == "postgresql://url/db"

    monkeypatch.setenv("TRUNKLINE_DSN", "postgresql://own/db")
    assert find_dsn(Settings()) == "postgresql://own/db"

    assert find_dsn(Settings(dsn="postgresql://code/db")) == "postgresql://code/db"
    assert find_dsn(Settings(), "host=argument") == "host=argument"


@pytest.mark.parametrize("name", ["PGHOST", "PGHOSTADDR", "PGPORT", "PGSERVICE", "PGDATABASE"])
def test_a_libpq_variable_that_says_where_leaves_all_to_libpq(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "5433")

    assert find_dsn(Settings()) == ""


def test_libpq_variables_that_only_say_how_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSSLMODE", "require")
    monkeypatch.setenv("PGUSER", "me")

    assert find_dsn(Settings()) is None


def test_an_empty_variable_counts_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TRUNKLINE_DSN", "DATABASE_URL", "PGHOST"):
        monkeypatch.setenv(name, "")

    assert find_dsn(Settings()) is None


def test_libpq_names_in_the_file_become_a_dsn_that_the_environment_completes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dotenv(f"PGHOST=db.example\nPGUSER=file\nPGPASSWORD='{SECRET} and more'\n")
    monkeypatch.setenv("PGUSER", "environment")

    found = find_dsn(Settings())

    assert found is not None
    assert conninfo_to_dict(found) == {"host": "db.example", "password": f"{SECRET} and more"}


@pytest.mark.parametrize(
    "written",
    [
        "postgresql+psycopg://u:p@h:5/d?sslmode=require",
        "postgresql+asyncpg://u:p@h:5/d?sslmode=require",
        "postgres://u:p@h:5/d?sslmode=require",
        " POSTGRESQL://u:p@h:5/d?sslmode=require\n",
    ],
)
def test_dsns_of_other_tools_are_understood(written: str) -> None:
    assert normalise(written) == "postgresql://u:p@h:5/d?sslmode=require"


@pytest.mark.parametrize("written", ["host=/tmp dbname=x", "postgresql:///x", ""])
def test_a_dsn_that_libpq_takes_stays_as_it_is(written: str) -> None:
    assert normalise(written) == written


@pytest.mark.parametrize(
    "written",
    [
        f"postgresql://user:{SECRET}@host:port:5/db?nonsense={SECRET}",
        f"postgresql://user:%zz{SECRET}@host/db",
        f"postgresql://user:p@{SECRET}@host/db",
        f"host=x password {SECRET}",
        f"mysql://user:{SECRET}@host/db",
        SECRET,
    ],
)
def test_a_bad_dsn_is_refused_without_repeating_the_password(written: str) -> None:
    with pytest.raises(BadRequest) as caught:
        normalise(written)

    assert SECRET not in str(caught.value)
    assert "postgresql://user@host" in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_what_is_no_text_is_no_dsn() -> None:
    with pytest.raises(BadRequest, match="a DSN is text, got PosixPath"):
        normalise(Path("/tmp"))  # type: ignore[arg-type]


def test_printing_settings_does_not_show_the_dsn() -> None:
    assert SECRET not in repr(Settings(dsn=f"postgresql://user:{SECRET}@host/db"))
