"""What webhooks ask of the database: one builder per SQL function."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from trunkline.broker.conditions import as_text
from trunkline.broker.endpoints import Endpoint, Rules, Webhook, WebhookEntry
from trunkline.core.calls import Call, as_json, duration, made, many, nothing, one, scalar
from trunkline.core.notes import Note

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

_TYPES = {
    "condition": "text",
    "params": "jsonb",
    "secret": "text",
    "headers": "jsonb",
    "retry": "interval[]",
    "timeout": "interval",
}


def add(
    group_name: str,
    url: str,
    condition: str | Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | None = None,
    *,
    secret: str | None = None,
    headers: Mapping[str, str] | None = None,
    retry: Sequence[timedelta] | None = None,
    timeout: timedelta | None = None,
    batch: int | None = None,
    format: str | None = None,  # noqa: A002 - as in SQL
    concurrency: int | None = None,
    ordering: str | None = None,
) -> Call[int]:
    """Post events to a URL from now on; the number of the webhook. What is None is SQL's default.

    With a ``secret`` messages are signed: base64 of 24 to 64 bytes. ``headers`` win over ours. What
    fails is tried again after each of the waits of ``retry``, then it is a dead letter.
    """
    given = {
        "params": None if params is None else as_json(params, of="params"),
        "secret": secret,
        "headers": None if headers is None else as_json(headers, of="headers"),
        "retry": None if retry is None else [duration("retry", wait) for wait in retry],
        "timeout": timeout,
        "batch": batch,
        "format": format,
        "concurrency": concurrency,
        "ordering": ordering,
    }
    return Call(
        "broker_webhook_add",
        {
            "group_name": group_name,
            "url": url,
            "condition": as_text(condition),
            **{name: value for name, value in given.items() if value is not None},
        },
        scalar,
        types=_TYPES,
    )


def webhooks(group_name: str | None = None) -> Call[list[Webhook]]:
    """Webhooks with their state, of one group or all."""
    return Call(
        "broker_webhook_list",
        {"group_name": group_name},
        many(Webhook),
        safe_to_repeat=True,
        types={"group_name": "text"},
    )


def rotate(webhook: int, secret: str, *, overlap: timedelta | None = None) -> Call[None]:
    """Sign with another secret; the one before signs along for the overlap, a day."""
    given = {} if overlap is None else {"overlap": overlap}
    return Call("broker_webhook_rotate", {"webhook": webhook, "secret": secret, **given}, nothing)


def pause(webhook: int, reason: str | None = None) -> Call[bool]:
    """Send nothing until it is resumed; whether it was not paused before."""
    return Call(
        "broker_webhook_pause",
        {"webhook": webhook, "reason": None if reason is None else Note(reason)},
        scalar,
        safe_to_repeat=True,
        types={"reason": "text"},
    )


def resume(webhook: int) -> Call[bool]:
    """Send again, from where it was paused; whether it was."""
    return Call("broker_webhook_resume", {"webhook": webhook}, scalar, safe_to_repeat=True)


def remove(webhook: int) -> Call[bool]:
    """Remove a webhook with all that belongs to it; whether it was there."""
    return Call("broker_webhook_remove", {"webhook": webhook}, scalar, safe_to_repeat=True)


def log(
    webhook: int | None = None, *, max_entries: int = 100, before: int | None = None
) -> Call[list[WebhookEntry]]:
    """What was sent, and what was answered; the newest first."""
    return Call(
        "broker_webhook_log",
        {"webhook": webhook, "max_entries": max_entries, "before": before},
        many(WebhookEntry),
        safe_to_repeat=True,
        types={"webhook": "bigint", "before": "bigint"},
    )


def log_add(entries: Sequence[Mapping[str, Any]]) -> Call[None]:
    """Note attempts in the log."""
    return Call(
        "_webhook_log_add",
        {"entries": Note(json.dumps(entries, default=str, ensure_ascii=False))},
        nothing,
        types={"entries": "jsonb"},
    )


def endpoints() -> Call[list[Endpoint]]:
    """The webhooks that are not paused, with their secrets; for the sender."""
    return Call(
        "_webhook_endpoints",
        {},
        lambda rows: [_endpoint(row) for row in rows],
        safe_to_repeat=True,
    )


def rules() -> Call[Rules]:
    """The settings that the sender obeys."""
    return Call("_webhook_rules", {}, one(Rules), safe_to_repeat=True)


def _endpoint(row: dict[str, Any]) -> Endpoint:
    read = {
        "retry": tuple(wait.total_seconds() for wait in row["retry"]),
        "timeout": row["timeout"].total_seconds(),
        "secrets": tuple((secret, until) for secret, until in row["secrets"]),
    }
    return made(Endpoint, row | read)
