"""``trunkline db``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.cli.conftest import Start, answer_of

from trunkline.core import migrate
from trunkline.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Cli


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, cli: Cli, bare_dsn: str) -> Cli:
    """Commands on a database without the schema."""
    monkeypatch.setenv("TRUNKLINE_DSN", bare_dsn)
    return cli


def test_install_verify_and_uninstall(bare: Cli) -> None:
    missing = bare("db", "verify")
    assert missing.code == 1
    assert "trunkline db install" in missing.err

    installed = bare("db", "install")
    assert installed.code == 0
    assert installed.rows == {"version": __version__, "applied": len(migrate.steps())}
    assert installed.out.count("\n") == 1
    assert bare("db", "verify").code == 0
    again = bare("db", "install")
    assert again.rows == {"version": __version__, "applied": 0}
    assert "nothing to do" in again.err

    assert bare("db", "uninstall").code == 2
    assert bare("db", "verify").code == 0
    assert bare("db", "uninstall", "--yes").code == 0
    assert bare("db", "verify").code == 1


def test_compatibility_schemas_are_installed_kept_and_removed(
    cli: Cli, sql: psycopg.Connection[Any]
) -> None:
    there = "select to_regnamespace('kv') is not null and to_regnamespace('tube') is not null"
    unknown = cli("db", "install", "--compat", "kv,kafka")
    assert unknown.code == 2
    assert "There are: " in unknown.err
    assert cli("db", "install", "--compat", "kv,tube").code == 0
    assert sql.execute(there).fetchone() == (True,)
    assert cli("db", "verify").code == 0
    assert cli("db", "upgrade").code == 0
    assert "create or replace function kv.put" in cli("db", "sql", "--compat", "kv").out
    assert "create or replace function kv.put" not in cli("db", "sql").out
    assert cli("db", "uninstall", "--yes").code == 0
    assert sql.execute(there).fetchone() == (False,)


def test_verify_notices_what_changed(cli: Cli, sql: psycopg.Connection[Any]) -> None:
    assert cli("db", "verify").rows == []
    sql.execute("drop function trunkline.log_flush()")
    gone = cli("db", "verify")
    assert gone.code == 1
    assert gone.rows == [
        {"capability": None, "file": "functions/log_flush.sql", "state": "missing"}
    ]
    assert cli("db", "upgrade").code == 0
    assert cli("db", "verify").code == 0


def test_an_upgrade_can_be_looked_at_first(cli: Cli, sql: psycopg.Connection[Any]) -> None:
    sql.execute("update trunkline.migration set checksum = 'old' where file like '%/log_lag.sql'")
    planned = cli("db", "upgrade", "--dry-run")
    assert [row["file"] for row in planned.rows] == ["functions/log_lag.sql"]
    shown = cli("db", "upgrade", "--dry-run", "--show-sql")
    assert "create or replace function trunkline.log_lag" in shown.out
    assert cli("db", "verify").code == 1
    assert cli("db", "upgrade").code == 0
    assert cli("db", "verify").code == 0


def test_a_newer_schema_is_left_alone(cli: Cli, sql: psycopg.Connection[Any]) -> None:
    sql.execute(
        "insert into trunkline.migration (capability, file, checksum, version)"
        " values ('core', '999_future.sql', 'x', '99.0')"
    )
    assert cli("db", "verify").code == 1
    refused = cli("db", "upgrade")
    assert refused.code == 1
    assert "newer" in refused.err


def test_what_an_upgrade_would_refuse_is_refused_when_it_is_only_looked_at(
    cli: Cli, sql: psycopg.Connection[Any]
) -> None:
    for change, said in (
        ("checksum = 'x' where file = '001_log.sql'", "were edited"),
        ("version = '99.0', checksum = 'x' where file = 'functions/log_lag.sql'", "newer"),
    ):
        sql.execute(f"update trunkline.migration set {change}")
        for words in (("--dry-run",), ("--dry-run", "--show-sql"), ()):
            refused = cli("db", "upgrade", *words)
            assert (refused.code, refused.out) == (1, "")
            assert said in refused.err
        verified = cli("db", "verify")
        assert verified.code == 1
        assert said in verified.err
        assert "db upgrade" not in verified.err


def test_a_function_that_is_gone_is_in_the_sql_that_is_shown(
    cli: Cli, sql: psycopg.Connection[Any]
) -> None:
    sql.execute("drop function trunkline.log_flush()")
    shown = cli("db", "upgrade", "--dry-run", "--show-sql")
    assert "create or replace function trunkline.log_flush" in shown.out


def test_there_is_nothing_to_upgrade_where_nothing_is(bare: Cli) -> None:
    answer = bare("db", "upgrade")
    assert answer.code == 1
    assert "trunkline db install" in answer.err


def test_the_printed_script_is_the_whole_install(bare: Cli, bare_dsn: str) -> None:
    script = bare("db", "sql").out
    with psycopg.connect(bare_dsn, autocommit=True) as connection:
        connection.execute(script.encode())
    assert bare("db", "verify").code == 0


def test_settings_are_listed_read_and_changed(cli: Cli) -> None:
    names = [row["name"] for row in cli("db", "config", "list").rows]
    assert "lease.ttl" in names
    assert cli("db", "config", "set", "lease.ttl", "20 seconds").rows["value"] == "00:00:20"
    assert cli("db", "config", "get", "lease.ttl").rows == {
        "name": "lease.ttl",
        "value": "00:00:20",
    }
    assert cli("db", "config", "get", "lease.ttl", "--raw").out == "00:00:20\n"
    assert cli("db", "config", "set", "lease.ttl").rows["value"] == "00:00:30"


def test_a_setting_that_makes_no_sense_is_refused(cli: Cli) -> None:
    endless = cli("db", "config", "set", "lease.ttl", "10000 years")
    assert (endless.code, "at most 1000 years" in endless.err) == (2, True)
    refused = cli("db", "config", "set", "lease.ttl", "soon")
    assert refused.code == 2
    assert "interval" in refused.err
    assert cli("db", "config", "set", "no.such", "1").code == 3


def test_psql_is_opened_on_the_database(dsn: str, start: Start) -> None:
    asked = answer_of(start("db", "psql", "-XAt", "-c", "select current_database()", "--dsn", dsn))
    assert asked.code == 0
    assert asked.out.strip() == conninfo_to_dict(dsn)["dbname"]
    assert answer_of(start("db", "psql", "--dsn", dsn, "-c", "nonsense")).code == 1


def test_psql_gets_the_password_where_no_other_user_sees_it(tmp_path: Path, start: Start) -> None:
    fake = tmp_path / "psql"
    fake.write_text('#!/bin/sh\necho "$@"\necho "password: $PGPASSWORD"\n')
    fake.chmod(0o755)
    words = ("db", "psql", "--dsn", "postgresql://me:secret@host/app", "-l")
    told = answer_of(start(*words, TRUNKLINE_PG_BIN=str(tmp_path)))
    assert told.out == "user=me dbname=app host=host -l\npassword: secret\n"


def test_a_missing_psql_is_answered_with_the_way_to_get_one(tmp_path: Path, start: Start) -> None:
    missing = answer_of(start("db", "psql", "--dsn", "host=x", TRUNKLINE_PG_BIN=str(tmp_path)))
    assert (missing.code, "no psql was found" in missing.err) == (1, True)
