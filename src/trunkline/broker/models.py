"""What the broker speaks of: events. Values only, no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime, timedelta
    from uuid import UUID


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to be published."""

    topic: str
    payload: Any
    key: str | None = None
    metadata: dict[str, Any] | None = None
    deliver_at: datetime | None = None
    subscription: int | None = None


class WrittenEvent(NamedTuple):
    """An event to be published, written down: what becomes of its payload no longer matters."""

    topic: str
    payload: str
    key: str | None
    metadata: str | None
    deliver_at: datetime | None
    subscription: int | None


@dataclass(frozen=True, slots=True)
class Event:
    """An event as it was published; ``position`` is its place among all events."""

    position: int
    event_id: int
    topic: str
    key: str | None
    payload: Any
    metadata: dict[str, Any] | None
    subscription: int | None
    at: datetime


@dataclass(frozen=True, slots=True)
class Ends:
    """Where reading may begin and ends now; ``incarnation`` is the life of the server."""

    first_one: int
    last_one: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """An event that waits for a handler; ``up_to`` is what to commit when it is done."""

    lane: int
    up_to: int
    event_position: int
    event_id: int
    topic: str
    key: str | None
    payload: Any
    metadata: dict[str, Any] | None
    at: datetime
    subscriptions: list[int]
    blocked: bool


@dataclass(frozen=True, slots=True)
class Group:
    """A group, what waits in it, and what left before it was read."""

    group_name: str
    lanes: int
    lasting: bool
    subscriptions: int
    quarantined: int
    handlers: int
    waiting: int
    waiting_since: datetime | None
    dead: int
    trimmed_to: int
    lost: int
    lost_first: int | None
    lost_last: int | None
    lost_at: datetime | None
    idle_since: datetime | None
    owner: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Hop:
    """Something that became of an event, or will."""

    hop: str
    state: str
    """done, waits, retrying, parked, dead or failed."""
    at: datetime | None
    what: str


@dataclass(frozen=True, slots=True)
class HandlerLag:
    """A lane of a handler: what waits, since when, what failed, who works on it."""

    group_name: str
    handler: str
    lane: int
    waiting: int
    oldest_at: datetime | None
    up_to: int
    head: int
    retrying: int
    parked: int
    dead: int
    epoch: int | None
    process: UUID | None
    process_name: str | None


@dataclass(frozen=True, slots=True)
class Condition:
    """A distinct condition, and how many subscriptions have it."""

    condition_id: int
    kind: str
    condition: str
    expression: str
    way: str
    live: int
    late: int
    quarantined: int


@dataclass(frozen=True, slots=True)
class Subscription:
    """Who wants which events, and how that goes: ``live``, ``late`` or ``quarantined``."""

    subscription: int
    group_name: str
    condition: str
    params: dict[str, Any]
    way: str
    state: str
    from_position: int
    matched_up_to: int | None
    expiry: timedelta | None
    holders: int
    idle_since: datetime | None
    quarantined_at: datetime | None
    error: str | None
    error_position: int | None
    owner: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Explained:
    """What a condition would do: ``way`` is ``index`` or ``scan``."""

    way: str
    reason: str
    expression: str
    events: int
    matches: int | None
    milliseconds: float
    error: str | None


@dataclass(frozen=True, slots=True)
class Unmatched:
    """Events that are numbered and not matched yet; ``age`` is that of the oldest."""

    events: int
    age: timedelta


@dataclass(frozen=True, slots=True)
class Unforwarded:
    """An event that was set aside: it is too large for the topic of the log it belongs to."""

    topic: str
    event_id: int
    event_position: int
    key: str | None
    at: datetime
    error: str
    aside_at: datetime


@dataclass(frozen=True, slots=True)
class Scanned:
    """An event that a scan found; without an event it only says how far was looked."""

    up_to: int
    event_id: int | None
    topic: str
    key: str | None
    payload: Any
    metadata: dict[str, Any] | None
    at: datetime


@dataclass(frozen=True, slots=True)
class Scheduled:
    """Who does the background work, and how the last run of a job went."""

    by_whom: str
    every: timedelta | None
    job: str | None
    active: bool | None
    began_at: datetime | None
    status: str | None
    message: str | None


@dataclass(frozen=True, slots=True)
class WatchedTable:
    """A watched table; ``fault`` says what is wrong, ``parts`` counts its partitions."""

    watch: int
    relation: str
    relation_name: str
    topic: str
    operations: list[str]
    columns: list[str] | None
    key_columns: list[str]
    condition: str | None
    fault: str | None
    watched_at: datetime
    parts: int | None = None
