"""Background services of tubes: one that cannot go on holds back no other."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.tube.test_worker import execute

import trunkline
from trunkline.testing import eventually
from trunkline.tube.services import Backfiller, TubeRunner

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from trunkline.platform import Platform
    from trunkline.tube.models import Change

gate = asyncio.Event()
arrived: list[str] = []
working = most_working = 0


async def slow(changes: Sequence[Change]) -> None:
    """A downstream that takes its time."""
    global working, most_working
    working += 1
    most_working = max(working, most_working)
    arrived.extend(change.key for change in changes)
    await gate.wait()
    working -= 1


@pytest.fixture
async def tl(dsn: str) -> AsyncIterator[Platform]:
    gate.clear()
    arrived.clear()
    async with trunkline.connect(dsn) as platform:
        await execute(platform, "create table item (id int primary key, name text)")
        await platform.tube.ensure("items")
        await platform.tube.attach("items", "item")
        yield platform


async def test_a_backfill_that_cannot_go_on_holds_back_no_other(tl: Platform) -> None:
    await execute(tl, "create table other (id int primary key, place int not null)")
    await tl.tube.attach("items", "other")
    await tl.tube.backfill_schedule("items", relation="item")
    await tl.tube.backfill_schedule("items", relation="other", order_by="place")
    await execute(tl, "alter table other drop column place")
    backfiller = Backfiller(tl.db)

    async def done() -> bool:
        await backfiller.run_once()
        found = {row.relation: row.status for row in await tl.tube.backfill_status("items")}
        return found == {"item": "done", "other": "running"}

    await eventually(done)


async def test_a_tube_that_cannot_open_its_downstream_rests_until_that_is_changed(
    tl: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    await tl.tube.downstream("items", "postgres", {"table": "nowhere", "create": False})
    runner = TubeRunner(tl.db, tl._lease, tl._listener)

    async def fail() -> None:
        """Start it, and hear that it has failed."""
        assert await runner.run_once() == 1
        await asyncio.wait({runner._running["items"].task})
        runner.wake.clear()
        assert await runner.run_once() == 1
        await asyncio.wait_for(runner.wake.wait(), 10)

    try:
        await fail()
        assert await runner.run_once() == 0
        monkeypatch.setattr("trunkline.tube.services._FAILED_REST", 0.0)
        await tl.tube.downstream("items", "postgres", {"table": "elsewhere", "create": False})
        await fail()
        assert await runner.run_once() == 1
    finally:
        await runner.close()


async def test_a_tube_that_is_slow_to_stop_holds_back_no_other_and_has_one_worker(
    tl: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRUNKLINE_CALLABLES", f"{__name__}:slow")
    runner = TubeRunner(tl.db, tl._lease, tl._listener)
    await tl.tube.downstream("items", "callable", {"target": f"{__name__}:slow"})
    await execute(tl, "insert into item values (1)")
    await tl.tube.tick()
    try:
        await runner.run_once()
        await eventually(lambda: arrived == ["1"])
        await tl.tube.downstream(
            "items", "callable", {"target": f"{__name__}:slow", "worker.batch": 7}
        )
        await tl.tube.ensure("others")
        await tl.tube.downstream("others", "postgres")
        await asyncio.wait_for(runner.run_once(), 10)
        assert set(runner._running) == {"others"}
        gate.set()

        async def both_run() -> bool:
            await runner.run_once()
            return set(runner._running) == {"items", "others"}

        await eventually(both_run)
    finally:
        gate.set()
        await runner.close()
    assert most_working == 1
