"""Writers in processes of their own: two of them need two cores."""

from __future__ import annotations

import asyncio
import multiprocessing
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trunkline.log.bench.baseline import Baseline
from trunkline.log.bench.lab import open_log
from trunkline.log.bench.measure import Slice, calling
from trunkline.log.bench.messages import make_messages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

    from trunkline.log.bench.measure import Side


@dataclass(frozen=True, slots=True)
class Plan:
    """What each writer appends."""

    dsn: str
    topics: dict[str, str]
    """By codec."""
    batch: int
    size: int


@contextmanager
def start_writers(plan: Plan, *, n: int) -> Iterator[Writers]:
    """``n`` processes that wait for their turn, and end with the block."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for number in range(n):
        ours, theirs = context.Pipe()
        process = context.Process(target=_main, args=(theirs, plan, number), daemon=True)
        process.start()
        theirs.close()
        pipes.append(ours)
        processes.append(process)
    try:
        yield Writers(pipes)
    finally:
        for pipe in pipes:
            pipe.send(None)
        for process in processes:
            process.join()


class Writers:
    """Writers that take turns together."""

    def __init__(self, pipes: list[Connection[Any, Any]]):
        self._pipes = pipes

    def side(self, name: str) -> Side:
        """All writers at once: for the baseline, or for us with a codec."""

        async def side(seconds: float) -> Slice:
            for pipe in self._pipes:
                pipe.send((name, seconds))
            parts = [pipe.recv() for pipe in self._pipes]
            return Slice(
                sum(part.messages for part in parts),
                max(part.seconds for part in parts),
                [latency for part in parts for latency in part.latencies],
            )

        return side


def _main(pipe: Connection[Any, Any], plan: Plan, number: int) -> None:
    asyncio.run(_serve(pipe, plan, number))


async def _serve(pipe: Connection[Any, Any], plan: Plan, number: int) -> None:
    messages = make_messages(plan.batch, size=plan.size, seed=number)
    baseline = Baseline(plan.dsn)
    async with open_log(plan.dsn) as log:

        def ours(topic: str, codec: str) -> Side:
            async def work() -> int:
                await log.append(topic, messages, codec=codec)
                return plan.batch

            return calling(work)

        async def theirs() -> int:
            return baseline.append(messages)

        sides = {codec: ours(topic, codec) for codec, topic in plan.topics.items()}
        sides["baseline"] = calling(theirs)
        while (turn := pipe.recv()) is not None:
            name, seconds = turn
            pipe.send(await sides[name](seconds))
    baseline.close()
