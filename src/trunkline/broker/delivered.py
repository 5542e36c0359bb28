"""What handlers are given and leave behind: deliveries, lanes, dead letters. Values, no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trunkline.broker.models import Event

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Delivered(Event):
    """An event as it comes to a handler or a stream."""

    delivery: int = 0
    """The number of the delivery: what a group's positions count."""
    subscriptions: Sequence[int] = ()
    """The subscriptions of the group that it is for."""
    blocked: bool = False
    """An older event of the key failed and is not settled."""
    attempt: int = 1
    """1 at first, 2 after a failure, and so on."""
    errors: Sequence[dict[str, Any]] = ()
    """What went wrong at the attempts before."""


@dataclass(frozen=True, slots=True)
class RetryBatch:
    """Events that failed together and are due for another try."""

    batch: int
    attempts: int
    events: Sequence[Delivered]


@dataclass(frozen=True, slots=True)
class HandlerLane:
    """A lane of a handler that a process owns; a surplus one is to be given back."""

    lane: int
    lanes: int
    epoch: int
    up_to: int
    surplus: bool
    suspect: bool


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a handler may expect in a lane."""

    lane: int
    head: int | None
    due_in: timedelta | None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An event that a handler failed with for good, in a listing."""

    retry: int
    group_name: str
    handler: str
    topic: str
    key: str | None
    event_id: int
    event_position: int
    attempts: int
    error: str
    failed_at: datetime
    behind: int
    """Events of the same key that wait until this one is settled."""


@dataclass(frozen=True, slots=True)
class DeadLetterDetails:
    """A dead letter with its event and the error of every attempt."""

    retry: int
    group_name: str
    handler: str
    lane: int
    topic: str
    key: str | None
    payload: Any
    metadata: dict[str, Any] | None
    event_id: int
    event_position: int
    at: datetime
    subscriptions: list[int]
    attempts: int
    errors: list[dict[str, Any]]
