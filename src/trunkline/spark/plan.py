"""Which task reads what: pure functions of offsets and options, so that a replay plans the same."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets ``first`` to ``last`` of a partition."""

    topic: str
    partition: int
    first: int
    last: int
    incarnation: int | None = None

    def __len__(self) -> int:
        return max(0, self.last - self.first + 1)


def split(ranges: Sequence[Range], at_least: int | None) -> list[Range]:
    """Cut the longest ranges until there are ``at_least`` tasks, as even as can be."""
    ranges = [one for one in ranges if len(one)]
    total = sum(map(len, ranges))
    if not at_least or at_least <= len(ranges) or not total:
        return ranges
    cut: list[Range] = []
    for one in ranges:
        pieces = max(1, min(len(one), round(len(one) / total * at_least)))
        bounds = [one.first + len(one) * piece // pieces for piece in range(pieces + 1)]
        cut += [replace(one, first=low, last=high - 1) for low, high in pairwise(bounds)]
    return cut


def limit(
    start: Mapping[tuple[str, int], int], end: Mapping[tuple[str, int], int], most: int
) -> dict[tuple[str, int], int]:
    """Where to end so that about ``most`` messages are read, of each partition its fair share."""
    waiting = {place: max(0, end[place] - start.get(place, end[place])) for place in end}
    total = sum(waiting.values())
    if total <= most:
        return dict(end)
    ends = {}
    for place, offset in end.items():
        share = waiting[place] * most // total
        ends[place] = offset - waiting[place] + (max(1, share) if waiting[place] else 0)
    return ends
