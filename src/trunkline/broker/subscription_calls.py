"""What subscribers ask of the database: one builder per SQL function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trunkline.broker.conditions import as_text
from trunkline.broker.models import Explained, Subscription
from trunkline.core.arguments import checked
from trunkline.core.calls import Call, as_json, made, many, nothing, scalar

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta
    from uuid import UUID


@checked
def subscribe(
    group_name: str,
    condition: str | Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | None = None,
    *,
    expiry: timedelta | None = None,
    from_position: int | None = None,
    from_time: datetime | None = None,
    process: UUID | None = None,
    handler: str | None = None,
    ordering: str | None = None,
    lanes: int | None = None,
    replace: bool = False,
) -> Call[int]:
    """Subscribe a group to the events for which a condition holds; the subscription's number."""
    return Call(
        "broker_subscribe",
        {
            "group_name": group_name,
            "condition": as_text(condition),
            "params": as_json(params or {}, of="params"),
            "expiry": expiry,
            "from_position": from_position,
            "from_time": from_time,
            "process": process,
            "handler": handler,
            "ordering": ordering,
            "lanes": lanes,
            "replace": replace,
        },
        scalar,
        safe_to_repeat=True,
        types={
            "condition": "text",
            "params": "jsonb",
            "expiry": "interval",
            "from_position": "bigint",
            "from_time": "timestamptz",
            "process": "uuid",
            "lanes": "int",
        },
    )


def unsubscribe(subscription: int) -> Call[bool]:
    """End a subscription; whether it was there. What was found for it is still delivered."""
    return Call("broker_unsubscribe", {"subscription": subscription}, scalar)


def subscriptions(group_name: str | None = None) -> Call[list[Subscription]]:
    """Subscriptions of one group or of all, with the error of those in quarantine."""
    return Call(
        "broker_subscriptions",
        {"group_name": group_name},
        many(Subscription),
        safe_to_repeat=True,
        types={"group_name": "text"},
    )


def explain(
    condition: str | Mapping[str, Any] | None,
    params: Mapping[str, Any] | None = None,
    *,
    max_events: int = 1_000,
) -> Call[Explained]:
    """What a condition would do: index or scan, matches among the last events, time, error."""
    return Call(
        "broker_explain",
        {
            "condition": as_text(condition),
            "params": as_json(params or {}, of="params"),
            "max_events": max_events,
        },
        lambda rows: made(Explained, rows[0] | {"milliseconds": float(rows[0]["milliseconds"])}),
        safe_to_repeat=True,
        types={"condition": "text", "params": "jsonb", "max_events": "int"},
    )


def resume(subscription: int, *, skip: bool = True, from_position: int | None = None) -> Call[int]:
    """Take a subscription out of quarantine, without or with the event that failed.

    Returns the position from which on it is matched. Where events have left that it has not seen
    it is refused, with ``first`` in the details: ``from_position`` goes on from there.
    """
    return Call(
        "broker_resume",
        {"subscription": subscription, "skip": skip, "from_position": from_position},
        scalar,
        types={"from_position": "bigint"},
    )


@checked
def hold(subscription: int, process: UUID) -> Call[None]:
    """Keep a subscription from expiring as long as the lease of a process lasts."""
    return Call(
        "broker_hold",
        {"subscription": subscription, "process": process},
        nothing,
        safe_to_repeat=True,
    )
