"""What tubes speak of: touches, entries, versions, changes. Values only, no I/O."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime, timedelta
    from uuid import UUID

LIVE, BACKFILL = 0, 1
"""The two priorities."""

_LSN_BITS = 48


class KeyId(NamedTuple):
    """What identifies a row downstream: the same id in two tables or shards is two keys.

    The attachment is 0 for a key that was touched by hand without a table.
    """

    attachment: int
    shard: int
    key: str


def key_ids(attachment: int, shard: int, keys: Iterable[str]) -> list[KeyId]:
    """Many at once: not a Python call for each."""
    parts = zip(repeat(attachment), repeat(shard), keys, strict=False)
    return list(map(tuple.__new__, repeat(KeyId), parts))


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """When a row was read: the generation of the server, and its WAL position before the reading.

    A write downstream that carries an older version than what is there is refused. A restore and a
    failover begin a new generation.
    """

    generation: int
    lsn: int

    @property
    def number(self) -> int:
        """The version as one 63-bit number, for stores that keep just one."""
        return (self.generation << _LSN_BITS) | (self.lsn & ((1 << _LSN_BITS) - 1))

    @classmethod
    def parse(cls, generation: int, lsn: str) -> Version:
        """From Postgres' text form of a WAL position."""
        high, low = lsn.split("/")
        return cls(generation, (int(high, 16) << 32) | int(low, 16))


@dataclass(frozen=True, slots=True)
class Reach:
    """How far positions are given out in this life of the server."""

    incarnation: int
    head: int


@dataclass(frozen=True, slots=True)
class Change:
    """What a downstream is to make true of one key: this document, or none."""

    relation: str
    shard: int
    key: str
    document: str | None
    """JSON text, or None when the row is gone."""
    version: Version

    def json(self) -> Any:
        """The document, parsed."""
        return None if self.document is None else json.loads(self.document)


@dataclass(frozen=True, slots=True)
class Touch:
    """A key that changed, as enrichment functions see it."""

    attachment: int
    relation: str | None
    shard: int
    key: str
    op: str
    payload: Any = None


@dataclass(frozen=True, slots=True)
class Entry:
    """Up to some hundred keys of one table and shard, or a control entry."""

    up_to: int
    seq: int
    attachment: int | None
    relation: str | None
    shard: int
    op: str
    keys: list[str]
    payload: Any
    control: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class Outline:
    """An entry without its keys; ``relation`` is ``schema.name``, None for a table that is gone."""

    up_to: int
    relation: str | None
    control: str | None
    keys: int


@dataclass(frozen=True, slots=True)
class Tube:
    """A tube."""

    tube_id: int
    tube: str
    lanes: int
    condition: str | None
    created_at: datetime
    role: str | None = None
    """The role that set the condition."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A table that is attached to a tube."""

    attachment: int
    tube_id: int
    relation: str
    relation_name: str
    key_columns: list[str]
    key_types: list[str]
    shard: int | None
    shard_expression: str | None
    condition: str | None
    on_error: str
    attached_at: datetime
    detached_at: datetime | None
    role: str | None = None
    """The role that its expressions run as."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A tube and one of its tables in a listing."""

    tube: str
    lanes: int
    condition: str | None
    relation: str | None
    shard: str | None
    key_columns: list[str] | None
    table_condition: str | None
    on_error: str | None
    gaps: int
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class LaneStats:
    """A lane: what waits, since when, who works on it."""

    tube: str
    lane: int
    live_entries: int
    backfill_entries: int
    oldest_at: datetime | None
    live_up_to: int
    backfill_up_to: int
    head: int
    epoch: int | None
    process: UUID | None
    process_name: str | None
    parked: int


@dataclass(frozen=True, slots=True)
class LaneShare:
    """A lane that a worker owns; a surplus one is to be given back."""

    lane: int
    lanes: int
    epoch: int
    live_up_to: int
    backfill_up_to: int
    surplus: bool


@dataclass(frozen=True, slots=True)
class Parked:
    """A key that was set aside."""

    tube: str
    relation: str | None
    shard: int
    key: str
    attempts: int
    error: str
    parked_at: datetime


@dataclass(frozen=True, slots=True)
class Backfill:
    """A backfill and how far it is."""

    backfill: int
    tube: str
    relation: str
    status: str
    keys_done: int
    keys_estimate: int
    order_by: str | None
    chunk: int
    throttle: timedelta
    started_at: datetime
    stepped_at: datetime | None
    finished_at: datetime | None
    waits_for: str | None

    @property
    def active(self) -> bool:
        """Whether something is left to do."""
        return self.status in {"running", "paused", "finishing"}


@dataclass(frozen=True, slots=True)
class DownstreamRow:
    """Where a tube goes."""

    tube: str
    kind: str
    options: dict[str, Any] | None
    """None for a role that does not manage the tube: they may hold passwords."""
    changed_at: datetime
    role: str | None = None
    """The role that set it, and as which it runs; None when that was not recorded."""
