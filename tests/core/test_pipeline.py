"""Calls that do not wait for each other: in order, and none after one that failed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.fixtures.asking import ask, column
from tests.fixtures.postgres import new_database

from trunkline.core import errors, pipeline
from trunkline.core.calls import Call, scalar
from trunkline.core.db import AsyncDb
from trunkline.testing import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.fixtures.postgres import AnyServer

Session = psycopg.Connection[Any]


@pytest.fixture(scope="module")
def dsn(server: AnyServer, template: str) -> Iterator[str]:
    """One database for all tests, each of which begins with an empty table."""
    with new_database(server, template=template) as name:
        dsn = server.dsn(name)
        with psycopg.connect(dsn, autocommit=True) as session:
            session.execute(
                "create table piped (id bigserial, word text unique, large bytea, xid xid8);"
                "create function trunkline.piped(word text, large bytea default null)"
                " returns bigint language sql as"
                " 'insert into public.piped (word, large, xid)"
                "  values ($1, $2, pg_current_xact_id()) returning id'"
            )
        yield dsn


@pytest.fixture
def session(dsn: str) -> Iterator[Session]:
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute("truncate piped restart identity")
        yield session


@pytest.fixture
async def db(dsn: str, session: Session) -> AsyncIterator[AsyncDb]:
    assert not session.closed
    db = AsyncDb(dsn, pool_max=1)
    yield db
    await db.close()


def put(word: str | None, **more: Any) -> Call[int]:
    return Call("piped", {"word": word, **more}, scalar)


async def test_each_call_is_a_transaction_and_is_answered_in_turn(
    db: AsyncDb, session: Session
) -> None:
    async with db.pipeline() as piped:
        await piped.send(put("a"))
        await piped.send(put("b"))
        assert await piped.answer() == 1
        await piped.send(put("c"))
        assert await piped.answer() == 2
        assert await piped.answer() == 3
        await piped.send(put("d"))
        assert await piped.answer() == 4
    assert column(session, "select word from piped order by id") == ["a", "b", "c", "d"]
    assert ask(session, "select count(distinct xid) from piped") == 4


async def test_what_was_answered_is_committed(db: AsyncDb, session: Session) -> None:
    async with db.pipeline() as piped:
        for number in range(3):
            await piped.send(put(str(number)))
            await piped.answer()
            assert ask(session, "select count(*) from piped") == number + 1


async def test_after_one_that_failed_none_is_carried_out(db: AsyncDb, session: Session) -> None:
    with pytest.raises(errors.DatabaseError, match="duplicate key"):
        async with db.pipeline() as piped:
            for word in ("a", "b", "a", "c"):
                await piped.send(put(word))
            for _ in range(4):
                await piped.answer()
    assert column(session, "select word from piped order by id") == ["a", "b"]
    assert await db.run(put("d")) > 0


async def test_a_connection_serves_plain_calls_and_pipelines_in_turn(
    db: AsyncDb, session: Session
) -> None:
    for number in range(12):
        await db.run(put(f"plain {number}"))
        async with db.pipeline() as piped:
            await piped.send(put(f"piped {number}"))
            await piped.answer()
    assert ask(session, "select count(*) from piped") == 24
    assert db.connections_made == 1


async def test_a_pipeline_that_sent_nothing_leaves_the_connection_as_it_was(db: AsyncDb) -> None:
    async with db.pipeline():
        pass
    assert await db.run(put("a")) == 1
    assert db.connections_made == 1


async def test_whoever_leaves_without_his_answers_leaves_no_connection_behind(db: AsyncDb) -> None:
    async with db.pipeline() as piped:
        await piped.send(put("a"))
    assert await db.run(put("b")) > 0


async def test_large_values_and_nulls_arrive_whole(db: AsyncDb, session: Session) -> None:
    async with db.pipeline() as piped:
        for number in range(3):
            await piped.send(put(None, large=bytes([number]) * (5 << 20)))
        for _ in range(3):
            await piped.answer()
    found = column(
        session,
        "select sha256(large) = sha256(decode(repeat(lpad(to_hex(id - 1), 2,"
        " '0'), 5 << 20), 'hex')) from piped order by id",
    )
    assert found == [True, True, True]


async def test_statements_are_prepared_up_to_a_limit(
    db: AsyncDb, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "_MOST_PREPARED", 3)
    async with db.pipeline() as piped:
        for number in range(5):
            await piped.send(put(str(number)))
            await piped.send(put(str(number + 10), large=b"x"))
            assert await piped.answer() < await piped.answer()
    async with db.connection() as connection:
        found = await connection.execute("select count(*) from pg_prepared_statements")
        assert await found.fetchone() == (3,)
    assert ask(session, "select count(*) from piped") == 10


async def test_a_cancelled_pipeline_frees_its_place_in_the_pool(
    db: AsyncDb, session: Session
) -> None:
    async def wait() -> None:
        async with db.pipeline() as piped:
            await piped.send(put("a"))
            await piped.answer()

    with session.transaction():
        session.execute("lock table piped")
        waiting = asyncio.create_task(wait())
        await eventually(lambda: _one_waits(session))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert await db.run(put("b")) > 0


def _one_waits(session: Session) -> bool:
    return bool(ask(session, "select count(*) from pg_locks where not granted"))
