"""What is measured, and how two designs are measured against each other."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from trunkline.log.bench.lab import Lab

    Work = Callable[[], Awaitable[int]]
    """One call, and how many messages it moved."""

    Side = Callable[[float], Awaitable["Slice"]]
    """Work for about so many seconds."""


@dataclass(slots=True)
class Slice:
    """One side's turn."""

    messages: int
    seconds: float
    latencies: list[float]
    wal: int = 0

    @property
    def rate(self) -> float:
        """Messages per second."""
        return self.messages / self.seconds


@dataclass(frozen=True, slots=True)
class Figures:
    """What the turns of one side come to; percentiles are of all its calls together."""

    rate: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    wal_bytes_per_message: float | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """What a result should be."""

    at_least: float | None = None
    at_most: float | None = None

    def met(self, result: float) -> bool:
        """Whether a result is as it should be."""
        enough = self.at_least is None or result >= self.at_least
        return enough and (self.at_most is None or result <= self.at_most)

    def __str__(self) -> str:
        return f">= {self.at_least:g}" if self.at_least is not None else f"<= {self.at_most:g}"


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table."""

    cell: str
    case: str
    result: float
    unit: str = "x"
    target: Target | None = None
    ours: Figures | None = None
    baseline: Figures | None = None
    runs: int = 1
    note: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """``ok`` or ``below``; nothing where there is no target."""
        if self.target is None:
            return ""
        return "ok" if self.target.met(self.result) else "below"

    def as_dict(self) -> dict[str, Any]:
        """The row as JSON takes it."""
        target = None if self.target is None else str(self.target)
        return {**asdict(self), "target": target, "verdict": self.verdict}


def calling(work: Work) -> Side:
    """A side that makes one call after the other."""

    async def side(seconds: float) -> Slice:
        latencies: list[float] = []
        messages = 0
        begin = now = time.perf_counter()
        while now - begin < seconds:
            messages += await work()
            before, now = now, time.perf_counter()
            latencies.append(now - before)
        return Slice(messages, now - begin, latencies)

    return side


async def interleave(
    lab: Lab, sides: Mapping[str, Side], *, seconds: float | None = None
) -> dict[str, list[Slice]]:
    """Let every side have its turn, again and again; the first round only warms up.

    Each round begins with another side: what one leaves to the disk, the next has to wait for.
    """
    lab.checkpoint()
    found: dict[str, list[Slice]] = {name: [] for name in sides}
    order = deque(sides.items())
    for turn in range(lab.runs + 1):
        order.rotate(-1)
        for name, side in order:
            begin = lab.wal_position()
            part = await side(lab.seconds if seconds is None else seconds)
            part.wal = lab.wal_position() - begin
            if turn > 0:
                found[name].append(part)
    return found


def figures(slices: Sequence[Slice]) -> Figures:
    """Median rate of the turns, percentiles of all calls, WAL of all messages."""
    latencies = sorted(latency for part in slices for latency in part.latencies)
    messages = sum(part.messages for part in slices)
    return Figures(
        rate=round(median(part.rate for part in slices), 1),
        p50_ms=percentile(latencies, 0.50),
        p95_ms=percentile(latencies, 0.95),
        p99_ms=percentile(latencies, 0.99),
        wal_bytes_per_message=round(sum(part.wal for part in slices) / messages, 1),
    )


def ratio(ours: Sequence[Slice], baseline: Sequence[Slice]) -> float:
    """How many times faster: the median of the ratios of neighbouring turns."""
    pairs = zip(ours, baseline, strict=True)
    return round(median(one.rate / other.rate for one, other in pairs), 2)


def percentile(ascending: Sequence[float], share: float) -> float:
    """A percentile of seconds, in milliseconds."""
    place = min(len(ascending) - 1, int(share * len(ascending)))
    return round(1000 * ascending[place], 3)


@dataclass(frozen=True, slots=True)
class Contender:
    """One of ours, and how much faster than the baseline it should be."""

    side: Side
    target: Target | None = None


async def compare(
    lab: Lab, cell: str, case: str, *, ours: Side, baseline: Side, target: Target | None
) -> Row:
    """A row that says how much faster we are."""
    (row,) = await compare_all(lab, cell, {case: Contender(ours, target)}, baseline=baseline)
    return row


async def compare_all(
    lab: Lab,
    cell: str,
    contenders: Mapping[str, Contender],
    *,
    baseline: Side,
    seconds: float | None = None,
) -> list[Row]:
    """A row for each of ours; all take turns with the one baseline."""
    sides = {case: contender.side for case, contender in contenders.items()}
    found = await interleave(lab, {"": baseline, **sides}, seconds=seconds)
    return [
        Row(
            cell,
            case,
            ratio(found[case], found[""]),
            target=contender.target,
            ours=figures(found[case]),
            baseline=figures(found[""]),
            runs=lab.runs,
        )
        for case, contender in contenders.items()
    ]
