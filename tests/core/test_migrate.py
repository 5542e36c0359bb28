"""Installing, upgrading, checking and removing the schema."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.fixtures.asking import ask, column

from trunkline import __version__
from trunkline.core import migrate
from trunkline.core.errors import Conflict, DatabaseError, Forbidden, SchemaMismatch, Unavailable
from trunkline.core.migrate import Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures.programs import Programs

    from trunkline.core.embedded import Server

Session = psycopg.Connection[Any]


@pytest.fixture
def session(dsn: str) -> Iterator[Session]:
    with psycopg.connect(dsn, autocommit=True) as opened:
        yield opened


@pytest.fixture
def code(monkeypatch: pytest.MonkeyPatch) -> list[Step]:
    """The files of the code; what a test changes here, the code has changed."""
    steps = migrate.steps()
    monkeypatch.setattr(migrate, "steps", lambda: list(steps))
    return steps


def change(code: list[Step], file: str, text: str) -> None:
    place = next(number for number, step in enumerate(code) if step.file == file)
    code[place] = dataclasses.replace(code[place], text=text)


def released(code: list[Step], file: str) -> Step:
    return next(step for step in code if step.file == file)


# Installing


def test_a_fresh_install_applies_every_file_once_and_is_current(bare_dsn: str) -> None:
    assert migrate.plan(bare_dsn).pending == tuple(migrate.steps())
    assert migrate.install(bare_dsn).pending == tuple(migrate.steps())
    plan = migrate.plan(bare_dsn)
    assert plan.current
    assert plan.version == __version__
    with psycopg.connect(bare_dsn) as session:
        files = session.execute("select capability, file from trunkline.migration").fetchall()
        assert len(files) == len(migrate.steps())


def test_a_second_install_writes_nothing(dsn: str, session: Session) -> None:
    marks = (
        "select xmin::text || applied_at::text from trunkline.migration order by 1",
        "select xmin::text || oid::text from pg_proc where pronamespace = 'trunkline'::regnamespace"
        " order by 1",
        "select xmin::text || oid::text from pg_class"
        " where relnamespace = 'trunkline'::regnamespace order by 1",
    )
    before = [column(session, mark) for mark in marks]
    assert migrate.install(dsn).current
    assert [column(session, mark) for mark in marks] == before


def test_twenty_installs_at_once_make_one_schema(bare_dsn: str) -> None:
    with ThreadPoolExecutor(20) as threads:
        plans = list(threads.map(lambda _: migrate.install(bare_dsn), range(20)))
    assert sorted(len(plan.pending) for plan in plans) == [0] * 19 + [len(migrate.steps())]
    assert migrate.plan(bare_dsn).current


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_installs_at_once_make_one_schema_whatever_the_isolation_of_the_database(
    bare_dsn: str, level: str
) -> None:
    """Who waited for the other has to see what the other did."""
    with psycopg.connect(bare_dsn, autocommit=True) as session:
        name = session.info.dbname
        session.execute(f"alter database {name} set default_transaction_isolation = '{level}'")
    with ThreadPoolExecutor(4) as threads:
        plans = list(threads.map(lambda _: migrate.install(bare_dsn), range(4)))
    assert sorted(len(plan.pending) for plan in plans) == [0, 0, 0, len(migrate.steps())]
    assert migrate.uninstall(bare_dsn) > 0


def test_an_install_that_fails_leaves_nothing_behind(bare_dsn: str, code: list[Step]) -> None:
    code.append(Step("core", "009_broken.sql", "create table trunkline.half (); select 1 / 0;"))
    with pytest.raises(DatabaseError) as caught:
        migrate.install(bare_dsn)
    assert caught.value.sqlstate == "22012"
    with psycopg.connect(bare_dsn) as session:
        assert ask(session, "select to_regnamespace('trunkline')") is None


def test_a_schema_of_somebody_else_is_neither_filled_nor_dropped(bare_dsn: str) -> None:
    with psycopg.connect(bare_dsn, autocommit=True) as session:
        session.execute("create schema trunkline; create table trunkline.theirs ()")
        for work in (migrate.install, migrate.uninstall):
            with pytest.raises(Conflict, match="something else"):
                work(bare_dsn)
        assert ask(session, "select to_regclass('trunkline.theirs') is not null")
        session.execute("drop table trunkline.theirs")
    migrate.install(bare_dsn)


def test_a_function_that_fits_better_in_public_does_not_deceive_the_installer(
    bare_dsn: str, programs: Programs
) -> None:
    with psycopg.connect(bare_dsn, autocommit=True) as session:
        for arguments in ("text, text", "text, text, text", "text, int"):
            session.execute(
                f"create function public.format({arguments}) returns text language plpgsql as"
                " $$begin raise exception 'deceived'; end$$"
            )
    migrate.install(bare_dsn)
    migrate.uninstall(bare_dsn)
    programs.psql(bare_dsn, migrate.script())


def test_the_plan_reads_only(bare_dsn: str) -> None:
    migrate.plan(bare_dsn)
    with psycopg.connect(bare_dsn) as session:
        assert ask(session, "select to_regnamespace('trunkline')") is None


def test_a_server_that_is_too_old_is_refused(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "OLDEST_SERVER", 990000)
    for action in (migrate.plan, migrate.install, migrate.uninstall):
        with pytest.raises(SchemaMismatch, match="needs 15 or newer"):
            action(dsn)


def test_whoever_does_not_own_the_schema_is_told_who_may(dsn: str) -> None:
    as_reader = make_conninfo(dsn, options="-c role=trunkline_reader")
    for work in (migrate.plan, migrate.install, migrate.uninstall):
        with pytest.raises(Forbidden, match="The owner of the schema may"):
            work(as_reader)
    assert migrate.plan(dsn).current


def test_what_a_superuser_adds_belongs_to_the_owner_of_the_schema(bare_dsn: str) -> None:
    role = f"owner_{uuid4().hex}"
    with closing(psycopg.connect(bare_dsn, autocommit=True)) as root:
        database = ask(root, "select current_database()")
        root.execute(f"create role {role}")
        root.execute(f"grant create on database {database} to {role}")
        try:
            migrate.install(make_conninfo(bare_dsn, options=f"-c role={role}"))
            root.execute("drop function trunkline.log_flush()")
            migrate.install(bare_dsn)
            owners = "select distinct proowner::regrole::text from pg_proc where pronamespace = %s"
            found = column(root, f"{owners}::regnamespace order by 1", ["trunkline"])
            assert found in ([role], [role, "trunkline_matcher"])
            migrate.uninstall(bare_dsn)
        finally:
            root.execute(f"drop owned by {role}")
            root.execute(f"drop role {role}")


def test_a_server_that_is_not_there_is_said_to_be_unavailable() -> None:
    with pytest.raises(Unavailable):
        migrate.install("host=/nowhere dbname=x")


# Upgrading


def test_a_changed_function_file_is_applied_anew(
    dsn: str, session: Session, code: list[Step]
) -> None:
    change(
        code,
        "functions/incarnation.sql",
        "create or replace function trunkline.incarnation() returns int"
        " language sql as 'select 4711';",
    )
    assert [step.file for step in migrate.plan(dsn).pending] == ["functions/incarnation.sql"]
    migrate.install(dsn)
    assert ask(session, "select trunkline.incarnation()") == 4711
    assert migrate.plan(dsn).current


def test_new_files_are_applied_in_order_and_once(
    dsn: str, session: Session, code: list[Step]
) -> None:
    code += [
        Step("log", "008_more.sql", "create table trunkline.more (n int);"),
        Step(
            "log",
            "functions/more_fill.sql",
            "create or replace function trunkline.more_fill() returns void language sql as"
            " 'insert into trunkline.more values (1)';",
        ),
        Step("log", "009_post_fill.sql", "select trunkline.more_fill();"),
    ]
    migrate.install(dsn)
    change(code, "functions/more_fill.sql", released(code, "functions/more_fill.sql").text + "\n")
    migrate.install(dsn)
    assert column(session, "select n from trunkline.more") == [1]


def test_a_function_file_that_left_the_code_does_no_harm(dsn: str, code: list[Step]) -> None:
    code.remove(released(code, "functions/doctor_blockers.sql"))
    assert migrate.plan(dsn).current


def test_an_edited_migration_is_refused(dsn: str, code: list[Step]) -> None:
    change(code, "001_core.sql", released(code, "001_core.sql").text + "\n-- improved\n")
    plan = migrate.plan(dsn)
    assert plan.edited == ("core/001_core.sql",)
    assert not plan.current
    with pytest.raises(SchemaMismatch, match=r"core/001_core\.sql.*new numbered file"):
        migrate.install(dsn)


def test_a_migration_from_the_future_is_refused(dsn: str, session: Session) -> None:
    session.execute(
        "insert into trunkline.migration (capability, file, checksum, version)"
        " values ('core', '077_future.sql', 'x', '77.1.0')"
    )
    plan = migrate.plan(dsn)
    assert plan.newer
    assert not plan.current
    with pytest.raises(SchemaMismatch) as caught:
        migrate.install(dsn)
    for word in ("newer", "77.1.0", __version__, "077_future.sql", "Install the newer"):
        assert word in str(caught.value)


def test_functions_of_a_newer_release_are_not_put_back(
    dsn: str, session: Session, code: list[Step]
) -> None:
    session.execute(
        "update trunkline.migration set version = '77.1.0', checksum = 'newer'"
        " where file = 'functions/incarnation.sql'"
    )
    with pytest.raises(SchemaMismatch, match=r"newer schema \(77\.1\.0\)"):
        migrate.install(dsn)


def test_a_dropped_function_is_found_and_put_back(dsn: str, session: Session) -> None:
    session.execute("drop function trunkline.config_list()")
    plan = migrate.plan(dsn)
    assert plan.missing == ("functions/config_list.sql",)
    assert not plan.current
    migrate.install(dsn)
    assert migrate.plan(dsn).current
    assert column(session, "select name from trunkline.config_list()")


def test_a_dropped_function_is_put_back_together_with_a_change(
    dsn: str, session: Session, code: list[Step]
) -> None:
    session.execute("drop function trunkline.config_list()")
    text = released(code, "functions/incarnation.sql").text
    change(code, "functions/incarnation.sql", text + "\n")
    migrate.install(dsn)
    assert migrate.plan(dsn).current


# The script


def test_the_script_run_by_psql_makes_the_same_schema(
    dsn: str, bare_dsn: str, programs: Programs
) -> None:
    programs.psql(bare_dsn, migrate.script())
    assert programs.dump(bare_dsn, "--schema-only") == programs.dump(dsn, "--schema-only")
    assert migrate.plan(bare_dsn).current
    for table in ("access", "config", "duty", "ring_slot"):
        contents = []
        for each in (dsn, bare_dsn):
            with psycopg.connect(each) as session:
                query = f"select to_jsonb(t) - 'rotated_at' from trunkline.{table} t"
                contents.append(sorted(map(str, column(session, query))))
        assert contents[0] == contents[1]


def test_the_script_of_an_upgrade_run_by_psql_is_the_upgrade(
    dsn: str, session: Session, code: list[Step], programs: Programs
) -> None:
    session.execute("drop function trunkline.config_list()")
    text = released(code, "functions/incarnation.sql").text
    change(code, "functions/incarnation.sql", text + "\n")
    code.append(Step("core", "900_later.sql", "create table trunkline.later ();"))
    programs.psql(dsn, migrate.pending_script(migrate.plan(dsn)))
    assert migrate.plan(dsn).current
    assert migrate.pending_script(migrate.plan(dsn)) == ""


def test_the_script_is_one_transaction(bare_dsn: str, programs: Programs) -> None:
    broken = migrate.script().replace("commit;", "select 1 / 0;")
    with pytest.raises(AssertionError, match="division by zero"):
        programs.psql(bare_dsn, broken)
    with psycopg.connect(bare_dsn) as session:
        assert ask(session, "select to_regnamespace('trunkline')") is None


# Uninstalling


def test_uninstalling_leaves_nothing_and_works_with_many_tables(dsn: str, session: Session) -> None:
    session.execute(
        "do $$ begin for i in 1 .. 400 loop"
        " execute format('create table trunkline.log_segment_%s (n int)', 100000 + i);"
        " end loop; end $$"
    )
    assert migrate.uninstall(dsn) > 400
    assert ask(session, "select to_regnamespace('trunkline')") is None
    assert migrate.uninstall(dsn) == 0
    migrate.install(dsn)
    assert migrate.plan(dsn).current


# Rights


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the server told during an install."""
    heard: list[str] = []

    def hear(notice: psycopg.errors.Diagnostic) -> None:
        heard.append(notice.message_primary or "")

    monkeypatch.setattr(migrate, "_say", hear)
    return heard


def test_create_on_the_database_is_all_an_install_needs(
    own_server: Callable[..., Server], said: list[str]
) -> None:
    server = own_server(fsync="off")
    with closing(psycopg.connect(server.dsn("postgres"), autocommit=True)) as root:
        for name in ("plain", "maker"):
            root.execute(f"create role {name} login {'createrole' if name == 'maker' else ''}")
            root.execute(f"create database of_{name}")
            root.execute(f"grant create on database of_{name} to {name}")

        plain = make_conninfo(server.dsn("of_plain"), user="plain")
        migrate.install(plain)
        assert migrate.plan(plain).current
        assert sum("may not create roles" in line for line in said) == 3
        assert roles(root) == []

        said.clear()
        maker = make_conninfo(server.dsn("of_maker"), user="maker")
        migrate.install(maker)
        assert said == []
        kinds = ("admin", "kv_client", "kv_replicator", "matcher", "reader", "writer")
        made = [f"trunkline_{kind}" for kind in kinds]
        assert roles(root) == made
        grants = "select has_function_privilege('trunkline_{}', 'trunkline.{}', 'execute')"
        with closing(psycopg.connect(plain, autocommit=True)) as owner:
            rows = owner.execute("select there from trunkline.roles_grant()").fetchall()
            assert rows == [(True,)] * 3
            for role, function in (("reader", "config_list()"), ("admin", "rings_rotate()")):
                assert ask(owner, grants.format(role, function))

        # roles belong to the server: installs into several databases meet there
        for name in ("of_plain", "of_maker"):
            root.execute(f"drop database {name}")
        for role in roles(root):
            root.execute(f"drop role {role}")
        names = [f"many{number}" for number in range(3)]
        for name in names:
            root.execute(f"create database {name}")
        with ThreadPoolExecutor(3) as threads:
            list(threads.map(migrate.install, [server.dsn(name) for name in names]))
        assert roles(root) == made


def roles(root: Session) -> list[str]:
    return column(root, "select rolname from pg_roles where rolname ~ '^trunkline_' order by 1")
