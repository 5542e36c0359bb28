"""Cell `consume`: reading a backlog in ranges of 5000, each committed durably.

Joining a group costs what it costs once, so the first range of every turn is read and committed
before the clock starts, on both sides. With `commit_soon` the clock stops when all is durable.
"""

from __future__ import annotations

import time
from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING
from uuid import uuid4

from trunkline.log.batches import Codec, pack
from trunkline.log.bench.least import Least
from trunkline.log.bench.measure import Contender, Row, Slice, Target, compare_all
from trunkline.log.bench.messages import make_messages

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from typing import Any

    import pyarrow as pa

    from trunkline.log.bench.lab import Lab
    from trunkline.log.bench.measure import Side, Work
    from trunkline.log.consumer import Batch
    from trunkline.log.decoding import DecodedBatch

_RANGE = 5000
_BATCH = 500


async def consume(lab: Lab) -> AsyncGenerator[Row]:
    """All of a backlog, by an assigned consumer and by shared claims."""
    backlog = 20_000 if lab.quick else 200_000
    with closing(Least(lab.dsn)) as least:
        for row in await _compared(lab, least, backlog):
            yield row


async def _compared(lab: Lab, least: Least, backlog: int) -> list[Row]:
    topics = _fill(lab, least, backlog)

    def ours(
        take: Callable[[Batch], Any], codec: Codec = Codec.NONE, *, soon: bool = False, **how: Any
    ) -> Side:
        return _ours(lab, topics[codec], backlog, take, soon, how)

    ranges, enough = f"100 B, ranges of {_RANGE}", Target(at_least=5)
    contenders = {
        f"{ranges}, assigned, values, commit_soon": Contender(
            ours(lambda b: b.values, soon=True), enough
        ),
        f"{ranges}, assigned, Arrow, commit_soon": Contender(
            ours(lambda b: b.to_arrow(), soon=True), enough
        ),
        f"{ranges}, assigned, values": Contender(ours(lambda b: b.values), enough),
        f"{ranges}, assigned, Arrow": Contender(ours(lambda b: b.to_arrow()), enough),
        f"{ranges}, assigned, values, zstd": Contender(ours(lambda b: b.values, Codec.ZSTD)),
        f"{ranges}, assigned, Arrow, zstd": Contender(ours(lambda b: b.to_arrow(), Codec.ZSTD)),
        f"{ranges}, assigned, messages": Contender(ours(lambda b: b.messages)),
        f"{ranges}, shared, values": Contender(ours(lambda b: b.values, mode="shared"), enough),
        f"{ranges}, shared, values, commit_soon": Contender(
            ours(lambda b: b.values, soon=True, mode="shared"), enough
        ),
        f"{ranges}, shared, values, at most once": Contender(
            ours(lambda b: b.values, mode="shared", delivery="at-most-once")
        ),
        f"{ranges}, the least reader, values": Contender(_least(least, backlog, _values)),
        f"{ranges}, the least reader, Arrow": Contender(_least(least, backlog, _table)),
    }
    return await compare_all(lab, "consume", contenders, baseline=_baseline(lab, backlog))


def _values(parts: list[DecodedBatch]) -> list[bytes | None]:
    return [*chain.from_iterable(part.values for part in parts)]


def _table(parts: list[DecodedBatch]) -> pa.Table:
    from trunkline.log import arrow

    return arrow.table(parts)


def _fill(lab: Lab, least: Least, backlog: int) -> dict[Codec, str]:
    topics = {codec: lab.create(f"consume-{codec}") for codec in Codec}
    messages = make_messages(_BATCH, size=100)
    batches = {codec: pack(messages, codec=codec) for codec in Codec}
    for _ in range(backlog // _BATCH):
        for codec, topic in topics.items():
            lab.db.run(lab.appending(topic, batches[codec]))
        lab.baseline.append(messages)
        least.append(batches[Codec.NONE])
    lab.baseline.analyze()
    return topics


def _ours(
    lab: Lab,
    topic: str,
    backlog: int,
    take: Callable[[Batch], Any],
    soon: bool,  # noqa: FBT001
    how: dict[str, Any],
) -> Side:
    async def side(_seconds: float) -> Slice:
        async with lab.log.consume(topic, uuid4().hex, max_messages=_RANGE, **how) as consumer:

            async def work() -> int:
                batch = await consumer.poll()
                assert batch is not None
                n = len(take(batch))
                if soon:
                    batch.commit_soon()
                else:
                    await batch.commit()
                return n

            return await _all(backlog, work, end=consumer.flush)

    return side


def _least(least: Least, backlog: int, take: Callable[[list[DecodedBatch]], Any]) -> Side:
    async def side(_seconds: float) -> Slice:
        seen = 0

        async def work() -> int:
            nonlocal seen
            n = len(take(least.read(seen, _RANGE // _BATCH)))
            seen += n
            least.commit(seen)
            return n

        return await _all(backlog, work)

    return side


def _baseline(lab: Lab, backlog: int) -> Side:
    async def side(_seconds: float) -> Slice:
        lab.baseline.start("bench")

        async def work() -> int:
            return len(lab.baseline.claim("bench", _RANGE))

        return await _all(backlog, work)

    return side


async def _all(backlog: int, work: Work, end: Callable[[], Awaitable[None]] | None = None) -> Slice:
    """Everything; ``end`` waits for what is still under way, and counts."""
    latencies = []
    first = seen = await work()
    begin = now = time.perf_counter()
    while seen < backlog:
        seen += await work()
        before, now = now, time.perf_counter()
        latencies.append(now - before)
    if end is not None:
        await end()
    return Slice(seen - first, time.perf_counter() - begin, latencies)
