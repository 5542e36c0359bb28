"""Cell `latency`: from the call of publish until the handler has the event."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING, Any

import psycopg

from trunkline.broker import handlers
from trunkline.broker.client import Broker
from trunkline.core.db import AsyncDb
from trunkline.core.lease import ProcessLease
from trunkline.core.listen import Listener
from trunkline.core.service import Loop
from trunkline.log.bench.measure import Figures, Row, Target, percentile

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from trunkline.log.bench.lab import Lab

_RATE = 500  # events a second
_PUBLISH = "select trunkline.broker_publish(%s, to_jsonb(%s::float8), key => %s)"
_PATIENCE = 30.0  # seconds until the last event has come


async def latency(lab: Lab) -> AsyncGenerator[Row]:
    """At 500 events a second, and the first event after nothing happened for a while."""
    seconds = 2 if lab.quick else 20
    quiet, times = (60.0, 20) if lab.full else (1.0, 3) if lab.quick else (5.0, 12)
    async with _handled(lab, "busy") as (topic, seen):
        pauses = [1 / _RATE] * (_RATE * seconds)
        await _publish(lab.dsn, topic, pauses, seen)
    busy = _figures(seen[len(seen) // 10 :])
    for case, found, most in (("p50", busy.p50_ms, 15), ("p99", busy.p99_ms, 60)):
        yield _row(f"publish to handler at {_RATE} events/s, {case}", found, busy, most)
    async with _handled(lab, "quiet") as (topic, seen):
        source = Random(1)  # noqa: S311 - repeatable, not secret
        pauses = [quiet * source.uniform(1, 1.1) for _ in range(times + 1)]
        await _publish(lab.dsn, topic, pauses, seen)
    first = _figures(seen[1:])
    yield _row(f"the same after {quiet:g} s without an event, p99", first.p99_ms, first, 80)


def _row(case: str, found: float, figures: Figures, most: float) -> Row:
    return Row("latency", case, found, unit="ms", ours=figures, target=Target(at_most=most))


@asynccontextmanager
async def _handled(lab: Lab, name: str) -> AsyncIterator[tuple[str, list[float]]]:
    """A handler, and sequencer and matcher in its process: a topic, and how long events took."""
    topic = f"{lab.prefix}.{name}"
    seen: list[float] = []

    async def handle(published: float) -> None:
        seen.append(time.monotonic() - published)

    handler = handlers.make(handle, topic, group=topic, name="bench")
    db = AsyncDb(lab.dsn)
    lease, listener = ProcessLease(db, name="bench"), Listener(db.connect)
    broker = Broker(db, lease=lease, listener=listener)
    stop = asyncio.Event()
    services = broker.services()
    worker = broker.worker(handler)
    await worker.register()
    running = [asyncio.create_task(Loop(service).run(stop)) for service in services]
    running.append(asyncio.create_task(worker.run(stop)))
    try:
        yield topic, seen
    finally:
        stop.set()
        await asyncio.wait(running)
        for service in services:
            await service.close()
        await broker.group_delete(topic)
        await broker.close()
        await lease.close()
        await listener.close()
        await db.close()


async def _publish(dsn: str, topic: str, pauses: list[float], seen: list[Any]) -> None:
    """Publish from another process, each event after its pause; wait until all have come."""
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_publisher, args=(dsn, topic, pauses), daemon=True)
    process.start()
    await asyncio.to_thread(process.join)
    give_up = time.monotonic() + _PATIENCE
    while len(seen) < len(pauses):
        assert time.monotonic() < give_up, f"{len(seen)} of {len(pauses)} events came"
        await asyncio.sleep(0.05)


def _publisher(dsn: str, topic: str, pauses: list[float]) -> None:
    due = time.monotonic()
    with psycopg.connect(dsn, autocommit=True) as connection:
        for number, pause in enumerate(pauses):
            due += pause
            time.sleep(max(0.0, due - time.monotonic()))
            values = [topic, time.monotonic(), str(number % 100)]
            connection.execute(_PUBLISH, values, prepare=True)


def _figures(times: list[float]) -> Figures:
    ascending = sorted(times)
    return Figures(
        rate=round(len(times) / max(sum(times), 1e-9), 1),
        p50_ms=percentile(ascending, 0.50),
        p95_ms=percentile(ascending, 0.95),
        p99_ms=percentile(ascending, 0.99),
    )
