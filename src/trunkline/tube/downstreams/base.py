"""What a downstream is: three calls, each safe to repeat, each refusing older versions.

A worker promises: a key is written by one task at a time, with rising versions. It cannot promise
that a stalled predecessor does not write late; therefore a downstream compares versions and keeps
the newer one. What it deletes it must remember for a while (a tombstone with its version), or a
late write would bring it back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trunkline.tube.models import Change, Version


class Downstream(ABC):
    """Where the rows of a tube go."""

    async def open(self) -> None:
        """Connect, and make what is missing."""

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
    ) -> Sequence[tuple[int, str]]:
        """Shards and keys of documents older than a version, by key, from ``after`` on.

        ``shard`` None means all shards. They are not removed here: the worker looks at each row
        first.
        """
