"""Cells `append` and `single`: how fast messages go in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trunkline.log import calls
from trunkline.log.batches import Codec, pack
from trunkline.log.bench.measure import Row, Target, calling, compare
from trunkline.log.bench.messages import make_keys, make_messages
from trunkline.log.bench.writers import Plan, start_writers

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from trunkline.log.bench.lab import Lab
    from trunkline.log.bench.measure import Side


async def append(lab: Lab) -> AsyncGenerator[Row]:
    """Batches of 500 from one writer, of 5000 from two processes, small and large messages."""
    small, large = make_messages(500, size=100), make_messages(500, size=1024)
    one = "100 B, batch 500, one writer"
    yield await compare(
        lab,
        "append",
        f"{one}, bare",
        ours=_bare(lab, small, Codec.NONE),
        baseline=_baseline(lab, small),
        target=Target(at_least=3),
    )
    yield await compare(
        lab,
        "append",
        f"{one}, bare, zstd",
        ours=_bare(lab, small, Codec.ZSTD),
        baseline=_baseline(lab, small),
        target=None,
    )
    yield await compare(
        lab,
        "append",
        f"{one}, keys, idempotent producer",
        ours=_keyed(lab, small, make_keys(500)),
        baseline=_baseline(lab, small),
        target=Target(at_least=2.3),
    )
    for codec, enough in (("zstd", 6), ("none", 4)):
        yield await _two_writers(lab, codec, Target(at_least=enough))
    yield await compare(
        lab,
        "append",
        "1 KB, batch 500, one writer, bare",
        ours=_bare(lab, large, Codec.NONE),
        baseline=_baseline(lab, large),
        target=Target(at_least=1.3),
    )


async def single(lab: Lab) -> AsyncGenerator[Row]:
    """One message per call: mostly the price of a commit."""
    messages = make_messages(1, size=100)
    yield await compare(
        lab,
        "single",
        "100 B, one message per call, blocking",
        ours=_bare(lab, messages, Codec.NONE),
        baseline=_baseline(lab, messages),
        target=None,
    )
    yield await compare(
        lab,
        "single",
        "100 B, one message per call, log.append",
        ours=_keyed(lab, messages, None),
        baseline=_baseline(lab, messages),
        target=None,
    )


def _bare(lab: Lab, messages: list[bytes], codec: Codec) -> Side:
    """Pack and append over a blocking connection, as a script does."""
    topic = lab.create("bare")

    async def work() -> int:
        lab.db.run(calls.append_batch(topic, 0, pack(messages, codec=codec)))
        return len(messages)

    return calling(work)


def _keyed(lab: Lab, messages: list[bytes], keys: list[bytes] | None) -> Side:
    """What `Log.append` does: a producer whose repeats are stored once."""
    topic = lab.create("keyed")

    async def work() -> int:
        await lab.log.append(topic, messages, keys=keys)
        return len(messages)

    return calling(work)


def _baseline(lab: Lab, messages: list[bytes]) -> Side:
    async def work() -> int:
        return lab.baseline.append(messages)

    return calling(work)


async def _two_writers(lab: Lab, codec: str, target: Target) -> Row:
    plan = Plan(lab.dsn, lab.create(f"writers-{codec}"), batch=5000, size=100, codec=codec)
    with start_writers(plan, n=2) as writers:
        return await compare(
            lab,
            "append",
            f"100 B, batch 5000, two writers, {codec}",
            ours=writers.side("ours"),
            baseline=writers.side("baseline"),
            target=target,
        )
