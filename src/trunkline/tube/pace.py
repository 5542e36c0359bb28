"""`Pace`: how a worker goes about it."""

from __future__ import annotations

from dataclasses import dataclass, fields

from trunkline.core.errors import Invalid

_MOST = 2**31 - 1
_KINDS = {bool: "true or false", int: "a whole number from 1", float: "a number from 0"}


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

    def __post_init__(self) -> None:
        for option in fields(self):
            value, default = getattr(self, option.name), option.default
            kind = (int, float) if isinstance(default, float) else type(default)
            fits = isinstance(value, kind) and isinstance(value, bool) is isinstance(default, bool)
            least = 0 if isinstance(default, float) else 1
            most = 1 if option.name == "backfill_share" else _MOST
            if not fits or (not isinstance(default, bool) and not least <= value <= most):
                raise Invalid(
                    f"{option.name} of a worker takes {_KINDS[type(default)]}, got {value!r:.50}."
                )

    def retry_after(self, attempts: int) -> float:
        """Seconds until a key that failed so often is tried again."""
        return min(self.retry_first * 2.0 ** (attempts - 1), self.retry_longest)
