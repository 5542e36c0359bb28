"""What handlers ask of the database: lanes, deliveries, failures, dead letters."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from trunkline.broker.delivered import (
    DeadLetter,
    DeadLetterDetails,
    Delivered,
    HandlerLane,
    Outlook,
    RetryBatch,
)
from trunkline.broker.lane import Cut
from trunkline.broker.readable import readable_row
from trunkline.core.calls import Call, made, many, nothing, scalar
from trunkline.core.gathering import ALONE
from trunkline.core.notes import Note

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import timedelta
    from uuid import UUID


def join(group: str, handler: str, process: UUID, *, member: str = "") -> Call[list[HandlerLane]]:
    """Take part in the work of a handler: the lanes that are ours."""
    return Call(
        "broker_join",
        {"group_name": group, "handler": handler, "process": process, "member": member},
        many(HandlerLane),
        safe_to_repeat=True,
    )


def leave(
    group: str,
    handler: str,
    process: UUID,
    *,
    member: str = "",
    lanes: Sequence[int] | None = None,
) -> Call[None]:
    """Give lanes of a handler back, or all, and leave it."""
    return Call(
        "broker_leave",
        {
            "group_name": group,
            "handler": handler,
            "process": process,
            "member": member,
            "lanes": None if lanes is None else list(lanes),
        },
        nothing,
        safe_to_repeat=True,
        types={"lanes": "int[]"},
    )


def fetch(
    group: str,
    handler: str,
    after: Mapping[int, int],
    *,
    max_events: int,
    json_text: bool = False,
) -> Call[dict[int, list[Delivered]]]:
    """What lies ahead in lanes, each after a delivery; at most so many events of each."""
    return Call(
        "broker_fetch",
        {
            "group_name": group,
            "handler": handler,
            "lanes": list(after),
            "after": list(after.values()),
            "max_events": max_events,
        },
        _by_lane,
        safe_to_repeat=True,
        json_text=json_text,
        json_unread=True,
        readable="_broker_fetch_readable",
        types={"lanes": "int[]", "after": "bigint[]"},
    )


def fetch_together(
    asked: Sequence[Call[dict[int, list[Delivered]]]],
) -> Call[list[dict[int, list[Delivered]] | object]]:
    """Many calls of `fetch` as one; all of them want JSON in the same form."""
    given = [call.arguments for call in asked]
    lanes = [(each, lane) for each in given for lane in each["lanes"]]
    owners = [number for number, each in enumerate(given) for _ in each["lanes"]]

    def shape(rows: list[dict[str, Any]]) -> list[dict[int, list[Delivered]] | object]:
        found: list[Any] = [{} for _ in asked]
        for row in rows:
            owner, (_, lane) = owners[row["place"] - 1], lanes[row["place"] - 1]
            if row["up_to"] is None:
                found[owner] = ALONE
            elif found[owner] is not ALONE:
                event = _delivered(row, blocked=bool(row["blocked"]))
                found[owner].setdefault(lane, []).append(event)
        return found

    return Call(
        "_broker_fetch_many",
        {
            "group_names": [each["group_name"] for each, _ in lanes],
            "handlers": [each["handler"] for each, _ in lanes],
            "lanes": [lane for _, lane in lanes],
            "after": [after for each in given for after in each["after"]],
            "most": [each["max_events"] for each, _ in lanes],
        },
        shape,
        safe_to_repeat=True,
        json_text=asked[0].json_text,
        json_unread=True,
        types={
            "group_names": "text[]",
            "handlers": "text[]",
            "lanes": "int[]",
            "after": "bigint[]",
            "most": "int[]",
        },
    )


def look(group: str, handler: str, lanes: Iterable[int]) -> Call[list[Outlook]]:
    """What a handler may expect in its lanes."""
    return Call(
        "broker_look",
        {"group_name": group, "handler": handler, "lanes": list(lanes)},
        many(Outlook),
        safe_to_repeat=True,
        types={"lanes": "int[]"},
    )


def commit(
    group: str, handler: str, lane: int, epoch: int, up_to: int, cuts: Iterable[Cut] = ()
) -> Call[None]:
    """Everything of a lane up to a delivery is done; with the batches that come next, if known."""
    place = {"group_name": group, "handler": handler, "lane": lane, "epoch": epoch, "up_to": up_to}
    if not (known := [[cut.end, *cut.aside] for cut in cuts]):
        return Call("broker_commit", place, nothing, safe_to_repeat=True)
    return Call(
        "_broker_cut",
        {**place, "cuts": json.dumps(known)},
        nothing,
        safe_to_repeat=True,
        types={"cuts": "jsonb"},
    )


def cuts(group: str, handler: str, lanes: Iterable[int]) -> Call[dict[int, list[Cut]]]:
    """The batches that were written down in lanes, and not committed."""

    def shape(rows: list[dict[str, Any]]) -> dict[int, list[Cut]]:
        return {
            row["lane"]: [Cut(end, tuple(aside)) for end, *aside in row["cuts"] or ()]
            for row in rows
        }

    return Call(
        "_broker_cuts",
        {"group_name": group, "handler": handler, "lanes": list(lanes)},
        shape,
        safe_to_repeat=True,
        types={"lanes": "int[]"},
    )


def commit_together(asked: Sequence[Call[None]]) -> Call[list[object]]:
    """Many calls of `commit` as one: all of them with the batches that come next, or none."""
    has_cuts = "cuts" in asked[0].arguments

    def shape(rows: list[dict[str, Any]]) -> list[object]:
        committed = set(scalar(rows))
        return [None if place in committed else ALONE for place in range(1, len(asked) + 1)]

    return Call(
        "_broker_cut_many" if has_cuts else "_broker_commit_many",
        {
            names: [call.arguments[name] for call in asked]
            for names, name in (
                ("group_names", "group_name"),
                ("handlers", "handler"),
                ("lanes", "lane"),
                ("epochs", "epoch"),
                ("up_tos", "up_to"),
                *([("cuts", "cuts")] if has_cuts else []),
            )
        },
        shape,
        safe_to_repeat=True,
        types={
            "group_names": "text[]",
            "handlers": "text[]",
            "lanes": "int[]",
            "epochs": "bigint[]",
            "up_tos": "bigint[]",
            "cuts": "jsonb[]",
        },
    )


def fail(
    group: str,
    handler: str,
    lane: int,
    epoch: int,
    deliveries: Sequence[int],
    error: str,
    *,
    retry_after: timedelta | None = None,
) -> Call[int | None]:
    """Set events aside that a handler failed with: for another try, or as dead letters."""
    return Call(
        "broker_fail",
        {
            "group_name": group,
            "handler": handler,
            "lane": lane,
            "epoch": epoch,
            "deliveries": list(deliveries),
            "error": Note(error),
            "retry_after": retry_after,
        },
        scalar,
        types={"deliveries": "bigint[]", "retry_after": "interval"},
    )


def park(group: str, handler: str, lane: int, epoch: int, deliveries: Sequence[int]) -> Call[int]:
    """Set events aside that must wait for an older event of their key."""
    return Call(
        "broker_park",
        {
            "group_name": group,
            "handler": handler,
            "lane": lane,
            "epoch": epoch,
            "deliveries": list(deliveries),
        },
        scalar,
        types={"deliveries": "bigint[]"},
    )


def retries(
    group: str,
    handler: str,
    lane: int,
    epoch: int,
    *,
    max_batches: int = 1,
    json_text: bool = False,
) -> Call[list[RetryBatch]]:
    """Batches of a lane that are due for another try."""
    return Call(
        "broker_retries",
        {
            "group_name": group,
            "handler": handler,
            "lane": lane,
            "epoch": epoch,
            "max_batches": max_batches,
        },
        _retry_batches,
        safe_to_repeat=True,
        json_text=json_text,
        json_unread=True,
        readable="_broker_retries_readable",
    )


def retried(
    group: str,
    handler: str,
    lane: int,
    epoch: int,
    batch: int,
    *,
    error: str | None = None,
    retry_after: timedelta | None = None,
) -> Call[list[str]]:
    """Settle another try of a batch; the keys of which nothing is set aside any more."""
    return Call(
        "broker_retried",
        {
            "group_name": group,
            "handler": handler,
            "lane": lane,
            "epoch": epoch,
            "batch": batch,
            "error": None if error is None else Note(error),
            "retry_after": retry_after,
        },
        scalar,
        types={"error": "text", "retry_after": "interval"},
    )


def trial(
    group: str, handler: str, lane: int, epoch: int, delivery: int | None, *, note: bool = True
) -> Call[int]:
    """Note that an event is tried alone; how often that was. None: the lane is trusted again."""
    return Call(
        "broker_trial",
        {
            "group_name": group,
            "handler": handler,
            "lane": lane,
            "epoch": epoch,
            "delivery": delivery,
            "note": note,
        },
        scalar,
        types={"delivery": "bigint"},
    )


def trial_over(group: str, handler: str, lane: int, epoch: int, delivery: int) -> Call[None]:
    """The process lived: forget that an event was tried alone."""
    return Call(
        "_broker_trial_over",
        {
            "group_name": group,
            "handler": handler,
            "lane": lane,
            "epoch": epoch,
            "delivery": delivery,
        },
        nothing,
        safe_to_repeat=True,
    )


def hasten(group: str, handler: str) -> Call[int]:
    """Make everything that waits for another try due now."""
    return Call("_broker_hasten", {"group_name": group, "handler": handler}, scalar)


def progress(group: str, handler: str, up_to: int) -> Call[None]:
    """Note where a reader is that keeps its position elsewhere."""
    return Call(
        "broker_progress",
        {"group_name": group, "handler": handler, "up_to": up_to},
        nothing,
        safe_to_repeat=True,
        types={"up_to": "bigint"},
    )


def handler_delete(group_name: str, handler: str) -> Call[None]:
    """Delete a handler that nobody will run again, with its positions and dead letters."""
    return Call("broker_handler_delete", {"group_name": group_name, "handler": handler}, nothing)


def dead_list(
    group_name: str | None = None, *, handler: str | None = None
) -> Call[list[DeadLetter]]:
    """Dead letters: events that handlers failed with for good."""
    return Call(
        "broker_dead_list",
        {"group_name": group_name, "handler": handler},
        many(DeadLetter),
        safe_to_repeat=True,
        types={"group_name": "text", "handler": "text"},
    )


def dead_show(retry: int) -> Call[DeadLetterDetails]:
    """One dead letter: the event, and the error of every attempt."""
    return Call(
        "broker_dead_show",
        {"retry": retry},
        lambda rows: made(DeadLetterDetails, readable_row(rows[0])),
        safe_to_repeat=True,
        json_unread=True,
        readable="_broker_dead_show_readable",
    )


def dead_retry(
    retry: int | None = None, *, group_name: str | None = None, handler: str | None = None
) -> Call[int]:
    """Try dead letters once more: one, or all of a handler; how many."""
    return _dead("broker_dead_retry", retry, group_name, handler)


def dead_discard(
    retry: int | None = None, *, group_name: str | None = None, handler: str | None = None
) -> Call[int]:
    """Give dead letters up: one, or all of a handler; how many."""
    return _dead("broker_dead_discard", retry, group_name, handler)


def _dead(
    function: str, retry: int | None, group_name: str | None, handler: str | None
) -> Call[int]:
    return Call(
        function,
        {"retry": retry, "group_name": group_name, "handler": handler},
        scalar,
        types={"retry": "bigint", "group_name": "text", "handler": "text"},
    )


def _delivered(row: dict[str, Any], **more: Any) -> Delivered:
    row = readable_row(row)
    return Delivered(
        position=row["event_position"],
        event_id=row["event_id"],
        topic=row["topic"],
        key=row["key"],
        payload=row["payload"],
        metadata=row["metadata"],
        subscription=None,
        at=row["at"],
        delivery=row["up_to"],
        subscriptions=row["subscriptions"] or (),
        **more,
    )


def _by_lane(rows: list[dict[str, Any]]) -> dict[int, list[Delivered]]:
    found: dict[int, list[Delivered]] = {}
    for row in rows:
        event = _delivered(row, blocked=bool(row["blocked"]))
        found.setdefault(row["lane"], []).append(event)
    return found


def _retry_batches(rows: list[dict[str, Any]]) -> list[RetryBatch]:
    found: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["batch"], []).append(row)
    return [
        RetryBatch(
            batch,
            max(row["attempts"] for row in members),
            [_delivered(row, attempt=row["attempts"] + 1, errors=row["errors"]) for row in members],
        )
        for batch, members in found.items()
    ]
