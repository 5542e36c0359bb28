"""Cells `append` and `single`: how fast messages go in.

Some of ours make one call after the other, as the baseline does; those of a producer hand over the
next batch while the last is under way, and each turn ends when all are durable.
"""

from __future__ import annotations

from contextlib import closing
from itertools import count
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from trunkline.log.batches import Codec, pack
from trunkline.log.bench.least import Least
from trunkline.log.bench.measure import (
    Contender,
    Row,
    Target,
    calling,
    compare_all,
)
from trunkline.log.bench.messages import make_keys, make_messages
from trunkline.log.bench.writers import IN_FLIGHT_BYTES, Plan, handing_over, start_writers

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from trunkline.log.bench.lab import Lab
    from trunkline.log.bench.measure import Side


async def append(lab: Lab) -> AsyncGenerator[Row]:
    """Batches of 500 from one writer, of 5000 from two processes, small and large messages."""
    small, large = make_messages(500, size=100), make_messages(500, size=1024)
    one, keys = "100 B, batch 500, one writer", make_keys(500)
    fast, numbered = Target(at_least=3), Target(at_least=2.3)
    contenders = {
        f"{one}, bare, producer": Contender(_producer(lab, small, idempotent=False), fast),
        f"{one}, bare, producer, zstd": Contender(
            _producer(lab, small, idempotent=False, codec="zstd"), fast
        ),
        f"{one}, keys, idempotent, producer": Contender(_producer(lab, small, keys), numbered),
        f"{one}, keys, idempotent, producer, zstd": Contender(
            _producer(lab, small, keys, codec="zstd"), numbered
        ),
        f"{one}, bare": Contender(_bare(lab, small, Codec.NONE), fast),
        f"{one}, bare, zstd": Contender(_bare(lab, small, Codec.ZSTD)),
        f"{one}, keys, idempotent": Contender(_idempotent(lab, small, keys), numbered),
        f"{one}, keys, idempotent, zstd": Contender(_idempotent(lab, small, keys, Codec.ZSTD)),
        f"{one}, keys, log.append": Contender(_appending(lab, small, keys), numbered),
    }
    for row in await _compare(lab, one, small, contenders):
        yield row
    for row in await _two_writers(lab):
        yield row
    one, enough = "1 KB, batch 500, one writer", Target(at_least=1.3)
    contenders = {
        f"{one}, bare, producer": Contender(_producer(lab, large, idempotent=False), enough),
        f"{one}, bare, producer, zstd": Contender(
            _producer(lab, large, idempotent=False, codec="zstd"), enough
        ),
        f"{one}, bare": Contender(_bare(lab, large, Codec.NONE), enough),
        f"{one}, bare, zstd": Contender(_bare(lab, large, Codec.ZSTD), enough),
    }
    for row in await _compare(lab, one, large, contenders):
        yield row


async def _compare(
    lab: Lab, case: str, messages: list[bytes], contenders: dict[str, Contender]
) -> list[Row]:
    """Ours against the baseline, with the least that a function could do beside them."""
    with closing(Least(lab.dsn)) as least:

        async def work() -> int:
            return least.append(pack(messages))

        contenders[f"{case}, the least function"] = Contender(calling(work))
        return await compare_all(lab, "append", contenders, baseline=_baseline(lab, messages))


async def single(lab: Lab) -> AsyncGenerator[Row]:
    """One message per call: mostly the price of a commit."""
    messages = make_messages(1, size=100)
    contenders = {
        "100 B, one message per call, blocking": Contender(_bare(lab, messages, Codec.NONE)),
        "100 B, one message per call, log.append": Contender(_appending(lab, messages, None)),
    }
    for row in await compare_all(lab, "single", contenders, baseline=_baseline(lab, messages)):
        yield row


def _bare(lab: Lab, messages: list[bytes], codec: Codec) -> Side:
    """Pack and append over a blocking connection, as a script does."""
    topic = lab.create("bare")

    async def work() -> int:
        lab.db.run(lab.appending(topic, pack(messages, codec=codec)))
        return len(messages)

    return calling(work)


def _idempotent(
    lab: Lab, messages: list[bytes], keys: list[bytes], codec: Codec = Codec.NONE
) -> Side:
    """The same with keys, and with a producer's id and number: a repeat is stored once."""
    topic, producer, numbers = lab.create("idempotent"), uuid4(), count(1)

    async def work() -> int:
        batch = pack(messages, keys=keys, codec=codec)
        number = next(numbers)
        lab.db.run(lab.appending(topic, batch, producer_id=producer, producer_seq=number))
        return len(messages)

    return calling(work)


def _producer(
    lab: Lab, messages: list[bytes], keys: list[bytes] | None = None, **options: Any
) -> Side:
    """A producer whose batches are full; all that it was handed is durable when its turn ends."""
    producer = lab.log.producer(
        lab.create("produced"),
        batch_messages=len(messages),
        in_flight_bytes=IN_FLIGHT_BYTES,
        **options,
    )
    return handing_over(producer, messages, keys)


def _appending(lab: Lab, messages: list[bytes], keys: list[bytes] | None) -> Side:
    """What `Log.append` does in an event loop: lanes, wake-ups, counters."""
    topic = lab.create("keyed")

    async def work() -> int:
        await lab.log.append(topic, messages, keys=keys)
        return len(messages)

    return calling(work)


def _baseline(lab: Lab, messages: list[bytes]) -> Side:
    async def work() -> int:
        return lab.baseline.append(messages)

    return calling(work)


async def _two_writers(lab: Lab) -> list[Row]:
    targets = {"zstd": Target(at_least=6), "none": Target(at_least=4)}
    topics = {codec: lab.create(f"writers-{codec}") for codec in targets}
    with start_writers(Plan(lab.dsn, topics, batch=5000, size=100), n=2) as writers:
        contenders = {
            f"100 B, batch 5000, two writers{how}, {codec}": Contender(
                writers.side(f"{codec}{how}"), target
            )
            for how in (", producer", "")
            for codec, target in targets.items()
        }
        return await compare_all(lab, "append", contenders, baseline=writers.side("baseline"))
