"""`Attached`: a table of a tube."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Attached:
    """A table of a tube, as far as reading its rows by key needs it."""

    relation: str
    key_columns: list[str]
    key_types: list[str]
    condition: str
    moves: bool
    """Whether a row may change its shard, so that two lanes may speak of one key."""
    estimate: int
    """Rows, in the planner's opinion."""
