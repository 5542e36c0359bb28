"""`ProcessLease`: one row per process, renewed in time, given up at the end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from trunkline.core.db import AsyncDb
from trunkline.core.errors import Unavailable
from trunkline.core.lease import ProcessLease
from trunkline.testing import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.fixtures.proxy import Proxy


@pytest.fixture
async def lease(db: AsyncDb) -> AsyncIterator[ProcessLease]:
    lease = ProcessLease(db, name="test")
    yield lease
    await lease.close()


async def rows(db: AsyncDb, query: str) -> list[tuple[Any, ...]]:
    async with db.connection() as connection:
        return await (await connection.execute(query)).fetchall()


async def expiry(db: AsyncDb) -> Any:
    ((expires,),) = await rows(db, "select expires from trunkline.lease")
    return expires


async def short_ttl(db: AsyncDb) -> None:
    await rows(db, "select trunkline.config_set('lease.ttl', '1 second')")


async def test_nothing_is_written_before_somebody_holds_it(
    db: AsyncDb, lease: ProcessLease
) -> None:
    assert await rows(db, "select * from trunkline.lease") == []
    await lease.hold()
    assert await rows(db, "select process, name from trunkline.lease") == [(lease.process, "test")]


async def test_many_who_hold_it_share_one_row(db: AsyncDb, lease: ProcessLease) -> None:
    processes = await asyncio.gather(*(lease.hold() for _ in range(20)))
    assert set(processes) == {lease.process}
    assert await rows(db, "select count(*) from trunkline.lease") == [(1,)]


async def test_it_is_renewed_before_it_ends_however_short_the_ttl_is(
    db: AsyncDb, lease: ProcessLease
) -> None:
    await short_ttl(db)
    await lease.hold()
    first = await expiry(db)

    async def renewed() -> None:
        assert await rows(db, "select name from trunkline.lease_list() where not living") == []
        assert (await expiry(db)) > first

    await eventually(renewed)


async def test_closing_ends_it_and_frees_what_the_process_owned(db: AsyncDb) -> None:
    lease = ProcessLease(db)
    process = await lease.hold()
    await rows(db, f"select trunkline.owner_take('r', '{process}')")
    await lease.close()
    await lease.close()
    assert await rows(db, "select * from trunkline.lease") == []
    assert await rows(db, "select process from trunkline.owner") == [(None,)]


async def test_closing_a_lease_that_nobody_held_says_nothing(db: AsyncDb) -> None:
    await ProcessLease(db).close()


async def test_the_name_tells_program_host_and_pid(db: AsyncDb) -> None:
    assert ProcessLease(db).name.count(":") == 1
    assert "@" in ProcessLease(db).name


async def test_it_comes_back_after_the_network_was_away(
    dsn: str, db: AsyncDb, proxy: Callable[[str], Proxy]
) -> None:
    await short_ttl(db)
    wire = proxy(dsn)
    far = AsyncDb(wire.dsn, connect_timeout=0.5, patience=0)
    lease = ProcessLease(far)
    await lease.hold()
    wire.refuse()

    async def ended() -> None:
        assert await rows(db, "select living from trunkline.lease_list()") == [(False,)]

    await eventually(ended)
    with pytest.raises(Unavailable):
        await lease.renew()
    wire.resume()

    async def living() -> None:
        assert await rows(db, "select living from trunkline.lease_list()") == [(True,)]

    await eventually(living)
    await lease.close()
    await far.close()


async def test_closing_does_not_wait_long_for_a_server_that_is_away(
    dsn: str, db: AsyncDb, proxy: Callable[[str], Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trunkline.core.lease.GOODBYE_WITHIN", 0.2)
    wire = proxy(dsn)
    far = AsyncDb(wire.dsn, connect_timeout=1)
    lease = ProcessLease(far)
    await lease.hold()
    wire.refuse()
    async with asyncio.timeout(5):
        await lease.close()
    await far.close()
    assert await rows(db, "select count(*) from trunkline.lease") == [(1,)]
