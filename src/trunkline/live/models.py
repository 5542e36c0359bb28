"""What the calls of live tables answer, and what a stream of them gives."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime


class Change(StrEnum):
    """What became of a row, as one who sees it through a condition and policies is told."""

    CREATED = "created"
    UPDATED = "updated"
    ENTERED = "entered"
    """It was there already, and meets the condition and the policies now."""
    DELETED = "deleted"
    LEFT = "left"
    """It is still there, and meets the condition or the policies no longer."""
    TRUNCATED = "truncated"
    """All rows of the table are gone."""


class Kind(StrEnum):
    """What conditions can say of a column."""

    NUMBER = "number"
    TEXT = "text"
    BOOLEAN = "boolean"
    ORDERED = "ordered"
    """Dates, times, enums and others that have an order."""
    JSON = "json"
    OTHER = "other"
    """Nothing."""


@dataclass(frozen=True, slots=True)
class LiveColumn:
    """A column of a live table."""

    name: str
    type: str
    kind: Kind
    array: bool
    nullable: bool
    comment: str | None
    labels: tuple[str, ...] = ()
    """Of an enum, its values in order."""


@dataclass(frozen=True, slots=True)
class LiveTable:
    """A table that clients can subscribe to."""

    relation: str
    """With its schema, quoted where needed."""
    name: str
    """What it is called where a name has no schema: in GraphQL and in URLs."""
    key_columns: list[str]
    columns: list[LiveColumn]
    comment: str | None
    tagged: bool
    """Whether its comment made it live."""
    subscriptions: int
    fault: str | None
    created_at: datetime
    oid: int
    """Its number, which it keeps when it gets another name."""


@dataclass(frozen=True, slots=True)
class LiveSubscription:
    """Who is told of which changes of a table."""

    subscription: int
    relation: str
    changes: list[str]
    condition: dict[str, Any]
    columns: list[str] | None
    role: str
    process: str | None
    """The process that serves it, and with which it ends; None: it stays until it is dropped."""
    created_at: datetime


@dataclass(frozen=True, slots=True)
class LiveAccess:
    """What a role may see of a live table."""

    columns: list[str]
    guarded: bool
    """Whether policies decide about rows."""


@dataclass(frozen=True, slots=True)
class Visible:
    """Which rows one of many may see, or the error of a policy, with its SQLSTATE."""

    visible: list[bool] | None
    state: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Subscribed:
    """A subscription that was made, and who is told."""

    subscription: int
    role: str


@dataclass(frozen=True, slots=True)
class LiveRead:
    """An event of a live table, and whose conditions hold for the row before and after.

    Without an event, how far was looked; with ``error``, whose condition fails; if it is ``lost``,
    who has to load anew and to subscribe anew.
    """

    up_to: int
    event_id: int | None
    relation: int | None
    operation: str | None
    old_row: str | None
    new_row: str | None
    """Rows are JSON as the server writes it."""
    at: datetime | None
    subscriptions: list[int] | None
    matched_old: list[bool] | None
    matched_new: list[bool] | None
    error: str | None
    lost: bool | None


@dataclass(frozen=True, slots=True)
class LiveChange:
    """A row that changed; a stream given ``token`` goes on after it."""

    token: str
    change: Change
    event_id: int
    key: dict[str, Any] | None
    """The key columns, as they were before; None when the table was truncated."""
    row: dict[str, Any] | None
    """The row as it is now, of a deleted one as it was; None when it left or all are gone."""
    patch: dict[str, Any] | None
    """Of an update the columns that changed, as they are now."""
    at: datetime


@dataclass(frozen=True, slots=True)
class LiveBatch:
    """Changes in the order in which they happened, and how far was looked: ``token``."""

    token: str
    changes: tuple[LiveChange, ...]
