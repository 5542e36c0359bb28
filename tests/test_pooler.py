"""Everything works behind a pooler in transaction mode; wake-ups become looks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import trunkline
from trunkline.core.service import Supervisor
from trunkline.testing import eventually
from trunkline.tube.downstreams.callable import CallableDownstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from trunkline import Platform
    from trunkline.tube.models import Change


@pytest.fixture
async def tl(pooled: str) -> AsyncIterator[Platform]:
    """A client with all its services, none of which has a session for itself."""
    async with trunkline.connect(pooled, prepare=False) as platform:
        supervisor = Supervisor(platform.services())
        running = asyncio.create_task(supervisor.run())
        yield platform
        await supervisor.stop()
        await running


async def test_members_of_a_group_share_a_topic(tl: Platform) -> None:
    await tl.log.create("orders", partitions=4)
    await asyncio.gather(*(tl.log.append("orders", b"%d" % n) for n in range(200)))
    seen: list[bytes] = []

    async def member() -> None:
        async with tl.log.consume("orders", "billing", max_messages=20) as consumer:
            while len(seen) < 200:
                if batch := await consumer.poll(timeout=0.2):
                    seen.extend(batch.values)
                    await batch.commit()

    await asyncio.gather(*(member() for _ in range(8)))
    assert sorted(map(int, seen)) == list(range(200))
    assert sum(group.lag for group in await tl.log.lag("orders")) == 0


async def test_events_reach_their_handler_once_and_in_the_order_of_their_keys(
    tl: Platform, pooled: str
) -> None:
    app = trunkline.App(pooled, prepare=False)
    seen: dict[str | None, list[Any]] = {}

    @app.on("orders.*", group="billing")
    async def bill(event: trunkline.Event) -> None:
        seen.setdefault(event.key, []).append(event.payload)

    async def all_subscribed() -> None:
        assert await tl.broker.subscriptions(group_name="billing")

    def all_seen() -> None:
        assert sum(map(len, seen.values())) >= 60

    working = asyncio.create_task(app.run())
    await eventually(all_subscribed, also=(trunkline.NotFound,))
    for number in range(60):
        await tl.broker.publish("orders.placed", number, key=f"key {number % 3}")
    await eventually(all_seen, timeout=20)
    working.cancel()
    await asyncio.wait({working})
    assert seen == {f"key {rest}": list(range(rest, 60, 3)) for rest in range(3)}


async def test_a_downstream_follows_its_table(tl: Platform) -> None:
    async with tl.db.connection() as connection:
        await connection.execute("create table orders (id int primary key)")
    await tl.tube.ensure("orders")
    await tl.tube.attach("orders", "orders")
    async with tl.db.connection() as connection:
        await connection.execute("insert into orders select generate_series(1, 100)")
        await connection.execute("delete from orders where id > 90")
    present: set[str] = set()

    async def take(changes: Sequence[Change]) -> None:
        for change in changes:
            (present.discard if change.document is None else present.add)(change.key)

    stop = asyncio.Event()
    worker = tl.tube.worker("orders", CallableDownstream(take))
    working = asyncio.create_task(worker.run(stop))

    def it_follows() -> None:
        assert present == {str(number) for number in range(1, 91)}

    await eventually(it_follows, timeout=20)
    stop.set()
    await working
