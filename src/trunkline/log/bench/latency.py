"""Cell `latency`: from the call of append until a waiting consumer has the message."""

from __future__ import annotations

import asyncio
import threading
import time
from random import Random
from typing import TYPE_CHECKING

from trunkline.log.bench.lab import open_log
from trunkline.log.bench.measure import Figures, Row, percentile
from trunkline.log.bench.messages import make_messages

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from trunkline.log.bench.lab import Lab

_NAP = 0.001  # seconds between two polls of the baseline


async def latency(lab: Lab) -> AsyncGenerator[Row]:
    """With wake-ups, by polling alone, and the baseline's busy polling."""
    n = 10 if lab.quick else 150
    baseline = await _baseline(lab, n)
    for case, listening, share in (("woken", True, 1), ("polling only", False, 3)):
        times = await _ours(lab, n // share, listening=listening, pause=0.03 * share**2)
        found = _figures(times)
        yield Row(
            "latency",
            f"append to receive, {case}",
            found.p50_ms,
            unit="ms",
            ours=found,
            baseline=baseline,
            note=f"the baseline polls every {1000 * _NAP:g} ms, and each poll writes",
        )


async def _ours(lab: Lab, n: int, *, listening: bool, pause: float) -> list[float]:
    topic = lab.create("latency")
    times: list[float] = []
    received = asyncio.Event()
    async with (
        open_log(lab.dsn, listening=listening) as log,
        log.consume(topic, "latency") as consumer,
    ):

        async def receive() -> None:
            async for batch in consumer:
                times.append(time.perf_counter())
                received.set()
                await batch.commit()

        task = asyncio.create_task(receive())
        sent = []
        for message, wait in _schedule(n, pause):
            await asyncio.sleep(wait)
            received.clear()
            sent.append(time.perf_counter())
            await lab.log.append(topic, message)
            await received.wait()
        task.cancel()
        await asyncio.wait({task})
    return [end - begin for begin, end in zip(sent, times, strict=True)][n // 10 :]


async def _baseline(lab: Lab, n: int) -> Figures:
    times: list[float] = []
    received, over = threading.Event(), threading.Event()
    lab.baseline.create()
    lab.baseline.start("latency")

    def receive() -> None:
        while not over.is_set():
            if lab.baseline.claim("latency", 100):
                times.append(time.perf_counter())
                received.set()
            else:
                time.sleep(_NAP)

    def send() -> list[float]:
        sent = []
        for message, wait in _schedule(n, 0.03):
            time.sleep(wait)
            received.clear()
            sent.append(time.perf_counter())
            lab.baseline.append([message])
            received.wait()
        over.set()
        return sent

    receiver = asyncio.create_task(asyncio.to_thread(receive))
    sent = await asyncio.to_thread(send)
    await receiver
    return _figures([end - begin for begin, end in zip(sent, times, strict=True)])


def _schedule(n: int, pause: float) -> list[tuple[bytes, float]]:
    """Messages with pauses that follow no rhythm."""
    source = Random(1)  # noqa: S311 - repeatable, not secret
    waits = [source.uniform(0.5, 1.5) * pause for _ in range(n)]
    return list(zip(make_messages(n, size=100), waits, strict=True))


def _figures(times: list[float]) -> Figures:
    ascending = sorted(times)
    return Figures(
        rate=round(len(times) / sum(times), 1),
        p50_ms=percentile(ascending, 0.50),
        p95_ms=percentile(ascending, 0.95),
        p99_ms=percentile(ascending, 0.99),
    )
