"""Cell `callers`: many tasks that append one message each share commits."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from trunkline.log.bench.measure import Row, Slice, Target, figures, interleave, ratio
from trunkline.log.bench.messages import make_messages

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from trunkline.log.bench.lab import Lab
    from trunkline.log.bench.measure import Side

_MANY = 64


async def callers(lab: Lab) -> AsyncGenerator[Row]:
    """The rate of 64 concurrent callers over the rate of one; each gets its offset."""
    topic = lab.create("callers")
    found = await interleave(
        lab, {"one": _callers(lab, topic, 1), "many": _callers(lab, topic, _MANY)}
    )
    yield Row(
        "callers",
        f"100 B, {_MANY} concurrent single appends vs one",
        ratio(found["many"], found["one"]),
        target=Target(at_least=20),
        ours=figures(found["many"]),
        baseline=figures(found["one"]),
        runs=lab.runs,
        note="the baseline here is one caller of ours",
    )


def _callers(lab: Lab, topic: str, n: int) -> Side:
    messages = make_messages(n, size=100)

    async def side(seconds: float) -> Slice:
        latencies: list[float] = []
        begin = time.perf_counter()

        async def call(message: bytes) -> None:
            now = time.perf_counter()
            while now - begin < seconds:
                await lab.log.append(topic, message)
                before, now = now, time.perf_counter()
                latencies.append(now - before)

        await asyncio.gather(*map(call, messages))
        return Slice(len(latencies), time.perf_counter() - begin, latencies)

    return side
