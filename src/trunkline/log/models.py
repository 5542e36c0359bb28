"""What the log speaks of: topics, messages, positions. Values only, no I/O."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from uuid import UUID

Start = str | int | datetime
"""Where to begin: ``"earliest"``, ``"hot"`` (the first that is not only archived), ``"latest"``, an
offset, or a time."""


class Mode(StrEnum):
    """How a group shares the work."""

    ASSIGNED = "assigned"
    SHARED = "shared"


class Delivery(StrEnum):
    """What happens to messages whose consumer dies."""

    AT_LEAST_ONCE = "at-least-once"
    AT_MOST_ONCE = "at-most-once"


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic and its settings."""

    topic_id: int
    topic: str
    partitions: int
    retention: timedelta | None
    retention_bytes: int | None
    compact: bool
    codec: str
    early_release: bool
    archive: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class TopicSize:
    """A topic in a listing: its settings and how much it holds."""

    topic: str
    partitions: int
    messages: int
    bytes: int
    retention: timedelta | None
    retention_bytes: int | None
    compact: bool
    codec: str
    early_release: bool
    archive: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of a topic; ``last_offset`` is below ``first_offset`` when it is empty."""

    partition: int
    first_offset: int
    last_offset: int
    segments: int
    bytes: int
    archived_first: int | None
    archived_last: int | None

    @property
    def earliest(self) -> int:
        """The first offset that can be read without a gap, archived or not."""
        if self.archived_first is None or (self.archived_last or 0) < self.first_offset - 1:
            return self.first_offset
        return min(self.first_offset, self.archived_first)


@dataclass(frozen=True, slots=True)
class SealedSegment:
    """A segment that takes no appends any more and is not archived yet."""

    topic: str
    partition: int
    segment_id: int
    first_offset: int
    last_offset: int
    bytes: int
    last_at: datetime

    @property
    def messages(self) -> int:
        """How many messages it holds."""
        return self.last_offset - self.first_offset + 1


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """A file of the archive; ``path`` is relative to the location of the topic's archive."""

    path: str
    messages: int


@dataclass(frozen=True, slots=True)
class Archived:
    """A segment that was copied to files: a row of the manifest."""

    partition: int
    first_offset: int
    last_offset: int
    messages: int
    bytes: int
    location: str
    format: str
    files: tuple[ArchivedFile, ...]
    checksum: str
    incarnation: int
    segment_id: int
    last_at: datetime
    at: datetime


@dataclass(frozen=True, slots=True)
class Ends:
    """Where a partition begins and ends, and in which life of the server that was seen."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    incarnation: int
    topic_id: int


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to append that is more than its value."""

    value: bytes | str | None
    key: bytes | str | None = None
    headers: dict[str, Any] | None = None


class Message(NamedTuple):
    """A message that was read; a tuple, because so many of them are made.

    Headers that Python cannot hold, such as a number of 5,000 digits, are their text as ``unread``.
    """

    topic: str
    partition: int
    offset: int
    at: datetime
    key: bytes | None
    value: bytes | None
    headers: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Appended:
    """Where messages went: the offsets of the first and last of them in a partition."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """A partition that a member of an assigned group owns; a surplus one is to be given back."""

    partition: int
    epoch: int
    up_to: int
    surplus: bool


@dataclass(frozen=True, slots=True)
class Claim:
    """A range of a partition that one reader of a shared group works on."""

    claim: int
    first_offset: int
    last_offset: int
    attempts: int
    expires: datetime | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class DeadMessage:
    """A message that failed for good, in a listing; what a letter does not tell is None."""

    letter: int
    """The number by which it is named: its offset in the topic of dead letters."""
    topic: str
    group_name: str | None
    partition: int | None
    offset: int | None
    key: bytes | None
    attempts: int | None
    reason: str | None
    failed_at: datetime


@dataclass(frozen=True, slots=True)
class DeadMessageDetails:
    """A message that failed for good, whole."""

    letter: int
    topic: str
    group_name: str | None
    partition: int | None
    offset: int | None
    key: bytes | None
    value: bytes
    headers: dict[str, Any] | None
    attempts: int | None
    reason: str | None
    failed_at: datetime


@dataclass(frozen=True, slots=True)
class Position:
    """Where a group stands on a partition; ``lost`` of the messages it lags by have left."""

    topic: str
    group_name: str
    mode: str
    partition: int
    up_to: int
    last_offset: int
    lag: int
    lost: int
    claims: int
    epoch: int | None
    process: UUID | None
    process_name: str | None
    moved_at: datetime | None


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a group is behind, in messages; ``lost`` of them have left."""

    topic: str
    group_name: str
    lag: int
    lost: int
    partitions: int
    owned: int


@dataclass(frozen=True, slots=True)
class Behind:
    """How far a group is behind on a partition; ``age`` is for how long."""

    topic: str
    group_name: str
    partition: int
    up_to: int
    last_offset: int
    lag: int
    age: timedelta


@dataclass(frozen=True, slots=True)
class Check:
    """What a verification found in a partition; ``problem`` is None when it is whole."""

    partition: int
    first_offset: int
    last_offset: int
    messages: int
    problem: str | None = field(default=None)
