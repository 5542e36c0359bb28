"""Owners, grants and quotas: `Objects` and `SyncObjects`, one line per call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from trunkline.core.calls import (
    AsyncFace,
    Call,
    SyncFace,
    awaited,
    blocking,
    many,
    nothing,
    scalar,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from trunkline.core.db import AsyncDb, Db

T = TypeVar("T")

_ON_ROLE = {"role": "name"}


@dataclass(frozen=True, slots=True)
class OwnedObject:
    """Something that a role owns and shares."""

    object: str
    """Its kind and its name: ``topic:orders``."""
    kind: str
    name: str
    owner: str | None
    """None for an object that is older than owners."""
    grants: dict[str, list[str]]
    """The roles that have a privilege beside the owner."""
    may: list[str]
    """The privileges of the role that asks."""
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Quota:
    """How much a role, and the roles that inherit from it, may write in a second."""

    role: str
    messages_per_second: int | None
    bytes_per_second: int | None


def _on(
    function: str,
    on: str,
    privilege: str,
    role: str,
    shape: Callable[..., T],
) -> Call[T]:
    return Call(
        function,
        {"object": on, "privilege": privilege, "role": role},
        shape,
        safe_to_repeat=True,
        types={**_ON_ROLE, "object": "text", "privilege": "text"},
    )


def grant(object: str, privilege: str, role: str) -> Call[None]:  # noqa: A002 - the word of the SQL
    """Give a role a privilege on an object, for example ``append`` on ``topic:orders``."""
    return _on("grant_on", object, privilege, role, nothing)


def revoke(object: str, privilege: str, role: str) -> Call[bool]:  # noqa: A002
    """Take a privilege from a role; False if the role had no grant of its own."""
    return _on("revoke_on", object, privilege, role, scalar)


def transfer(object: str, owner: str) -> Call[None]:  # noqa: A002
    """Make another role the owner of an object."""
    return Call(
        "object_transfer",
        {"object": object, "owner": owner},
        nothing,
        safe_to_repeat=True,
        types={"object": "text", "owner": "name"},
    )


def objects(kind: str | None = None) -> Call[list[OwnedObject]]:
    """Objects with their owners and grants; with ``kind`` those of one kind."""
    return Call("object_list", {"kind": kind}, many(OwnedObject), safe_to_repeat=True)


def set_quota(
    role: str, *, messages_per_second: int | None = None, bytes_per_second: int | None = None
) -> Call[None]:
    """Limit what a role may append and publish in a second; without a number, remove its quota."""
    limits = {"messages_per_second": messages_per_second, "bytes_per_second": bytes_per_second}
    return Call(
        "quota_set",
        {"role": role, **limits},
        nothing,
        safe_to_repeat=True,
        types={**_ON_ROLE, "messages_per_second": "bigint", "bytes_per_second": "bigint"},
    )


def quotas() -> Call[list[Quota]]:
    """The quotas of roles."""
    return Call("quota_list", {}, many(Quota), safe_to_repeat=True)


class Objects(AsyncFace):
    """What roles own and share, and how much they may write."""

    def __init__(self, db: AsyncDb):
        self._db = db

    list = awaited(objects)
    grant = awaited(grant)
    revoke = awaited(revoke)
    transfer = awaited(transfer)
    set_quota = awaited(set_quota)
    quotas = awaited(quotas)


class SyncObjects(SyncFace):
    """The blocking twin of `Objects`."""

    def __init__(self, db: Db):
        self._db = db

    list = blocking(objects)
    grant = blocking(grant)
    revoke = blocking(revoke)
    transfer = blocking(transfer)
    set_quota = blocking(set_quota)
    quotas = blocking(quotas)
