"""What the calls of the key-value store answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from trunkline.core.unread import JsonText


@dataclass(frozen=True, slots=True)
class KvEntry:
    """A key that lives."""

    key: str
    value: Any
    version: str
    """For a compare-and-set: ``put(..., if_version=entry.version)``."""
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class KvChange:
    """A key that changed, with what it says now."""

    up_to: int
    """Where to go on after: ``watch(after=change.up_to)``."""
    key: str
    value: Any
    """None for a key that is gone; a key that holds JSON null has a version all the same."""
    version: str | None
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class Ends:
    """Where following changes may begin and ends now; ``incarnation`` is the life of the server."""

    first_one: int
    last_one: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class KvPolicy:
    """A namespace, and a policy by which its keys expire, if it has one."""

    namespace: str
    policy: str | None
    keep: timedelta | None
    owner: str | None = None
    """The role that owns the namespace."""


@dataclass(frozen=True, slots=True)
class KvInstance:
    """A shard in a zone."""

    zone: str
    shard: str
    here: bool
    dsn: str | None
    """Told to admins."""


@dataclass(frozen=True, slots=True)
class KvPeer:
    """An instance from which this one pulls."""

    instance: str
    zone: str
    shard: str
    scope: str
    dsn: str | None


@dataclass(frozen=True, slots=True)
class KvStatus:
    """How this instance stands to another."""

    instance: str
    scope: str
    state: str
    """new, copying, following or away."""
    behind: int | None
    """Changes of theirs that are not here yet, as far as is known."""
    level_at: datetime | None
    unconfirmed: int | None
    """Changes of ours that they have not confirmed."""
    asked_at: datetime | None
    skew: timedelta | None
    """By how much the clock here is ahead of theirs."""
    error: str | None
    waiting: int = 0
    """Keys of theirs that are here but wait for a transaction that holds the key."""
    waiting_since: datetime | None = None
    waits_for: str | None = None
    """The transactions that hold them."""


@dataclass(frozen=True, slots=True)
class KvHeld:
    """A change of another zone that waits here: for its time, or for a lock."""

    namespace: str
    key: str
    stamped_for: datetime
    held_at: datetime
    reason: str = "clock"
    """clock: the stamp is too far in the future; lock: an open transaction holds the key."""


@dataclass(frozen=True, slots=True)
class Hello:
    """What another instance says of itself."""

    origin: int
    whole: bool
    began_after: int
    head: int
    clock: int
    pulled: int | None
    """Up to where it has everything of the one who asks, as far as it can tell."""
    word_back: dict[str, Any] | None = None
    """What it knows of the one who asks, for `pull_calls.witness`."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """How far this instance has pulled from another."""

    life: int
    whole: bool
    up_to: int | None
    state: dict[str, Any] | None
    clock: int
    waiting: int = 0
    """Keys that wait here for a lock, of every peer."""
    word: dict[str, Any] | None = None
    """What this instance knows of the other, for `pull_calls.hello`."""
    start: str | None = None
    """The present start of the server here."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What changed elsewhere, for `pull_calls.apply`."""

    life: int | None
    up_to: int
    head: int
    states: JsonText


@dataclass(frozen=True, slots=True)
class Copied:
    """A part of everything, for `pull_calls.apply`."""

    last_namespace: str | None
    last_key: str | None
    states: JsonText


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of states of another instance."""

    applied: int
    held: int
    clock: int
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class Digest:
    """A part of all keys and the number that tells which versions it has."""

    bucket: int
    keys: int
    digest: int
