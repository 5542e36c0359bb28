"""Whoever is told to stop does so within seconds, also when the server does not answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import trunkline
from trunkline.broker import worker as broker_worker
from trunkline.core import lease
from trunkline.log import shared as log_shared
from trunkline.testing import eventually
from trunkline.tube import worker as tube_worker
from trunkline.tube.downstreams.callable import CallableDownstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from tests.fixtures.proxy import Proxy

    from trunkline import Platform
    from trunkline.tube.models import Change

SOON = 8  # seconds; a call tries for thirty to reach a server that is away


@pytest.fixture
def wire(dsn: str, proxy: Callable[[str], Proxy], monkeypatch: pytest.MonkeyPatch) -> Proxy:
    for module in (lease, broker_worker, tube_worker, log_shared):
        monkeypatch.setattr(module, "GOODBYE_WITHIN", 0.2)
    return proxy(dsn)


@pytest.fixture
async def tl(wire: Proxy) -> AsyncIterator[Platform]:
    async with trunkline.connect(wire.dsn, connect_timeout=1) as platform:
        yield platform
        wire.resume()


async def test_a_handler_stops_soon_though_the_server_is_away(tl: Platform, wire: Proxy) -> None:
    app = trunkline.App(wire.dsn, connect_timeout=1)

    @app.on("orders.*", group="billing")
    async def bill(event: trunkline.Event) -> None:
        raise AssertionError(event)

    def has_lanes() -> None:
        assert any(worker.lanes for worker in app.running)

    stop = asyncio.Event()
    working = asyncio.create_task(app.run(stop, services=False))
    await eventually(has_lanes)
    wire.refuse()
    stop.set()
    async with asyncio.timeout(SOON):
        await working


async def test_a_tube_stops_soon_though_the_server_is_away(tl: Platform, wire: Proxy) -> None:
    async with tl.transaction() as connection:
        await connection.execute("create table orders (id int primary key)")
    await tl.tube.ensure("orders")
    await tl.tube.attach("orders", "orders")
    delivered = asyncio.Event()

    async def take(_changes: Sequence[Change]) -> None:
        delivered.set()

    stop = asyncio.Event()
    working = asyncio.create_task(tl.tube.worker("orders", CallableDownstream(take)).run(stop))
    async with tl.transaction() as connection:
        await connection.execute("insert into orders values (1)")
    await tl.tube.tick()
    async with asyncio.timeout(SOON):
        await delivered.wait()
    wire.refuse()
    stop.set()
    async with asyncio.timeout(SOON):
        await working


@pytest.mark.parametrize("mode", ["assigned", "shared"])
async def test_a_consumer_leaves_soon_though_the_server_is_away(
    tl: Platform, wire: Proxy, mode: str
) -> None:
    await tl.log.create("orders")
    await tl.log.append("orders", b"one")
    consumer = tl.log.consume("orders", "billing", mode=mode)
    assert await consumer.poll(timeout=5)
    wire.refuse()
    async with asyncio.timeout(SOON):
        await consumer.close()
