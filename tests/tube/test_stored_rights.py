"""What a role stores for a tube runs with its rights, whoever runs the worker."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.conninfo import make_conninfo
from tests.fixtures.asking import ask, call, column, connections, refused
from tests.fixtures.roles import login_roles, name_of
from tests.tube.sql_steps import attach, ensure, finish, schedule

import trunkline
from trunkline.core.errors import DatabaseError, Forbidden
from trunkline.testing import eventually
from trunkline.tube.downstreams import stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.asking import Session
    from tests.fixtures.roles import Role

WAYS_OUT = (
    "reset role",
    "set role none",
    "set local role none",
    "set role {boss}",
    "set local role {boss}",
    "reset session authorization",
    "set session authorization {boss}",
    "set local session authorization default",
    "select set_config('role', 'none', false)",
    "select set_config('role', 'none', true)",
    "select set_config('role', '{boss}', true)",
    "select set_config('session_authorization', '{boss}', false)",
    "reset all",
    "discard all",
    "rollback",
    "commit",
    "select 1; reset role; select 1",
    "do $do$ begin execute 'reset role'; end $do$",
    "grant {boss} to public",
    "alter role {boss} rename to other",
    "select trunkline._run_as('{boss}', 'select 1')",
)
# A sequence tells of an escape: no rollback takes back what it gave.
BAIT = """
create sequence escaped;
create function out_of_here(text) returns boolean language plpgsql as $escape$
declare
  way text;
begin
  foreach way in array {ways} loop
    begin
      execute way;
    exception when others then null;
    end;
    if (select rolsuper from pg_roles where rolname = current_user) then
      perform nextval('public.escaped');
    end if;
  end loop;
  return true;
end $escape$;
create table seen (who name, role text);
create function out_of_there() returns trigger language plpgsql as $escape$
begin
  perform public.out_of_here('');
  insert into public.seen select current_user, current_setting('role');
  return new;
end $escape$;
create type label as enum ('a', 'b');
create function label_out(label) returns json language sql as
  $escape$ select to_json(public.out_of_here('')) $escape$;
create cast (label as json) with function label_out(label);
create table bait (id int primary key, name label default 'a');
"""
EVIL = "public.out_of_here('')"
LOOT = {"table": "loot.documents"}


@pytest.fixture
def boss(dsn: str) -> Iterator[Session]:
    """A superuser, as whom workers run."""
    with connections(dsn) as connect:
        yield connect()


@pytest.fixture
def role(boss: Session, dsn: str) -> Iterator[Role]:
    with connections(dsn) as connect, login_roles(boss, connect) as make:
        yield make


@pytest.fixture
def mallory(role: Role, boss: Session, dsn: str) -> Iterator[Session]:
    """A writer with a table full of code, and a tube; logged in, with nothing to return to."""
    name = name_of(role("trunkline_writer"))
    boss.execute(f"create schema loot authorization {name}")
    with connections(make_conninfo(dsn, user=name)) as connect:
        yield _prepared(boss, connect())


def _prepared(boss: Session, mallory: Session) -> Session:
    boss_name = ask(boss, "select session_user")
    ways = ", ".join("$way$" + way.format(boss=boss_name) + "$way$" for way in WAYS_OUT)
    mallory.execute(BAIT.format(ways=f"array[{ways}]"))
    ensure(mallory, "hers")
    return mallory


def escaped(session: Session) -> bool:
    return bool(ask(session, "select is_called from escaped"))


def follow(session: Session, tube: str, options: dict[str, Any], kind: str = "postgres") -> None:
    call(session, "tube_downstream", tube=tube, kind=kind, options=json.dumps(options))


async def deliver(dsn: str, tube: str) -> int:
    """Work a tube once as `trunkline up` does; how many keys were delivered."""
    async with trunkline.connect(dsn) as tl:
        await tl.tube.tick()
        (row,) = [row for row in await tl.tube.downstreams() if row.tube == tube]
        worker = tl.tube.worker_for(row)
        try:
            return await worker.run_once()
        finally:
            stop = asyncio.Event()
            stop.set()
            await worker.run(stop)  # gives the lanes back


async def held_back(dsn: str, tube: str) -> str:
    """Work a tube as `trunkline up` does: it delivers nothing and parks nothing; why it ended."""
    async with trunkline.connect(dsn) as tl:
        await tl.tube.tick()
        (row,) = [row for row in await tl.tube.downstreams() if row.tube == tube]
        worker, stop = tl.tube.worker_for(row), asyncio.Event()
        running = asyncio.create_task(worker.run(stop))
        await eventually(lambda: worker._hold_until > 0 or running.done())
        stop.set()
        (failed,) = await asyncio.gather(running, return_exceptions=True)
        assert worker._delivered == 0
        assert await tl.tube.parked(tube) == []
        return str(failed)


def test_the_bait_tells_of_an_escape(boss: Session, mallory: Session) -> None:
    boss.execute(f"select {EVIL}")
    assert escaped(boss)


@pytest.mark.parametrize("query", [None, f"select k, {EVIL}::text from unnest(%(keys)s) k"])
async def test_no_expression_takes_the_rights_of_the_worker(
    boss: Session, mallory: Session, dsn: str, query: str | None
) -> None:
    ensure(mallory, "hers", condition=EVIL)
    attachment = attach(mallory, "bait", "hers", condition=EVIL, shard=f"{EVIL}::int")
    follow(mallory, "hers", LOOT | ({"enrich": query} if query else {}))
    mallory.execute("insert into bait values (1), (2)")
    assert await deliver(dsn, "hers") == 2
    finish(boss, schedule(boss, "hers", relation="bait"))
    assert await deliver(dsn, "hers") == 2
    call(boss, "tube_enrich", attachment=attachment, keys=["1"], shards=[1])
    assert not escaped(boss)
    assert ask(boss, "select count(*) from loot.documents where document is not null") == 2


@pytest.mark.parametrize(
    "left",
    [
        f"declare c cursor with hold for select {EVIL}",
        f"create domain pg_temp.text as pg_catalog.text check ({EVIL} is not null)",
        "create temp table documents (id int)",
        "create function pg_temp.count(int) returns int language sql as 'select 1'",
    ],
)
def test_a_write_that_leaves_code_for_the_session_behind_is_refused(
    boss: Session, mallory: Session, left: str
) -> None:
    mallory.execute(
        "create table loot.target (id int);"
        "create function loot.leave() returns trigger language plpgsql as $leave$"
        f" begin execute $way${left}$way$; return new; end $leave$;"
        "create trigger leave before insert on loot.target"
        " for each row execute function loot.leave()"
    )
    write = "select trunkline._run_as(%s, %s, keep => true, answers => false)"
    values = [name_of(mallory), "insert into loot.target values (1)"]
    with refused("TL403", "left a holdable cursor or a temporary object behind"):
        boss.execute(write, values)
    boss.execute("select 'a'::text")
    assert not escaped(boss)
    assert ask(boss, "select count(*) from loot.target") == 0
    mallory.execute("drop trigger leave on loot.target")
    boss.execute(write, values)
    assert ask(boss, "select count(*) from loot.target") == 1


async def test_a_connection_whose_statements_are_gone_is_replaced(dsn: str) -> None:
    async with trunkline.connect(dsn, pool_max=1) as tl:
        for _ in range(8):
            await tl.tube.downstreams()
        async with tl.transaction() as connection:
            await connection.execute("deallocate all")
        with suppress(DatabaseError):
            await tl.tube.downstreams()
        await tl.tube.downstreams()


def test_passwords_of_a_downstream_are_for_roles_that_manage_the_tube(
    boss: Session, mallory: Session, role: Role
) -> None:
    follow(mallory, "hers", {"url": "redis://:secret@localhost"}, kind="redis")
    options = "select options ->> 'url' from trunkline.tube_downstreams()"
    assert ask(mallory, options) == "redis://:secret@localhost"
    assert ask(role("trunkline_reader"), options) is None


async def test_code_of_a_table_runs_as_its_owner_for_a_downstream_of_a_superuser(
    boss: Session, mallory: Session, dsn: str
) -> None:
    attach(mallory, "bait", "hers")
    for table in ("loot.documents", "public.documents"):
        follow(boss, "hers", {"table": table})
        mallory.execute("insert into bait select coalesce(max(id), 0) + 1 from bait")
        assert await deliver(dsn, "hers") == 1
    assert not escaped(boss)


async def test_code_at_the_target_runs_as_the_role_that_set_the_downstream(
    boss: Session, mallory: Session, dsn: str
) -> None:
    attach(mallory, "bait", "hers")
    follow(mallory, "hers", LOOT)
    mallory.execute("insert into bait values (1)")
    assert await deliver(dsn, "hers") == 1
    mallory.execute(
        "create trigger early before insert or update on loot.documents"
        " for each row execute function out_of_there();"
        "create trigger late after insert or update on loot.documents"
        " for each row execute function out_of_there();"
        f"alter table loot.documents add extra boolean default {EVIL}, add check ({EVIL});"
        f"create policy p on loot.documents using ({EVIL});"
        "alter table loot.documents enable row level security, force row level security"
    )
    mallory.execute("insert into bait values (2); update bait set name = 'b'")
    assert await deliver(dsn, "hers") == 2
    follow(boss, "hers", LOOT)  # to a table of hers
    mallory.execute("update bait set name = 'a'")
    assert await deliver(dsn, "hers") == 2
    assert not escaped(boss)
    assert column(boss, "select distinct who::text from seen") == [name_of(mallory)]
    assert column(boss, "select distinct role from seen") == [name_of(mallory)]


@pytest.mark.parametrize("late", ["trigger", "exclude"])
async def test_nothing_is_put_off_until_the_commit_of_the_worker(
    boss: Session, mallory: Session, dsn: str, late: str
) -> None:
    attach(mallory, "bait", "hers")
    follow(mallory, "hers", LOOT)
    mallory.execute("insert into bait values (1)")
    assert await deliver(dsn, "hers") == 1
    mallory.execute(
        "create function always(text) returns int language plpgsql immutable as"
        f" $$ begin perform {EVIL}; return 1; end $$"
    )
    mallory.execute(
        "create constraint trigger late after insert on loot.documents"
        " deferrable initially deferred for each row execute function out_of_there()"
        if late == "trigger"
        else "alter table loot.documents add constraint late exclude"
        " using btree (key with =, (always(key)) with =) deferrable initially deferred"
    )
    mallory.execute("insert into bait values (2)")
    await held_back(dsn, "hers")
    assert not escaped(boss)


@pytest.mark.parametrize(
    "query",
    [
        None,
        "select k, (select min(secret) from app.account) from unnest(%(keys)s) k",
        "select k, pg_read_file('/etc/passwd') from unnest(%(keys)s) k",
        "select k, trunkline.log_trim('payroll', 0, 1)::text from unnest(%(keys)s) k",
    ],
)
async def test_a_tube_of_others_gives_nothing_away(
    boss: Session, mallory: Session, dsn: str, query: str | None
) -> None:
    boss.execute("create schema app; create table app.account (id int primary key, secret text)")
    boss.execute("select trunkline.log_create('payroll')")
    ensure(boss, "theirs")
    attach(boss, "app.account", "theirs")
    boss.execute("insert into app.account values (50, 'VERYSECRET')")
    with refused("TL403"):
        follow(mallory, "theirs", LOOT)
    call(boss, "grant_on", object="tube:theirs", privilege="manage", role=name_of(mallory))
    follow(mallory, "theirs", LOOT | ({"enrich": query} if query else {}))
    await held_back(dsn, "theirs")
    assert ask(boss, "select count(*) from loot.documents") == 0


@pytest.mark.parametrize("table", ["public.wages", "trunkline.config", "pg_catalog.mine"])
async def test_a_target_that_the_role_may_not_write_is_refused(
    boss: Session, mallory: Session, dsn: str, table: str
) -> None:
    boss.execute("create table public.wages (id int primary key, amount int)")
    attach(mallory, "bait", "hers")
    mallory.execute("insert into bait values (1)")
    follow(mallory, "hers", {"table": table})
    said = await held_back(dsn, "hers")
    assert "denied" in said or "cannot take documents" in said
    assert ask(boss, "select count(*) from public.wages") == 0


async def test_a_topic_is_written_as_the_role_that_set_the_downstream(
    boss: Session, mallory: Session, dsn: str
) -> None:
    attach(mallory, "bait", "hers")
    follow(mallory, "hers", {"topic": "changes"}, "topic")
    mallory.execute("insert into bait values (1)")
    assert await deliver(dsn, "hers") == 1
    boss.execute(f"revoke trunkline_writer from {name_of(mallory)}")
    mallory.execute("update bait set name = 'b'")
    await held_back(dsn, "hers")


async def test_a_worker_that_may_not_act_as_the_role_says_so(
    boss: Session, mallory: Session, role: Role, dsn: str
) -> None:
    service = role("trunkline_admin")
    as_service = make_conninfo(dsn, user=name_of(service))
    attachment = attach(mallory, "bait", "hers", condition="id > 0")
    follow(mallory, "hers", LOOT)
    mallory.execute("insert into bait values (1)")
    backfill = schedule(mallory, "hers", relation="bait")
    said = await held_back(as_service, "hers")
    with refused("TL403") as caught:
        service.execute("select trunkline.tube_backfill_step(%s)", [backfill])
    for text in (said, str(caught.value.diag.message_hint)):
        assert f"grant {name_of(mallory)} to {name_of(service)}" in text
    boss.execute(f"grant {name_of(mallory)} to {name_of(service)}")
    finish(service, backfill)
    assert await deliver(as_service, "hers") >= 1
    assert ask(boss, "select count(*) from loot.documents") == 1
    # and when the role is gone, or was never recorded
    for gone in ("'nobody_there'", "null"):
        boss.execute(f"update trunkline.tube_table set role = {gone}")
        with refused("TL403") as caught:
            call(boss, "tube_enrich", attachment=attachment, keys=["1"])
        assert "Configure it again" in str(caught.value.diag.message_hint)
    boss.execute("update trunkline.tube_downstream set role = 'nobody_there'")
    mallory.execute("update bait set name = 'b'")
    assert "gone" in await held_back(dsn, "hers")


def test_the_condition_of_a_tube_enters_no_trigger_of_another_owner(
    boss: Session, mallory: Session, role: Role
) -> None:
    ensure(mallory, "hers", condition="id > 0 and out_of_here('x')")
    boss.execute("create table item (id int primary key)")
    with refused("TL403"):
        attach(boss, "item", "hers")
    other = role("trunkline_writer", owns="item")
    with refused("TL403"):
        attach(other, "item", "hers")
    call(mallory, "grant_on", object="tube:hers", privilege="manage", role=name_of(other))
    ensure(other, "hers", condition="id > 0")
    attach(other, "item", "hers")
    assert not escaped(boss)


def test_who_attaches_again_does_not_answer_for_what_others_wrote(
    boss: Session, mallory: Session
) -> None:
    attach(mallory, "bait", "hers", condition="id > 0")
    attach(boss, "bait", "hers", shard="id % 2")
    author = "select role from trunkline.tube_table where detached_at is null"
    assert ask(boss, author) == name_of(mallory)
    attach(boss, "bait", "hers", condition="id > 1", shard="id % 3")
    assert ask(boss, author) == ask(boss, "select current_user")
    attach(mallory, "bait", "hers", condition="id > 2")
    assert ask(boss, author) == name_of(mallory)


def test_a_role_cannot_loosen_the_function_that_runs_its_text(
    boss: Session, mallory: Session
) -> None:
    name = name_of(mallory)
    runner = "pg_temp.trunkline_run_as_" + str(
        ask(boss, "select oid::text from pg_roles where rolname = %s", [name])
    )
    mallory.execute(
        "create function loosen() returns text[] language plpgsql as $$ begin"
        f" execute 'alter routine {runner} security invoker'; return null; end $$"
    )
    run = "select n from trunkline._run_as(%s, %s, keep => true)"
    text = "select {}::text[], null::text[], null::int[], {}::int"
    for _ in range(2):
        boss.execute(run, [name, text.format("public.loosen()", 1)])
        boss.execute(run, [name, text.format("null", EVIL)])
    assert not escaped(boss)
    assert ask(boss, "select current_user = session_user")


@pytest.mark.parametrize("keep", [False, True])
def test_nothing_of_the_text_stays_in_the_session(
    boss: Session, mallory: Session, keep: bool
) -> None:
    mallory.execute(
        "create function litter() returns text[] language plpgsql as $$ begin"
        "  perform set_config('search_path', 'loot, pg_catalog', false);"
        f"  deallocate all; prepare ours as select {EVIL};"
        " return null; end $$"
    )
    boss.execute("prepare ours as select 1")
    before = ask(boss, "show search_path")
    boss.execute(
        "select trunkline._run_as(%s, 'select public.litter(), null::text[], null::int[], 1',"
        " keep => %s)",
        [name_of(mallory), keep],
    )
    assert ask(boss, "show search_path") == before
    with boss.transaction():
        boss.execute(
            "select trunkline._run_as(%s, 'select null::text[], null::text[], null::int[], 1',"
            " keep => %s)",
            [name_of(mallory), keep],
        )
        assert ask(boss, "select current_user = session_user")
        assert ask(boss, "show search_path") == before
    assert column(boss, "select name from pg_prepared_statements where from_sql") == []
    assert not escaped(boss)


def test_a_session_runs_text_only_as_roles_it_may_act_as(
    boss: Session, mallory: Session, role: Role
) -> None:
    reader = role("trunkline_reader")
    for other in (name_of(mallory), ask(boss, "select current_user"), "not_there"):
        with refused("TL403"):
            reader.execute("select trunkline._run_as(%s, 'select 1')", [other])
    database = ask(boss, "select quote_ident(current_database())")
    boss.execute(f"revoke temporary on database {database} from public")
    with refused("TL403") as caught:
        boss.execute("select trunkline._run_as(%s, 'select 1')", [name_of(reader)])
    assert "grant temporary" in str(caught.value.diag.message_hint)


def test_functions_are_loaded_only_where_the_operator_lists_them() -> None:
    target = {"target": "json:dumps"}
    for allowed in ("", "json:loads", "jso:*", "other:*"):
        with pytest.raises(Forbidden, match="TRUNKLINE_CALLABLES"):
            stored("callable", target, dsn="", author="a", callables=allowed)
    for allowed in ("json:dumps", "other:*, json:*"):
        stored("callable", target, dsn="", author="a", callables=allowed)
    both = target | {"older_than": "os:system"}
    with pytest.raises(Forbidden):
        stored("callable", both, dsn="", author="a", callables="json:*")


def test_stored_options_name_only_variables_for_downstreams(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SECRET", "x")
    monkeypatch.setenv("TRUNKLINE_DOWNSTREAM_URL", "redis://there:1234/0")
    with pytest.raises(Forbidden, match="TRUNKLINE_DOWNSTREAM_SECRET"):
        stored("redis", {"url": "redis://${SECRET}/0"}, dsn="", author="a", callables="")
    stored("redis", {"url": "${TRUNKLINE_DOWNSTREAM_URL}"}, dsn="", author="a", callables="")


@pytest.mark.parametrize(
    "dsn",
    [
        "dbname=other",
        "host=/run/postgresql user=postgres dbname=postgres",
        "postgresql://u@h/db",
        "service=production",
        "postgresql://u:p@h/db?passfile=/root/.pgpass",
        "postgresql://u:p@h/db?sslkey=/root/key",
    ],
)
def test_a_stored_connection_uses_nothing_of_the_account_of_the_worker(dsn: str) -> None:
    with pytest.raises(Forbidden):
        stored("postgres", {"dsn": dsn}, dsn="", author="a", callables="")


def test_a_variable_in_front_of_the_host_cannot_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUNKLINE_DOWNSTREAM_PASSWORD", "a/b@c:d#e")
    monkeypatch.setenv("TRUNKLINE_DOWNSTREAM_HOST", "cache.example.org:1234")
    url = "redis://:${TRUNKLINE_DOWNSTREAM_PASSWORD}@${TRUNKLINE_DOWNSTREAM_HOST}/0"
    downstream: Any = stored("redis", {"url": url}, dsn="", author="a", callables="")
    reached = downstream._redis.connection_pool.connection_kwargs
    assert (reached["host"], reached["port"]) == ("cache.example.org", 1234)
    assert reached["password"] == "a/b@c:d#e"


def test_spark_evaluates_no_condition_of_others_with_its_own_rights(
    boss: Session, mallory: Session
) -> None:
    attach(mallory, "bait", "hers", condition=EVIL)
    asked = "select condition from trunkline._spark_attached('hers')"
    assert ask(mallory, asked) == f"({EVIL}\n)"
    with refused("TL403"):
        boss.execute(f"select {ask(boss, asked)}")
    attach(boss, "bait", "hers", condition="id > 0")
    assert ask(boss, asked) == "(id > 0\n)"
    assert not escaped(boss)
