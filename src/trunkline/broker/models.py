"""What the broker speaks of: events. Values only, no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to be published."""

    topic: str
    payload: Any
    key: str | None = None
    metadata: dict[str, Any] | None = None
    deliver_at: datetime | None = None
    subscription: int | None = None


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
