"""Calls run on a pool, in the caller's transaction, through restarts; errors are named."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import threading
import time
import traceback
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import anyio
import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from tests.fixtures.asking import ask, column
from tests.fixtures.postgres import new_database

from trunkline.core import errors, lease, migrate
from trunkline.core.calls import (
    AsyncFace,
    Call,
    SyncFace,
    awaited,
    blocking,
    many,
    nothing,
    one,
    scalar,
)
from trunkline.core.db import AsyncDb, Db
from trunkline.core.eager import EagerConnection
from trunkline.testing import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from tests.fixtures.postgres import AnyServer
    from tests.fixtures.proxy import Proxy

    from trunkline.core.embedded import Server

Session = psycopg.Connection[Any]


class Twin:
    """Both kinds of Db behind one face, so that every promise is tested of both."""

    def __init__(self, kind: str, dsn: str, **options: Any):
        self.kind = kind
        self.db: Any = (AsyncDb if kind == "async" else Db)(dsn, **options)

    async def run(self, call: Call[Any], **options: Any) -> Any:
        if self.kind == "async":
            return await self.db.run(call, **options)
        return await asyncio.to_thread(self.db.run, call, **options)

    async def close(self) -> None:
        if self.kind == "async":
            await self.db.close()
        else:
            await asyncio.to_thread(self.db.close)


@pytest.fixture(params=["async", "sync"])
async def make(request: pytest.FixtureRequest) -> AsyncIterator[Callable[..., Twin]]:
    made: list[Twin] = []

    def twin(dsn: str, **options: Any) -> Twin:
        made.append(Twin(request.param, dsn, **options))
        return made[-1]

    yield twin
    for each in made:
        await each.close()


@pytest.fixture(scope="module")
def dsn(server: AnyServer, template: str) -> Iterator[str]:
    """One database for all tests: they leave nothing behind but a setting."""
    with new_database(server, template=template) as name:
        yield server.dsn(name)


@pytest.fixture(scope="module")
def session(dsn: str) -> Iterator[Session]:
    with psycopg.connect(dsn, autocommit=True) as opened:
        opened.execute(
            "create function trunkline.nap(seconds float) returns int language sql as"
            " 'select 1 from pg_sleep(seconds)';"
            "create function trunkline.pid() returns int language sql as 'select pg_backend_pid()'"
        )
        yield opened


@pytest.fixture(autouse=True)
def defaults(session: Session) -> Iterator[None]:
    yield
    session.execute("update trunkline.config set value = default_value")


GET: Call[str] = Call("config_get", {"name": "lease.ttl"}, scalar, safe_to_repeat=True)
PID: Call[int] = Call("pid", {}, scalar)


def set_ttl(value: str) -> Call[str]:
    return Call("config_set", {"name": "lease.ttl", "value": value}, scalar)


def nap(seconds: float, *, safe: bool = False) -> Call[int]:
    types = {"seconds": "float"}
    return Call("nap", {"seconds": seconds}, scalar, safe_to_repeat=safe, types=types)


# Errors

NAMED = {
    "TL400": errors.BadRequest,
    "TL403": errors.Forbidden,
    "TL404": errors.NotFound,
    "TL409": errors.Conflict,
    "TL410": errors.PositionTrimmed,
    "TL413": errors.TooLarge,
    "TL415": errors.UnsupportedCodec,
    "TL422": errors.Invalid,
    "TL423": errors.LeaseLost,
    "TL426": errors.SchemaMismatch,
    "TL429": errors.TooMany,
    "TL503": errors.Unavailable,
}


def raising(code: str, facts: str = "{}") -> Call[None]:
    arguments = {"code": code, "message": "it is so.", "hint": "Do that.", "facts": facts}
    return Call("_raise", arguments, nothing, types={"facts": "jsonb"})


async def test_every_code_of_the_database_has_its_class(
    dsn: str, make: Callable[..., Twin]
) -> None:
    twin = make(dsn)
    for code, kind in NAMED.items():
        with pytest.raises(errors.TrunklineError) as caught:
            await twin.run(raising(code, json.dumps({"first": 8120, "code": code})))
        error = caught.value
        assert type(error) is kind
        assert (error.code, error.message, error.hint) == (code, "it is so.", "Do that.")
        assert error.details == {"first": 8120, "code": code}
        assert str(error) == "it is so. Do that."
        assert isinstance(error.__cause__, psycopg.Error)


def test_every_named_class_is_in_the_table() -> None:
    kinds = {
        kind
        for kind in errors.TrunklineError.__subclasses__()
        if kind.__module__ == errors.__name__ and kind is not errors.DatabaseError
    }
    assert kinds == set(NAMED.values())
    assert {kind.code for kind in kinds} == set(NAMED)


@pytest.mark.parametrize(
    ("statement", "kind", "word"),
    [
        ("select 1 / 0", errors.DatabaseError, "division by zero"),
        ("select * from nothing", errors.NotFound, "does not exist"),
        ("select trunkline.nothing()", errors.SchemaMismatch, "trunkline db install"),
        ("select * from trunkline.nothing", errors.SchemaMismatch, "trunkline db install"),
        ("do $$ begin raise sqlstate 'TL499' using message = 'new'; end $$", None, "new"),
        ("select 'app..orders'::regclass", errors.Invalid, "schema.table"),
        ("""select '"\\u0000"'::jsonb""", errors.Invalid, "\\u0000 cannot be converted"),
        ("select 9223372036854775807 + 1", errors.Invalid, "bigint out of range"),
        ("do $$ begin raise sqlstate '57P01'; end $$", errors.Unavailable, "DSN right"),
        ("do $$ begin raise sqlstate '25P03'; end $$", errors.Unavailable, "idle_in_transaction_"),
        ("do $$ begin raise sqlstate '25P04'; end $$", errors.Unavailable, "transaction_timeout=0"),
        ("do $$ begin raise sqlstate '57P05'; end $$", errors.Unavailable, "idle_session_timeout"),
        ("do $$ begin raise sqlstate '57014'; end $$", errors.DatabaseError, ""),
        ("do $$ begin raise sqlstate '42501'; end $$", errors.Forbidden, "Grant trunkline"),
        ("do $$ begin raise sqlstate '25006'; end $$", errors.DatabaseError, "takes only reads"),
        ("execute another_session_prepared_it", errors.DatabaseError, "TRUNKLINE_PREPARE=false"),
    ],
)
def test_other_states_are_told_by_what_can_be_done_about_them(
    session: Session, statement: str, kind: type[errors.TrunklineError] | None, word: str
) -> None:
    with pytest.raises(psycopg.Error) as caught:
        session.execute(statement)
    error = errors.from_database(caught.value)
    assert type(error) is (kind or errors.DatabaseError)
    assert word in str(error)
    if isinstance(error, errors.DatabaseError):
        assert error.sqlstate == caught.value.sqlstate


@pytest.mark.parametrize("facts", [None, '{"asked": 1}'])
@pytest.mark.parametrize("hint", [None, "Ask again."])
def test_an_error_has_no_empty_hint_and_no_empty_facts(
    session: Session, hint: str | None, facts: str | None
) -> None:
    with pytest.raises(psycopg.Error) as caught:
        session.execute(
            "select trunkline._raise('TL422', 'no.', %s, %s)", [hint or "", facts or "{}"]
        )
    told = caught.value.diag
    assert (told.sqlstate, told.message_primary) == ("TL422", "no.")
    assert (told.message_hint, told.message_detail) == (hint, facts)


async def test_an_error_shows_no_context_of_its_functions(
    dsn: str, make: Callable[..., Twin]
) -> None:
    with pytest.raises(errors.NotFound) as caught:
        await make(dsn).run(Call("log_describe", {"topic": "nothing"}, scalar))
    shown = "".join(traceback.format_exception(caught.value))
    assert "there is no topic" in shown
    assert "CONTEXT" not in shown
    assert "PL/pgSQL" not in shown
    cause = caught.value.__cause__
    assert isinstance(cause, psycopg.Error)
    assert "_log_topic_row" in (cause.diag.context or "")


def test_a_detail_that_is_no_object_is_kept_as_text(session: Session) -> None:
    for detail, found in (("just words", "just words"), ("[1]", [1])):
        with pytest.raises(psycopg.Error) as caught:
            session.execute(f"do $$ begin raise sqlstate 'TL404' using detail = '{detail}'; end $$")
        assert errors.from_database(caught.value).details == {"detail": found}


async def test_a_database_without_the_schema_says_what_to_run(
    bare_dsn: str, make: Callable[..., Twin]
) -> None:
    with pytest.raises(errors.SchemaMismatch, match="trunkline db install"):
        await make(bare_dsn).run(GET)


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b"])
async def test_text_that_the_database_cannot_hold_is_invalid(
    dsn: str, make: Callable[..., Twin], text: str
) -> None:
    with pytest.raises(errors.Invalid):
        await make(dsn).run(Call("config_get", {"name": text}, scalar))


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1, 2**63])
async def test_a_number_that_is_too_large_for_its_argument_is_named(
    dsn: str, make: Callable[..., Twin], number: int
) -> None:
    with pytest.raises(errors.Invalid, match=f"lanes is out of range, got {number}"):
        await make(dsn).run(Call("tube_ensure", {"tube": "t", "lanes": number}, nothing))


# Calls


def test_a_call_is_one_statement_with_names_casts_and_formats() -> None:
    call: Call[None] = Call(
        "log_append",
        {"topic": "orders", "payload": b"x", "headers": None},
        nothing,
        types={"headers": "jsonb"},
    )
    assert call.statement() == (
        b'select * from trunkline."log_append"'
        b'("topic" => %s, "payload" => %b, "headers" => %s::jsonb)'
    )
    assert call.values() == ["orders", b"x", None]
    assert call.statement() is call.statement()


async def test_answers_are_shaped(dsn: str, make: Callable[..., Twin]) -> None:
    twin = make(dsn)
    rows = await twin.run(Call("config_list", {}, many(dict)))
    assert {"name", "value", "default_value"} <= set(rows[0])
    listed: Call[dict[str, Any]] = Call("ring_list", {}, one(dict))
    assert (await twin.run(listed))["ring"] == "cursor"


async def test_methods_are_made_from_calls_once_for_both_kinds(dsn: str) -> None:
    def ask_ttl(*, name: str = "lease.ttl") -> Call[str]:
        """How long a lease lasts."""
        return Call("config_get", {"name": name}, scalar)

    class Waiting(AsyncFace):
        ttl = awaited(ask_ttl)

    class Blocking(SyncFace):
        ttl = blocking(ask_ttl)

    waiting, blocked = Waiting(), Blocking()
    waiting._db, blocked._db = AsyncDb(dsn), Db(dsn)
    try:
        answer = await waiting.ttl(name="lease.ttl")
        assert answer == await asyncio.to_thread(blocked.ttl) == "30 seconds"
        assert Waiting.ttl.__doc__ == Blocking.ttl.__doc__ == "How long a lease lasts."
    finally:
        await waiting._db.close()
        await asyncio.to_thread(blocked._db.close)


# Transactions


async def test_a_call_joins_the_callers_transaction(
    dsn: str, session: Session, make: Callable[..., Twin]
) -> None:
    twin = make(dsn)

    async def in_transaction(value: str, *, fail: bool) -> None:
        if twin.kind == "async":
            async with await psycopg.AsyncConnection.connect(dsn) as connection:
                await twin.run(set_ttl(value), on=connection)
                if fail:
                    raise ZeroDivisionError
        else:
            with psycopg.connect(dsn) as connection:
                await twin.run(set_ttl(value), on=connection)
                if fail:
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await in_transaction("1 day", fail=True)
    assert await twin.run(GET) == "30 seconds"
    await in_transaction("1 day", fail=False)
    assert await twin.run(GET) == "1 day"


@pytest.mark.parametrize(
    ("kind", "given", "came"),
    [
        ("async", psycopg.Connection, "psycopg.Connection"),
        ("sync", psycopg.AsyncConnection, "psycopg.AsyncConnection"),
        ("async", str, "builtins.str"),
        ("sync", str, "builtins.str"),
    ],
)
async def test_what_is_no_connection_of_its_kind_is_refused_with_what_was_expected(
    dsn: str, kind: str, given: Any, came: str
) -> None:
    on = given.__new__(given)
    twin = Twin(kind, dsn)
    with pytest.raises(errors.Invalid, match=f"psycopg.*, got {came}"):
        await twin.run(GET, on=on)
    await twin.close()


@pytest.mark.parametrize("kind", ["async", "sync"])
@pytest.mark.parametrize(
    ("package", "instead"),
    [
        ("psycopg2.extensions", "select trunkline.broker_publish(%s, %s)"),
        ("asyncpg.connection", "select trunkline.broker_publish($1, $2)"),
        ("django.utils.connection", "Pass connection.connection"),
        ("sqlalchemy.orm.session", "driver_connection"),
        ("other", "tl.transaction()"),
    ],
)
async def test_a_connection_of_another_package_is_refused_with_what_to_pass(
    dsn: str, kind: str, package: str, instead: str
) -> None:
    members = {"__module__": package, "cursor": print, "cursor_factory": dict}
    on = type("Connection", (), members)()
    of_an_application = type("Mine", (type(on),), {"__module__": "app"})()
    twin = Twin(kind, dsn)
    for given in (on, of_an_application):
        with pytest.raises(errors.Invalid) as refused:
            await twin.run(GET, on=given)
        assert f"got {type(given).__module__}.{type(given).__name__}" in refused.value.message
        assert instead in refused.value.hint
    await twin.close()


def test_a_proxy_of_sqlalchemy_for_a_blocking_connection_will_do(dsn: str) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    engine = sqlalchemy.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(dsn))
    twin = Db(dsn)
    with engine.begin() as connection:
        twin.run(set_ttl("1 day"), on=connection.connection)
        twin.run(set_ttl("2 days"), on=connection.connection.driver_connection)
        assert twin.run(GET) == "30 seconds"
    assert twin.run(GET) == "2 days"
    engine.dispose()


async def test_a_connection_whose_cursors_take_other_placeholders_will_do(
    dsn: str, db: AsyncDb
) -> None:
    async with await psycopg.AsyncConnection.connect(
        dsn, cursor_factory=psycopg.AsyncRawCursor
    ) as connection:
        assert await db.run(GET, on=connection) == "30 seconds"
    twin = Db(dsn)
    with psycopg.connect(dsn, cursor_factory=psycopg.RawCursor) as blocking_connection:
        assert twin.run(GET, on=blocking_connection) == "30 seconds"


async def test_a_refused_call_leaves_the_callers_transaction_to_the_caller(
    dsn: str, db: AsyncDb
) -> None:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await db.run(set_ttl("1 day"), on=connection)
        with pytest.raises(errors.Invalid):
            async with connection.transaction():
                await db.run(set_ttl("bad"), on=connection)
    assert await db.run(GET) == "1 day"


async def test_a_transaction_of_the_pool_commits_at_its_end_or_not_at_all(
    dsn: str, db: AsyncDb
) -> None:
    with pytest.raises(ZeroDivisionError):
        async with db.transaction() as connection:
            await db.run(set_ttl("1 day"), on=connection)
            raise ZeroDivisionError
    async with db.transaction() as connection:
        await db.run(set_ttl("2 days"), on=connection)
    twin = Db(dsn)
    assert await asyncio.to_thread(twin.run, GET) == "2 days"

    def fail() -> None:
        with twin.transaction() as blocking_connection:
            twin.run(set_ttl("3 days"), on=blocking_connection)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await asyncio.to_thread(fail)
    assert await db.run(GET) == "2 days"
    await asyncio.to_thread(twin.close)


# Lost connections


async def test_two_calls_in_one_message_are_one_transaction(dsn: str) -> None:
    db = AsyncDb(dsn)
    first = await db.run_after(set_ttl("41 seconds"), GET)
    assert "41" in first
    with pytest.raises(errors.NotFound):
        await db.run_after(set_ttl("42 seconds"), raising("TL404"))
    assert await db.run(GET) == first
    await db.close()


async def test_backends_that_died_under_the_pool_are_replaced_unseen(
    dsn: str, session: Session, make: Callable[..., Twin]
) -> None:
    """Also for calls that must not be repeated: nothing had been sent."""
    twin = make(dsn)
    for _ in range(3):
        await asyncio.gather(*(twin.run(nap(0.1)) for _ in range(4)))
        killed = column(
            session,
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and application_name = 'trunkline'",
        )
        assert len(killed) >= 4
        await eventually(lambda: assert_alone(session))
        pids = await asyncio.gather(*(twin.run(PID) for _ in range(6)))
        assert len(pids) == 6


def assert_alone(session: Session) -> None:
    others = ask(
        session,
        "select count(*) from pg_stat_activity"
        " where datname = current_database() and application_name = 'trunkline'",
    )
    assert others == 0


@pytest.mark.parametrize("safe", [True, False])
async def test_a_call_that_loses_its_connection_is_repeated_only_if_that_is_safe(
    dsn: str, session: Session, make: Callable[..., Twin], safe: bool
) -> None:
    twin = make(dsn)
    napping = asyncio.ensure_future(twin.run(nap(0.5, safe=safe)))

    def kill_it() -> None:
        killed = column(
            session,
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and wait_event = 'PgSleep'",
        )
        assert killed == [True]

    await eventually(kill_it)
    if safe:
        assert await napping == 1
    else:
        with pytest.raises(errors.Unavailable):
            await napping
    assert await twin.run(nap(0)) == 1


@pytest.mark.parametrize("state", ["40001", "40P01"])
async def test_a_call_that_was_rolled_back_for_another_is_made_again(
    dsn: str, session: Session, make: Callable[..., Twin], state: str
) -> None:
    session.execute(
        f"""create sequence trunkline.tries;
            create function trunkline.clash() returns bigint language plpgsql as $$
            begin
              if nextval('trunkline.tries') < 3 then
                raise exception using errcode = '{state}';
              end if;
              return currval('trunkline.tries');
            end $$"""
    )
    clash: Call[int] = Call("clash", {}, scalar)
    try:
        with pytest.raises(errors.DatabaseError):
            await make(dsn, patience=0).run(clash)
        assert await make(dsn).run(clash) == 3
    finally:
        session.execute("drop function trunkline.clash; drop sequence trunkline.tries")


async def test_a_function_whose_columns_changed_is_called_again(
    dsn: str, session: Session, make: Callable[..., Twin]
) -> None:
    make_widths = (
        "create function trunkline.widths() returns table ({}) language sql as 'select {}'"
    )
    widths: Call[Any] = Call("widths", {}, lambda rows: [dict(row) for row in rows])
    twin = make(dsn, pool_max=1)
    session.execute(make_widths.format("n int", "1").encode())
    try:
        for _ in range(7):
            assert await twin.run(widths) == [{"n": 1}]
        session.execute("drop function trunkline.widths")
        session.execute(make_widths.format("n int, m int", "1, 2").encode())
        assert await twin.run(widths) == [{"n": 1, "m": 2}]
    finally:
        session.execute("drop function trunkline.widths")


async def test_a_connection_with_a_stale_plan_is_not_lent_again(
    dsn: str, session: Session, db: AsyncDb
) -> None:
    session.execute("create table trunkline.wide (n int)")
    read = b"select * from trunkline.wide"
    try:
        for _ in range(7):
            async with db.connection() as connection:
                await connection.execute(read)
        session.execute("alter table trunkline.wide add column m int")
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            async with db.connection() as connection:
                await connection.execute(read)
        async with db.connection() as connection:
            await connection.execute(read)
    finally:
        session.execute("drop table trunkline.wide")


async def test_a_lost_connection_of_the_caller_is_not_replaced(
    dsn: str, session: Session, db: AsyncDb
) -> None:
    connection = await db.connect()
    session.execute("select pg_terminate_backend(%s)", [connection.info.backend_pid])
    with pytest.raises(errors.Unavailable):
        await db.run(GET, on=connection)
    await connection.close()


@pytest.mark.crash
async def test_calls_outlast_a_restart_of_the_server(
    own_server: Callable[..., Server],
) -> None:
    server = own_server(fsync="off")
    with closing(psycopg.connect(server.dsn("postgres"), autocommit=True)) as root:
        root.execute("create database app")
    dsn = server.dsn("app")
    migrate.install(dsn)
    twins = [Twin(kind, dsn, connect_timeout=1) for kind in ("async", "sync")]
    stop = asyncio.Event()
    answers = 0

    async def ask_on(twin: Twin) -> None:
        nonlocal answers
        while not stop.is_set():
            assert await twin.run(GET) == "30 seconds"
            answers += 1

    asking = [asyncio.ensure_future(ask_on(twin)) for twin in twins]
    await eventually(lambda: answers > 10)
    await asyncio.to_thread(server.restart)
    before = answers
    await eventually(lambda: answers > before + 10)
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)
    before = answers
    await eventually(lambda: answers > before + 10)
    stop.set()
    await asyncio.gather(*asking)
    await asyncio.to_thread(server.stop)
    calls = (twin.run(set_ttl("1 day")) for twin in twins)
    refused = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(error) for error in refused] == [errors.Unavailable] * 2
    for twin in twins:
        await twin.close()


async def test_a_server_that_stays_away_is_unavailable_when_patience_ends(
    make: Callable[..., Twin],
) -> None:
    twin = make("host=/nowhere dbname=x", connect_timeout=0.2, patience=0.3)
    with pytest.raises(errors.Unavailable) as caught:
        await twin.run(GET)
    assert caught.value.code == "TL503"


async def test_the_connection_that_came_back_last_is_lent_next(
    dsn: str, session: Session, make: Callable[..., Twin]
) -> None:
    twin = make(make_conninfo(dsn, application_name="crowd"), pool_max=3)
    await asyncio.gather(*(twin.run(nap(0.2)) for _ in range(3)))
    opened = session.execute("select pid from pg_stat_activity where application_name = 'crowd'")
    assert len(opened.fetchall()) == 3
    assert len({await twin.run(PID) for _ in range(4)}) == 1


async def test_who_waited_in_vain_for_a_connection_is_told_why(
    dsn: str, make: Callable[..., Twin]
) -> None:
    twin = make(make_conninfo(dsn, dbname="nowhere"), connect_timeout=1, patience=0)
    with pytest.raises(errors.Unavailable, match='database "nowhere" does not exist'):
        await twin.run(GET)
    await twin.close()


async def test_a_pool_that_is_all_lent_out_says_so(dsn: str) -> None:
    db = AsyncDb(dsn, pool_max=1, connect_timeout=0.2, patience=0)
    async with db.connection():
        with pytest.raises(errors.Unavailable, match="no connection"):
            await db.run(GET)
    assert await db.run(GET) == "30 seconds"
    await db.close()


async def test_who_is_cancelled_while_a_connection_comes_is_cancelled(dsn: str) -> None:
    db = AsyncDb(dsn, pool_max=1)
    for between in range(12):
        async with db.connection():
            waiting = asyncio.create_task(_hold(db))
            await _moments(12)
        await _moments(between)
        waiting.cancel()
        done, _ = await asyncio.wait({waiting}, timeout=5)
        assert done, f"it is still there when cancelled after {between} moments"
    await db.close()


def test_control_c_while_a_connection_is_lent_does_not_lose_it(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_connection: object) -> bool:
        raise KeyboardInterrupt

    with closing(Db(dsn, pool_max=1, connect_timeout=1, patience=0)) as db:
        with monkeypatch.context() as patched:
            patched.setattr("trunkline.core.db.hung_up", interrupted)
            with pytest.raises(KeyboardInterrupt):
                db.run(GET)
        assert db.run(GET) == "30 seconds"


@pytest.mark.parametrize("before", range(6))
async def test_who_is_cancelled_while_giving_a_connection_back_has_given_it_back(
    dsn: str, before: int
) -> None:
    db = AsyncDb(dsn, pool_max=1, connect_timeout=1, patience=0)
    for between in range(6):
        lent, enough = asyncio.Event(), asyncio.Event()
        holding = asyncio.create_task(_hold(db, lent, enough))
        await lent.wait()
        waiting = asyncio.create_task(db.run(GET))
        await _moments(before)
        enough.set()
        await _moments(between)
        holding.cancel()
        assert await waiting == "30 seconds", f"when cancelled after {between} moments"
    await db.close()


def test_control_c_while_waiting_for_a_connection_does_not_lose_it(dsn: str) -> None:
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    with closing(Db(dsn, pool_max=1, connect_timeout=5, patience=0)) as db:
        with db.connection(), pytest.raises(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            db.run(GET)
        assert db.run(GET) == "30 seconds"
    signal.signal(signal.SIGALRM, before)


async def test_a_scope_that_is_cancelled_while_a_connection_comes_ends_with_its_block(
    dsn: str,
) -> None:
    db = AsyncDb(dsn, pool_max=1)
    for between in range(12):
        scope = anyio.CancelScope()
        async with db.connection():
            waiting = asyncio.create_task(_hold_within(scope, db))
            await _moments(12)
        await _moments(between)
        scope.cancel()
        await asyncio.wait({waiting}, timeout=5)
        assert not waiting.cancelled(), f"so it is when cancelled after {between} moments"
    await db.close()


async def _hold_within(scope: anyio.CancelScope, db: AsyncDb) -> None:
    with scope:
        await _hold(db)


async def _moments(n: int) -> None:
    for _ in range(n):
        await asyncio.sleep(0)


async def _hold(
    db: AsyncDb, lent: asyncio.Event | None = None, enough: asyncio.Event | None = None
) -> None:
    async with db.connection():
        if lent:
            lent.set()
        await (enough or asyncio.Event()).wait()


async def test_closing_is_safe_at_any_time(dsn: str, make: Callable[..., Twin]) -> None:
    await make(dsn).close()
    twin = make(dsn)
    await twin.run(GET)
    await twin.close()
    await twin.close()
    with pytest.raises(errors.Unavailable):
        await twin.run(GET)


def test_a_connection_is_of_the_event_loop_that_used_it_first(dsn: str) -> None:
    db = asyncio.run(_used(AsyncDb(dsn)))
    for use in (db.run(GET), db.close()):
        with pytest.raises(errors.BadRequest, match=r"another event loop.*one asyncio\.run"):
            asyncio.run(use)


async def _used(db: AsyncDb) -> AsyncDb:
    await db.run(GET)
    return db


async def test_a_forked_child_is_told_to_connect_and_closes_nothing(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = await _used(AsyncDb(dsn))
    with monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: -1)
        with pytest.raises(errors.BadRequest, match="Connect after the fork"):
            await db.run(GET)
        await db.close()
    assert await db.run(GET) == "30 seconds"
    await db.close()


async def test_a_pool_is_closed_though_the_program_ends_and_cancels_all_tasks(dsn: str) -> None:
    db = AsyncDb(dsn)
    async with db.connection() as lent:
        await lent.execute("select 1")
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        if task.get_name().startswith("pool-"):
            task.cancel()
    await db.close()
    assert lent.closed


def test_a_program_that_ends_while_its_pool_connects_does_not_hang(dsn: str) -> None:
    async def fail() -> None:
        db = AsyncDb(dsn)
        async with db.connection() as lent:
            await lent.close()
        raise ZeroDivisionError  # without closing the pool, which looks for another connection

    def run() -> None:
        with pytest.raises(ZeroDivisionError):
            asyncio.run(fail())

    program = threading.Thread(target=run, daemon=True)
    program.start()
    program.join(20)
    assert not program.is_alive()


async def test_connections_carry_a_name_unless_the_dsn_has_one(
    dsn: str, session: Session, make: Callable[..., Twin]
) -> None:
    for conninfo, name in ((dsn, "trunkline"), (f"{dsn}&application_name=mine", "mine")):
        pid = await make(conninfo).run(PID)
        query = "select application_name from pg_stat_activity where pid = %s"
        assert ask(session, query, [pid]) == name


async def test_a_socket_of_this_machine_has_room_for_a_large_batch(dsn: str) -> None:
    db = AsyncDb(dsn)
    async with db.connection() as connection:
        there = socket.socket(fileno=os.dup(connection.fileno()))
    with there, socket.socket(there.family) as fresh:
        rooms = [one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) for one in (there, fresh)]
        assert (rooms[0] > rooms[1]) is (there.family.name == "AF_UNIX")
    await db.close()


async def test_nothing_is_prepared_when_told_so(dsn: str, session: Session) -> None:
    """A transaction pooler hands each transaction another session."""
    session.execute(
        "create or replace function trunkline.prepared() returns bigint language sql as"
        " 'select count(*) from pg_prepared_statements'"
    )
    for prepare in (True, False):
        db = AsyncDb(dsn, pool_max=1, prepare=prepare)
        for _ in range(8):
            await db.run(GET)
        count: Call[int] = Call("prepared", {}, scalar)
        assert (await db.run(count) > 0) is prepare
        await db.close()


async def test_a_session_of_ours_is_at_read_committed_whatever_the_default(
    dsn: str, make: Callable[..., Twin], session: Session
) -> None:
    session.execute(
        "create or replace function trunkline.isolation() returns text language sql as"
        " $$select current_setting('transaction_isolation')$$"
    )
    isolation: Call[str] = Call("isolation", {}, scalar)
    for default in ("repeatable read", "serializable"):
        value = default.replace(" ", "\\ ")
        other = make_conninfo(dsn, options=f"-c default_transaction_isolation={value}")
        assert await make(other).run(isolation) == "read committed"
        assert await make(other, prepare=False).run(isolation) == default


async def test_a_backslash_is_a_backslash_in_a_session_of_ours(
    dsn: str, make: Callable[..., Twin], session: Session
) -> None:
    session.execute(
        r"create or replace function trunkline.digits() returns bool language plpgsql as"
        r" $$begin return '42' ~ '^\d+$'; end$$"
    )
    other = make_conninfo(dsn, options="-c standard_conforming_strings=off")
    assert await make(other).run(Call("digits", {}, scalar))


async def test_a_null_in_a_list_is_a_null_in_a_session_of_ours(
    dsn: str, make: Callable[..., Twin], session: Session
) -> None:
    session.execute(
        "create or replace function trunkline.second(words text[]) returns text language sql as"
        " $$select words[2]$$"
    )
    second: Call[str | None] = Call("second", {"words": ["a", None]}, scalar)
    other = make_conninfo(dsn, options="-c array_nulls=off")
    assert await make(other).run(second) is None


async def test_names_come_without_quotes_in_a_session_of_ours(
    dsn: str, make: Callable[..., Twin], session: Session
) -> None:
    session.execute(
        "create or replace function trunkline.settings() returns regclass language sql as"
        " $$select 'trunkline.config'::regclass$$"
    )
    other = make_conninfo(dsn, options="-c quote_all_identifiers=on")
    assert await make(other).run(Call("settings", {}, scalar)) == "trunkline.config"


async def test_a_connection_that_takes_only_reads_is_given_up_for_one_that_may_take_writes(
    dsn: str, make: Callable[..., Twin], session: Session
) -> None:
    def only_reads(value: str) -> None:
        name = sql.Identifier(session.info.dbname)
        session.execute(
            sql.SQL("alter database {} set default_transaction_read_only = {}").format(name, value)
        )

    write = lease.renew(uuid4(), "writer")
    twin = make(dsn)
    only_reads("on")
    try:
        with pytest.raises(errors.DatabaseError) as caught:
            await twin.run(write)
    finally:
        only_reads("off")
    assert caught.value.sqlstate == "25006"
    # the pool may have replaced it before writes were allowed again: then that one is given up too
    expires = await eventually(lambda: twin.run(write), also=(errors.DatabaseError,))
    assert expires > datetime.now(UTC)


STYLES = ["-c datestyle=German", "-c datestyle=sql,dmy", "-c intervalstyle=postgres_verbose"]


@pytest.mark.parametrize("style", STYLES)
async def test_times_are_read_in_whatever_style_the_server_writes_them(
    dsn: str, make: Callable[..., Twin], session: Session, style: str
) -> None:
    session.execute(
        "create or replace function trunkline.times(out at timestamptz, out for_ interval)"
        " language sql as $$select timestamptz '2030-01-31 12:00+00', interval '1 day 2 hours'$$"
    )
    times: Call[list[Any]] = Call("times", {}, lambda rows: [*rows[0].values()])
    other = make_conninfo(dsn, options=style)
    noon = datetime(2030, 1, 31, 12, tzinfo=UTC)
    assert await make(other).run(times) == [noon, timedelta(days=1, hours=2)]
    with pytest.raises(errors.DatabaseError) as caught:  # sessions of a pooler are left as they are
        await make(other, prepare=False).run(times)
    assert "style" in caught.value.hint


async def test_a_large_answer_comes_whole_and_others_are_served_meanwhile(dsn: str) -> None:
    async with await EagerConnection.connect(dsn, autocommit=True) as connection:
        async with connection.cursor(binary=True) as cursor:
            await cursor.execute(
                "select repeat(chr(65 + n), 1000000) from generate_series(0, 19) n"
            )
            rows = await cursor.fetchall()
        assert [row[0] for row in rows] == [chr(65 + n) * 1_000_000 for n in range(20)]
        slow = asyncio.create_task(connection.execute("select pg_sleep(0.3), repeat('x', 1000000)"))
        begin = time.monotonic()
        await asyncio.sleep(0.01)
        assert time.monotonic() - begin < 0.2
        await slow


async def test_an_answer_is_let_go_of_once_it_was_given(
    dsn: str, make: Callable[..., Twin]
) -> None:
    alphabet: Call[str] = Call("config_list", {}, lambda rows: rows[0]["name"])
    twin = make(dsn, pool_max=1)
    await twin.run(alphabet)
    if twin.kind == "async":
        async with twin.db.connection() as connection:
            kept = connection.kept_cursor
    else:
        with twin.db.connection() as connection:
            kept = connection.kept_cursor
    assert kept.pgresult is None
    assert kept._tx.pgresult is None


async def test_a_text_stays_what_it_is_though_a_connection_was_lent_and_encodes_otherwise_since(
    dsn: str, make: Callable[..., Twin], session: Session
) -> None:
    session.execute(
        "create or replace function trunkline.letters(word text) returns int language sql as"
        " $$select length(word)$$"
    )
    letters: Call[int] = Call("letters", {"word": "é"}, scalar)
    twin = make(dsn, pool_max=1)
    for encoding in ("latin1", "utf8", "latin1"):
        assert await twin.run(letters) == 1
        if twin.kind == "async":
            async with twin.db.connection() as connection:
                await connection.execute(f"set client_encoding = {encoding}")
        else:
            with twin.db.connection() as connection:
                connection.execute(f"set client_encoding = {encoding}")
    assert await twin.run(letters) == 1


async def test_calls_on_one_connection_differ_in_format_and_in_how_they_read_json(
    dsn: str, session: Session, make: Callable[..., Twin]
) -> None:
    session.execute(
        "create or replace function trunkline.both(out number int, out said jsonb)"
        " language sql as $$ select 7, '{\"n\": 1.10}'::jsonb $$"
    )
    twin = make(dsn, pool_max=1)
    for _ in range(3):
        for binary, text in ((False, False), (False, True), (True, False)):
            read: Call[Any] = Call("both", {}, list, binary=binary, json_text=text)
            ((number, said),) = [tuple(row.values()) for row in await twin.run(read)]
            assert number == 7
            assert said == ('{"n": 1.10}' if text else {"n": 1.1})


async def test_a_call_that_failed_or_was_cancelled_leaves_the_next_its_own_answer(
    dsn: str, session: Session
) -> None:
    db = AsyncDb(dsn, pool_max=1)
    for _ in range(3):
        with pytest.raises(errors.Conflict):
            await db.run(raising("TL409"))
        assert await db.run(GET) == "30 seconds"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await db.run(nap(30))
        assert await db.run(GET) == "30 seconds"
    await db.close()


async def test_calls_at_once_in_one_transaction_each_get_their_own_answer(
    dsn: str, session: Session, db: AsyncDb
) -> None:
    session.execute(
        "create or replace function trunkline.echo(number int) returns int"
        " language sql as 'select number'"
    )
    echoes: list[Call[int]] = [Call("echo", {"number": n}, scalar) for n in range(50)]
    async with db.transaction() as connection:
        got = await asyncio.gather(*(db.run(echo, on=connection) for echo in echoes))
    assert got == list(range(50))


async def test_a_statement_that_is_cancelled_leaves_the_connection_usable(dsn: str) -> None:
    async with await EagerConnection.connect(dsn, autocommit=True) as connection:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await connection.execute("select pg_sleep(30)")
        row = await (await connection.execute("select 1")).fetchone()
        assert row == (1,)


async def test_who_is_cancelled_while_the_server_goes_is_cancelled(
    dsn: str, session: Session, db: AsyncDb
) -> None:
    asking = asyncio.create_task(db.run(nap(30, safe=True)))
    napping = (
        "select pid from pg_stat_activity where query like '%%nap%%' and state = 'active'"
        " and pid <> pg_backend_pid()"
    )
    (pid,) = await eventually(lambda: _some(column(session, napping)))
    asking.cancel()
    session.execute("select pg_terminate_backend(%s, 5000)", [pid])
    done, _ = await asyncio.wait({asking}, timeout=5)
    assert done, "it asks again"
    assert asking.cancelled()


def _some(found: list[Any]) -> list[Any]:
    assert found
    return found


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux alone has it")
@pytest.mark.parametrize(
    ("said", "silence", "idle"),
    [({}, 30_000, 15), ({"tcp_user_timeout": 5000, "keepalives_idle": 60}, 5000, 60)],
)
async def test_a_server_whose_host_vanished_is_given_up_in_a_while_that_the_dsn_may_say(
    dsn: str, proxy: Callable[[str], Proxy], said: dict[str, int], silence: int, idle: int
) -> None:
    far = AsyncDb(make_conninfo(proxy(dsn).dsn, **said))  # type: ignore[arg-type]
    async with far.connection() as connection:
        with socket.socket(fileno=os.dup(connection.fileno())) as line:
            assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == silence
            assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == idle
            assert line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    await far.close()
