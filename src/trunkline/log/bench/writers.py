"""Writers in processes of their own: two of them need two cores."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from trunkline.log.bench.baseline import Baseline
from trunkline.log.bench.lab import open_log
from trunkline.log.bench.measure import Slice, calling
from trunkline.log.bench.messages import make_messages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

    from trunkline.log.bench.measure import Side
    from trunkline.log.producer import Producer

IN_FLIGHT_BYTES = 4 << 20  # a producer need not be far ahead to have the next batch at hand


def handing_over(
    producer: Producer, messages: list[bytes], keys: list[bytes] | None = None
) -> Side:
    """A side that hands over the next messages while others are under way.

    Its turn ends when all are durable.
    """

    async def side(seconds: float) -> Slice:
        latencies: list[float] = []

        def note(sent: float, _answer: object) -> None:
            latencies.append(time.perf_counter() - sent)

        begin = now = time.perf_counter()
        while now - begin < seconds:
            (answer,) = await producer.send_many(messages, keys=keys)
            answer.add_done_callback(partial(note, now))
            now = time.perf_counter()
        await producer.flush()
        return Slice(len(messages) * len(latencies), time.perf_counter() - begin, latencies)

    return side


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
        """All writers at once: the baseline's, or ours by codec and by how they append."""

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
        for codec, topic in plan.topics.items():
            producer = log.producer(
                topic, batch_messages=plan.batch, in_flight_bytes=IN_FLIGHT_BYTES, codec=codec
            )
            sides[f"{codec}, producer"] = handing_over(producer, messages)
        sides["baseline"] = calling(theirs)
        while (turn := pipe.recv()) is not None:
            name, seconds = turn
            pipe.send(await sides[name](seconds))
    baseline.close()
