"""What a downstream is: three calls, each safe to repeat, each refusing older versions.

A worker promises: a key is written by one task at a time, with rising versions. It cannot promise
that a stalled predecessor does not write late; therefore a downstream compares versions and keeps
the newer one; of two equal ones the later. What it deletes it must remember for a while (a
tombstone with its version), or a late write would bring it back.

Who is at fault decides what a failure is. A change that can never be stored is *answered* with a
reason: the worker tries it a few times and parks it. Everything else (the server is away, full,
overloaded, misconfigured) is *raised* as `Unavailable` or OSError: the worker holds back and goes
on by itself, and nothing is parked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

    from trunkline.tube.models import Change, KeyId, Version

    Write = Callable[[Sequence[Change]], Awaitable[Mapping[Change, str]]]

    Mirror = Callable[[int, Sequence[KeyId]], Awaitable[None]]
    """Brings the rows behind keys of an attachment to where they belong, all of them or none."""


@dataclass(frozen=True, slots=True)
class Page:
    """Shards and keys of a listing, and where it goes on; ``after`` None is the end."""

    keys: Sequence[tuple[int, str]]
    after: str | None = None


class Downstream(ABC):
    """Where the rows of a tube go."""

    async def open(self) -> None:
        """Connect, and make what is missing. Harmless when it is open; possible after `close`."""

    async def close(self) -> None:
        """Let go of everything. Safe to call twice."""

    @abstractmethod
    async def upsert(self, changes: Sequence[Change]) -> Mapping[Change, str]:
        """Store documents unless a newer version is there; what failed, with the reason."""

    @abstractmethod
    async def delete(self, changes: Sequence[Change]) -> Mapping[Change, str]:
        """Remove documents unless a newer version is there; what failed, with the reason."""

    @abstractmethod
    async def older_than(
        self, relation: str, shard: int | None, version: Version, after: str | None, limit: int
    ) -> Page:
        """A page of the documents of a relation that are older than a version.

        ``shard`` None means all shards. ``after`` is what the previous page said, None for the
        first; its meaning is the downstream's own. A page holds about ``limit`` keys, perhaps none
        although more follow; a key may come twice, one that stays older is never left out. Nothing
        is removed here: the worker looks at each row first.
        """

    def mirror_of(self, dsn: str) -> Mirror | None:
        """A way to store attached rows of that database without taking them out of it."""
        return None


def identity(change: Change) -> str:
    """``relation:shard:key`` of a change, the same in every store that names things by one text."""
    return f"{named(change.relation)}:{change.shard}:{change.key}"


def named(relation: str) -> str:
    """A relation without colons, so that an identity can be taken apart again."""
    return relation.replace("%", "%25").replace(":", "%3A")


def newest(changes: Iterable[Change]) -> list[Change]:
    """Of several changes of one key the newest, of equally new ones the last."""
    kept: dict[tuple[str, int, str], Change] = {}
    for change in changes:
        place = (change.relation, change.shard, change.key)
        if place not in kept or kept[place].version <= change.version:
            kept[place] = change
    return list(kept.values())


def chunks(
    changes: Sequence[Change], sizes: Iterable[int], *, most: int, most_bytes: int
) -> Iterator[Sequence[Change]]:
    """Cut a batch so that each part stays below both limits; what is too large goes alone."""
    first, total = 0, 0
    for index, size in enumerate(sizes):
        if index > first and (index - first >= most or total + size > most_bytes):
            yield changes[first:index]
            first, total = index, 0
        total += size
    if first < len(changes):
        yield changes[first:]


async def halved(
    changes: Sequence[Change], write: Write, *, refusals: tuple[type[Exception], ...]
) -> dict[Change, str]:
    """Write a batch; one that is refused is halved until those at fault stand alone."""
    try:
        return dict(await write(changes))
    except refusals as error:
        if len(changes) == 1:
            return {changes[0]: str(error)}
    middle = len(changes) // 2
    return {
        **await halved(changes[:middle], write, refusals=refusals),
        **await halved(changes[middle:], write, refusals=refusals),
    }
