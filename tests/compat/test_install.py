"""Compatibility schemas are installed, kept current, listed and removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.fixtures.asking import ask, column, connections, refused
from tests.fixtures.roles import login_roles, name_of, unprivileged

import trunkline
from trunkline.core import compat, migrate
from trunkline.core.errors import BadRequest, Conflict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.asking import Session
    from tests.fixtures.programs import Programs
    from tests.fixtures.roles import Role

NAMESPACES = "select oid from pg_namespace where nspname = any (%s)"


@pytest.fixture
def plain(dsn: str) -> Iterator[Session]:
    """A session in a database without compatibility schemas."""
    with psycopg.connect(dsn, autocommit=True) as opened:
        yield opened


@pytest.fixture
def plain_role(dsn: str, plain: Session) -> Iterator[Role]:
    with connections(dsn) as connect, login_roles(plain, connect) as make:
        yield make


def there(session: Session) -> list[str]:
    return column(
        session,
        "select nspname::text from pg_namespace where nspname = any (%s) order by 1",
        [list(compat.SCHEMAS)],
    )


def test_an_install_adds_the_schemas_that_it_names(dsn: str, plain: Session) -> None:
    assert there(plain) == []
    planned = migrate.install(dsn, compat=["tube"])
    assert [step.file for step in planned.pending] == ["functions/tube.sql"]
    assert there(plain) == ["tube"]
    assert migrate.plan(dsn).current


def test_a_schema_that_another_one_needs_comes_with_it(dsn: str, plain: Session) -> None:
    migrate.install(dsn, compat=["fancy_subscriptions"])
    assert there(plain) == ["fancy_subscriptions", "postgraphile_meta"]


def test_a_second_install_changes_nothing(compat_dsn: str) -> None:
    assert migrate.install(compat_dsn, compat=compat.SCHEMAS).current
    assert migrate.install(compat_dsn).current


def test_an_upgrade_replaces_what_changed(
    compat_dsn: str, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = compat.text
    added = "create function kv.later() returns int language sql as 'select 1';"
    monkeypatch.setattr(compat, "text", lambda name: text(name) + (added if name == "kv" else ""))
    assert [step.file for step in migrate.plan(compat_dsn).pending] == ["functions/kv.sql"]
    migrate.install(compat_dsn)
    assert ask(session, "select kv.later()") == 1
    assert migrate.plan(compat_dsn).current


def test_a_schema_that_was_dropped_stays_away_until_it_is_named(
    compat_dsn: str, session: Session
) -> None:
    session.execute("DROP SCHEMA kv CASCADE")
    assert migrate.install(compat_dsn).current
    assert "kv" not in there(session)
    migrate.install(compat_dsn, compat=["kv"])
    assert "kv" in there(session)
    assert migrate.plan(compat_dsn).current


def test_a_dropped_function_of_ours_is_put_back_beside_a_new_schema(
    dsn: str, plain: Session
) -> None:
    plain.execute("drop function trunkline.config_list()")
    migrate.install(dsn, compat=["tube"])
    assert there(plain) == ["tube"]
    assert migrate.plan(dsn).current


def test_a_schema_that_holds_something_else_is_refused_and_kept(dsn: str, plain: Session) -> None:
    plain.execute("create schema kv; create table kv.theirs ()")
    with pytest.raises(Conflict, match='the schema "kv" of this database holds something else'):
        migrate.install(dsn, compat=["kv"])
    migrate.install(dsn)
    migrate.uninstall(dsn)
    assert ask(plain, "select to_regclass('kv.theirs') is not null")


def test_a_schema_that_another_role_prepared_is_refused(
    dsn: str, plain: Session, plain_role: Role
) -> None:
    """An install runs what is in the schema: the owner of it would get the installer's rights."""
    base = ask(plain, "select current_database()")
    other = plain_role()
    plain.execute(f"grant create on database {base} to {name_of(other)}")
    other.execute("create schema kv; comment on schema kv is 'Trunkline compatibility: mine'")
    with pytest.raises(Conflict, match="holds something else"):
        migrate.install(dsn, compat=["kv"])
    migrate.uninstall(dsn)
    with refused("TL409"):
        plain.execute(migrate.script(compat=["kv"]).encode())
    plain.execute("rollback")
    assert there(plain) == ["kv"]


def test_an_unknown_name_is_refused_before_anything_is_done(bare_dsn: str) -> None:
    with pytest.raises(BadRequest, match='there is no compatibility schema "kafka"'):
        migrate.install(bare_dsn, compat=["kv", "kafka"])
    with pytest.raises(BadRequest, match="compat is a list of names"):
        migrate.install(bare_dsn, compat="kv")
    with psycopg.connect(bare_dsn) as session:
        assert ask(session, "select to_regnamespace('trunkline')") is None


def test_an_uninstall_removes_them(compat_dsn: str, session: Session) -> None:
    assert there(session) == sorted(compat.SCHEMAS)
    migrate.uninstall(compat_dsn)
    assert there(session) == []


def test_the_printed_script_installs_them(bare_dsn: str, programs: Programs) -> None:
    programs.psql(bare_dsn, migrate.script(compat=compat.SCHEMAS))
    assert migrate.plan(bare_dsn).current
    with psycopg.connect(bare_dsn) as session:
        assert there(session) == sorted(compat.SCHEMAS)


def test_create_on_the_database_is_all_that_they_need(bare_dsn: str) -> None:
    with unprivileged(bare_dsn) as plain:
        as_installer = make_conninfo(bare_dsn, options=f"-c role={plain.installer}")
        migrate.install(as_installer, compat=compat.SCHEMAS)
        migrate.install(bare_dsn)  # by a superuser, later
        assert migrate.plan(bare_dsn).current
        owners = (
            "select distinct nspowner::regrole::text from pg_namespace where nspname = any (%s)"
        )
        assert column(plain.session, owners, [list(compat.SCHEMAS)]) == [plain.installer]
        plain.session.execute(f"set role {plain.owner}")
        put = "SELECT kv.put('DEFAULT', 'key', '1', 'EXPIRY_1')"
        assert ask(plain.session, put) == "INSERT"
        plain.session.execute("SELECT tube.tube_ensure_exists('es')")
        plain.session.execute("INSERT INTO pgmb.events (topic, payload) VALUES ('a', '{}')")
        plain.session.execute("reset role")


def test_a_client_installs_them(bare_dsn: str) -> None:
    with trunkline.connect_sync(bare_dsn, compat=["kv"]) as tl:
        assert tl.kv.put("session:1", {"n": 1}, namespace="DEFAULT") == "INSERT"
    with pytest.raises(BadRequest, match="install=False forbids it"):
        trunkline.connect_sync(bare_dsn, install=False, compat=["kv"])


def test_they_give_no_right(session: Session) -> None:
    """They hold functions and views with the caller's rights, and two tables under policies."""
    names = [list(compat.SCHEMAS)]
    definers = f"select proname from pg_proc where prosecdef and pronamespace in ({NAMESPACES})"
    assert column(session, definers, names) == []
    relations = column(
        session,
        "select oid::regclass::text from pg_class where relkind not in ('v', 'i')"
        f" and relnamespace in ({NAMESPACES}) and relrowsecurity order by 1",
        names,
    )
    assert relations == ["fancy_subscriptions.active_devices", "postgraphile_meta.subscriptions"]
    open_ones = column(
        session,
        "select relname from pg_class where relkind not in ('v', 'i') and not relrowsecurity"
        f" and relnamespace in ({NAMESPACES})",
        names,
    )
    assert open_ones == []
    loose = column(
        session,
        "select relname from pg_class where relkind = 'v' and"
        " not coalesce('security_invoker=true' = any (reloptions), false)"
        f" and relnamespace in ({NAMESPACES})",
        names,
    )
    assert loose == []


def test_a_function_of_another_role_is_not_called_in_place_of_one_of_postgres(
    session: Session,
) -> None:
    """Those of tube run predicates and queries of the caller, with the caller's search path."""
    loose = column(
        session,
        "select oid::regprocedure::text from pg_proc where pronamespace in"
        f" ({NAMESPACES} and nspname <> 'tube')"
        " and not coalesce('search_path=pg_catalog, pg_temp' = any (proconfig), false)",
        [list(compat.SCHEMAS)],
    )
    assert loose == []


def test_nothing_in_them_keeps_an_upgrade_from_replacing_ours(session: Session) -> None:
    """Bodies are texts: the server records no dependency on an object of trunkline."""
    tied = column(
        session,
        "select p.proname from pg_depend d join pg_proc p on p.oid = d.refobjid"
        " where d.refclassid = 'pg_proc'::regclass"
        " and p.pronamespace = 'trunkline'::regnamespace and d.deptype = 'n'"
        " and d.classid = 'pg_rewrite'::regclass",
    )
    assert tied == []
