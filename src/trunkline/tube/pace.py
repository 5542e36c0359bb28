"""`Pace`: how a worker goes about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """How a worker goes about it.

    ``batch`` keys go out together, four times as many where rows and documents are in one
    database. Memory is bounded per lane by ``queue_keys``, ten times as many entries that touched
    them, and what one read brings (200 entries).
    """

    batch: int = 1_000
    parallelism: int = 4
    queue_keys: int = 20_000
    backfill_share: float = 0.2
    exclude_backfill: bool = False
    park_after: int = 8
    retry_first: float = 0.5
    retry_longest: float = 60.0
    poll_interval: float = 0.25

    def retry_after(self, attempts: int) -> float:
        """Seconds until a key that failed so often is tried again."""
        return min(self.retry_first * 2.0 ** (attempts - 1), self.retry_longest)
