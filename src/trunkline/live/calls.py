"""What live tables ask of the database: one builder per SQL function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trunkline.core.calls import Call, as_json, made, many, nothing, one, scalar
from trunkline.live.models import (
    Kind,
    LiveAccess,
    LiveColumn,
    LiveRead,
    LiveSubscription,
    LiveTable,
    Subscribed,
    Visible,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from uuid import UUID

_RELATION = {"relation": "regclass"}


def watch(
    relation: str, *, roles: Iterable[str] = (), columns: Iterable[str] | None = None
) -> Call[None]:
    """Make a table live: clients can subscribe to it. ``roles`` may do so."""
    return Call(
        "live_watch",
        {
            "relation": relation,
            "roles": list(roles),
            "columns": None if columns is None else list(columns),
        },
        nothing,
        safe_to_repeat=True,
        types={**_RELATION, "roles": "name[]", "columns": "text[]"},
    )


def unwatch(relation: str) -> Call[bool]:
    """A table is live no longer; whether it was."""
    return Call(
        "live_unwatch", {"relation": relation}, scalar, safe_to_repeat=True, types=_RELATION
    )


def watch_tagged() -> Call[list[dict[str, Any]]]:
    """Make tables live whose comment says so, and those no longer that lost it."""
    return Call("live_watch_tagged", {}, list, safe_to_repeat=True)


def allow(role: str) -> Call[None]:
    """Let a role subscribe to live tables."""
    return Call("live_allow", {"role": role}, nothing, safe_to_repeat=True, types={"role": "name"})


def forbid(role: str) -> Call[bool]:
    """Take back what `allow` gave, and end the role's subscriptions; whether it was allowed."""
    return Call("live_forbid", {"role": role}, scalar, safe_to_repeat=True, types={"role": "name"})


def tables(relation: str | None = None, *, role: str | None = None) -> Call[list[LiveTable]]:
    """Live tables with their columns; with ``role`` those that this role may select."""
    return Call(
        "live_tables",
        {"relation": relation, "role": role},
        lambda rows: [_table(row) for row in rows],
        safe_to_repeat=True,
        types={**_RELATION, "role": "name"},
    )


def _table(row: dict[str, Any]) -> LiveTable:
    columns = [
        made(LiveColumn, column | {"kind": Kind(column["kind"]), "labels": tuple(column["labels"])})
        for column in row["columns"]
    ]
    return made(LiveTable, row | {"columns": columns})


def access(relation: str, role: str, *, oldest: int | None = None) -> Call[LiveAccess]:
    """What a role may see of a live table, of events from this id on."""
    return Call(
        "live_access",
        {"relation": relation, "role": role, "oldest": oldest},
        one(LiveAccess),
        safe_to_repeat=True,
        types={**_RELATION, "role": "name", "oldest": "bigint"},
    )


def visible(
    relation: str, role: str, settings: Mapping[str, str], images: Sequence[str | None]
) -> Call[list[bool]]:
    """Which rows, given as JSON, a role may see by the table's policies."""
    return Call(
        "live_visible",
        {
            "relation": relation,
            "role": role,
            "settings": as_json(dict(settings), of="settings"),
            "images": list(images),
        },
        scalar,
        safe_to_repeat=True,
        types={**_RELATION, "role": "name", "settings": "jsonb", "images": "jsonb[]"},
    )


def visible_many(
    relation: str,
    role: str,
    settings: Sequence[Mapping[str, str]],
    images: Sequence[str],
    numbers: Sequence[Sequence[int]],
    *,
    oldest: int | None = None,
) -> Call[list[Visible]]:
    """Which of the rows, given as JSON, each of many who are of one role may see.

    ``numbers`` are those of the rows that are asked for, for each of them, counted from 1. There
    may be fewer answers than were asked for, at least one: ask again for the others. ``oldest`` is
    the lowest id of the events that the rows come from.
    """
    return Call(
        "live_visible_many",
        {
            "relation": relation,
            "role": role,
            "settings": [as_json(dict(some), of="settings") for some in settings],
            "images": list(images),
            "numbers": as_json([list(some) for some in numbers], of="numbers"),
            "oldest": oldest,
        },
        many(Visible),
        safe_to_repeat=True,
        types={
            **_RELATION,
            "role": "name",
            "settings": "jsonb[]",
            "images": "jsonb[]",
            "numbers": "jsonb",
            "oldest": "bigint",
        },
    )


def hurry() -> Call[None]:
    """Let what follows in the transaction take no longer than policies may."""
    return Call("_live_hurry", {}, nothing, safe_to_repeat=True)


def subscribe(
    relation: str,
    condition: Mapping[str, Any] | None = None,
    *,
    changes: Iterable[str] | None = None,
    columns: Iterable[str] | None = None,
    settings: Iterable[str] = (),
    process: UUID | None = None,
) -> Call[Subscribed]:
    """Be told of the rows of a live table that change; ``settings`` go along as they are now."""
    return Call(
        "live_subscribe",
        {
            "relation": relation,
            "condition": as_json(dict(condition or {}), of="condition"),
            "changes": None if changes is None else sorted(changes),
            "columns": None if columns is None else list(columns),
            "settings": list(settings),
            "process": process,
        },
        one(Subscribed),
        types={
            **_RELATION,
            "condition": "jsonb",
            "changes": "text[]",
            "columns": "text[]",
            "settings": "text[]",
            "process": "uuid",
        },
    )


def unsubscribe(subscription: int, *, process: UUID | None = None) -> Call[bool]:
    """End a live subscription; whether it was there. ``process`` is the one that served it."""
    return Call(
        "live_unsubscribe",
        {"subscription": subscription, "process": process},
        scalar,
        safe_to_repeat=True,
        types={"subscription": "bigint", "process": "uuid"},
    )


def subscriptions(process: UUID | None = None) -> Call[list[LiveSubscription]]:
    """Live subscriptions: who is told of which changes."""
    return Call(
        "live_subscriptions",
        {"process": process},
        many(LiveSubscription),
        safe_to_repeat=True,
        types={"process": "uuid"},
    )


def enter(process: UUID) -> Call[int]:
    """Say that a process serves live subscriptions; its generation."""
    return Call("live_enter", {"process": process}, scalar, safe_to_repeat=True)


def leave(process: UUID) -> Call[int]:
    """A process serves live subscriptions no longer; how many end."""
    return Call("live_leave", {"process": process}, scalar, safe_to_repeat=True)


def read(
    after: int,
    *,
    process: UUID | None = None,
    subscription: int | None = None,
    incarnation: int | None = None,
    max_events: int = 1_000,
    to_position: int | None = None,
    generation: int | None = None,
) -> Call[list[LiveRead]]:
    """Changes after a position that live subscriptions ask for."""
    return Call(
        "live_read",
        {
            "after": after,
            "process": process,
            "subscription": subscription,
            "incarnation": incarnation,
            "max_events": max_events,
            "to_position": to_position,
            "generation": generation,
        },
        many(LiveRead),
        safe_to_repeat=True,
        json_text=True,
        types={
            "after": "bigint",
            "process": "uuid",
            "subscription": "bigint",
            "incarnation": "int",
            "to_position": "bigint",
            "generation": "bigint",
        },
    )
