"""Cells `topics` and `stored`: the cost of a message does not depend on how much there is."""

from __future__ import annotations

from itertools import cycle
from random import Random
from typing import TYPE_CHECKING

from trunkline.log import calls
from trunkline.log.batches import pack
from trunkline.log.bench.measure import Row, Target, calling, figures, interleave, ratio
from trunkline.log.bench.messages import make_messages
from trunkline.log.decoding import decode

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from trunkline.log.bench.lab import Lab
    from trunkline.log.bench.measure import Side

_FLAT = Target(at_most=1.3)
_BATCH = 500
_SMALL_BATCH = 100  # many rows per message stored
_RANGE = 5000


async def topics(lab: Lab) -> AsyncGenerator[Row]:
    """Appends and reads that go round 1, 10 and 100 topics."""
    counts = (1, 10) if lab.quick else (1, 10, 100)
    made = {n: [lab.create("topics") for _ in range(n)] for n in counts}
    for n, names in made.items():
        for name in names:  # as many messages in all: caches must not tell one from a hundred
            _fill(lab, name, counts[-1] * _RANGE // n, batch=_BATCH)
    appends = {f"{n} topics": _append(lab, names, batch=_BATCH) for n, names in made.items()}
    reads = {f"{n} topics": _read(lab, names) for n, names in made.items()}
    yield await _flat(lab, "topics", "append", appends)
    yield await _flat(lab, "topics", "read", reads)


async def stored(lab: Lab) -> AsyncGenerator[Row]:
    """Appends to and reads from topics that hold 1e4, 1e6 and, in a full run, 1e7 messages."""
    sizes = [10**3, 10**4] if lab.quick else [10**4, 10**6]
    if lab.full:
        sizes.append(10**7)
    made = {n: lab.create("stored") for n in sizes}
    for n, name in made.items():
        _fill(lab, name, n, batch=_SMALL_BATCH)
    lab.maintain()
    sides = {f"1e{len(str(n)) - 1} stored": [name] for n, name in made.items()}
    # one message each: the topics must stay as small as they are said to be
    appends = {name: _append(lab, topics, batch=1) for name, topics in sides.items()}
    reads = {name: _read(lab, topics) for name, topics in sides.items()}
    yield await _flat(lab, "stored", "append", appends)
    yield await _flat(lab, "stored", "read", reads)


async def _flat(lab: Lab, cell: str, verb: str, sides: Mapping[str, Side]) -> Row:
    found = await interleave(lab, sides)
    least, *_, most = found
    costs = {name: ratio(found[least], parts) for name, parts in found.items()}
    return Row(
        cell,
        f"100 B, {verb}, {most} vs {least}",
        max(costs.values()),
        target=_FLAT,
        ours=figures(found[most]),
        baseline=figures(found[least]),
        runs=lab.runs,
        note="the cost of the dearest; the baseline here is ours with the least",
        details={"cost": costs},
    )


def _fill(lab: Lab, topic: str, n: int, *, batch: int) -> None:
    packed = pack(make_messages(batch, size=100))
    for _ in range(n // batch):
        lab.db.run(lab.appending(topic, packed))


def _append(lab: Lab, names: Sequence[str], *, batch: int) -> Side:
    turn = cycle(names)
    messages = make_messages(batch, size=100)

    async def work() -> int:
        lab.db.run(lab.appending(next(turn), pack(messages)))
        return batch

    return calling(work)


def _read(lab: Lab, names: Sequence[str]) -> Side:
    turn = cycle(names)
    ends = {name: lab.db.run(calls.describe(name))[0].last_offset for name in names}
    source = Random(1)  # noqa: S311 - repeatable, not secret

    async def work() -> int:
        name = next(turn)
        begin = 1 + source.randrange(max(1, ends[name] - _RANGE)) // _RANGE * _RANGE
        rows = lab.db.run(calls.fetch(name, 0, begin, max_messages=_RANGE))
        return sum(len(decode(row).values) for row in rows)

    return calling(work)
