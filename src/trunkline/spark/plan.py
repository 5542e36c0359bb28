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
    """Where to end so that at most ``most`` messages are read: one of each partition that has some,
    however many there are, and of the rest its fair share."""
    waiting = {place: max(0, end[place] - start.get(place, end[place])) for place in end}
    total = sum(waiting.values())
    if total <= most:
        return dict(end)
    some = sum(n > 0 for n in waiting.values())
    spare, rest = max(0, most - some), max(1, total - some)
    return {
        place: end[place] - n + (1 + (n - 1) * spare // rest if n else 0)
        for place, n in waiting.items()
    }
