"""What the broker asks of the database: one builder per SQL function."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from numbers import Integral
from typing import TYPE_CHECKING, Any
from uuid import UUID

from trunkline.broker.event_ids import event_number
from trunkline.broker.models import (
    Condition,
    Ends,
    Event,
    Group,
    HandlerLag,
    Hop,
    NewEvent,
    Scanned,
    Scheduled,
    Unforwarded,
    Unmatched,
    Waiting,
    WrittenEvent,
)
from trunkline.broker.readable import readable_row
from trunkline.core.calls import Call, as_json, made, many, moment, nothing, one, scalar
from trunkline.core.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta


def publish(
    topic: str,
    payload: Any,
    *,
    key: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    deliver_at: datetime | None = None,
    subscription: int | None = None,
) -> Call[int]:
    """Publish one event; its id."""
    return Call(
        "broker_publish",
        {
            "topic": _text(topic, of="topic"),
            "payload": as_json(payload, of="payload"),
            "key": _text(key, of="key"),
            "metadata": None if metadata is None else as_json(metadata, of="metadata"),
            "deliver_at": _time(deliver_at),
            "subscription": _number(subscription),
        },
        scalar,
        types={
            "topic": "text",
            "payload": "jsonb",
            "key": "text",
            "metadata": "jsonb",
            "deliver_at": "timestamptz",
            "subscription": "bigint",
        },
    )


def publish_many(events: Iterable[NewEvent]) -> Call[list[int]]:
    """Publish events, all or none, in order; their ids."""
    if not isinstance(events, Iterable):
        raise Invalid(f"events to publish are a list, got {type(events).__name__}.")
    return publish_written([written(event) for event in events])


def written(event: NewEvent) -> WrittenEvent:
    """Write an event down; `Invalid` for what JSON cannot hold."""
    if not isinstance(event, NewEvent):
        raise Invalid(f"an event to publish is a NewEvent, got {type(event).__name__}.")
    return WrittenEvent(
        _text(event.topic, of="topic"),
        as_json(event.payload, of="payload"),
        _text(event.key, of="key"),
        None if event.metadata is None else as_json(event.metadata, of="metadata"),
        _time(event.deliver_at),
        _number(event.subscription),
    )


def publish_written(events: Sequence[WrittenEvent]) -> Call[list[int]]:
    """Publish events that are written down, all or none, in order; their ids."""
    types = {
        "topics": "text[]",
        "payloads": "jsonb[]",
        "keys": "text[]",
        "metadatas": "jsonb[]",
        "deliver_ats": "timestamptz[]",
        "subscriptions": "bigint[]",
    }
    columns = [list(column) for column in zip(*events, strict=True)] or [[] for _ in types]
    arguments = dict(zip(types, columns, strict=True))
    return Call("broker_publish_many", arguments, scalar, types=types)


def topic(topic: str, *, key_order: str) -> Call[None]:
    """Say how the events of one key of a topic follow each other: committed or locked."""
    return Call(
        "broker_topic", {"topic": topic, "key_order": key_order}, nothing, safe_to_repeat=True
    )


def events(
    from_position: int,
    *,
    max_events: int = 1_000,
    topics: Sequence[str] | None = None,
    to_position: int | None = None,
) -> Call[list[Event]]:
    """Events by position, all or those of some topics."""
    return Call(
        "broker_events",
        {
            "from_position": from_position,
            "max_events": max_events,
            "topics": None if topics is None else list(topics),
            "to_position": to_position,
        },
        lambda rows: [made(Event, readable_row(row) | {"position": row["up_to"]}) for row in rows],
        safe_to_repeat=True,
        json_unread=True,
        readable="_broker_events_readable",
        types={"topics": "text[]", "to_position": "bigint"},
    )


def head() -> Call[int]:
    """The highest position that is numbered."""
    return Call("broker_head", {}, scalar, safe_to_repeat=True)


def incarnation() -> Call[int]:
    """The number of this life of the server."""
    return Call("incarnation", {}, scalar, safe_to_repeat=True)


def tick() -> Call[int]:
    """Number the events that were committed since the last tick."""
    return Call("broker_tick", {}, scalar, safe_to_repeat=True)


def release(*, max_events: int = 10_000) -> Call[int]:
    """Publish events whose time has come."""
    return Call("broker_release", {"max_events": max_events}, scalar, safe_to_repeat=True)


def due_in() -> Call[float | None]:
    """In how many seconds the next event that waits for its time is due."""
    return Call("_broker_due_in", {}, scalar, safe_to_repeat=True)


def next_due() -> Call[datetime | None]:
    """When the next event that waits for its time is due."""
    return Call("broker_next_due", {}, scalar, safe_to_repeat=True)


def forward(topic: str, *, max_events: int = 10_000) -> Call[int]:
    """Append the events of a topic to the topic of the log with the same name; how many."""
    return Call(
        "broker_forward", {"topic": topic, "max_events": max_events}, scalar, safe_to_repeat=True
    )


def forwardable(after: int | None = None) -> Call[dict[str, int]]:
    """Topics of the log with events that are not forwarded yet, and how many."""
    return Call(
        "broker_forwardable",
        {"after": after},
        lambda rows: {row["topic"]: row["events"] for row in rows},
        safe_to_repeat=True,
        types={"after": "bigint"},
    )


def unforwarded(topic: str | None = None) -> Call[list[Unforwarded]]:
    """Events that are too large for the topic of the log they belong to."""
    return Call(
        "broker_unforwarded",
        {"topic": topic},
        many(Unforwarded),
        safe_to_repeat=True,
        types={"topic": "text"},
    )


def unforwarded_discard(event_id: int) -> Call[None]:
    """Forget an event that is too large for the log."""
    return Call("broker_unforwarded_discard", {"event_id": event_id}, nothing)


def ends(group: str | None = None) -> Call[Ends]:
    """Where reading events, or the deliveries of a group, may begin and where it ends."""
    return Call("broker_ends", {"group_name": group}, one(Ends), types={"group_name": "text"})


def source() -> Call[str]:
    """The source of events as CloudEvents."""
    return Call("broker_source", {}, scalar, safe_to_repeat=True)


def match(*, max_events: int | None = None) -> Call[int]:
    """One round of matching: the next events become deliveries; how many events."""
    return Call(
        "broker_match",
        {"max_events": max_events},
        scalar,
        safe_to_repeat=True,
        types={"max_events": "int"},
    )


def catch_up(*, max_events: int | None = None) -> Call[int]:
    """One round of matching the history for a subscription that began with it."""
    return Call(
        "broker_catch_up",
        {"max_events": max_events},
        scalar,
        safe_to_repeat=True,
        types={"max_events": "int"},
    )


def limit() -> Call[str]:
    """Give the statements to come in this transaction the time that a condition may take."""
    return Call("_broker_limit", {}, scalar)


def match_weigh(max_events: int, *, late: bool) -> Call[None]:
    """Read the next events without any condition, or those of the one that catches up."""
    return Call(
        "_match_weigh", {"max_events": max_events, "late": late}, nothing, safe_to_repeat=True
    )


def match_try(condition_id: int, *, max_events: int) -> Call[str | None]:
    """Run one condition over the next events, without any effect; its error."""
    arguments = {"condition_id": condition_id, "max_events": max_events}
    return Call("broker_match_try", arguments, scalar, safe_to_repeat=True)


def quarantine(error: str, *, condition_id: int | None = None) -> Call[int]:
    """Set subscriptions aside whose condition takes too long."""
    return Call(
        "broker_quarantine",
        {"error": error, "condition_id": condition_id},
        scalar,
        safe_to_repeat=True,
        types={"condition_id": "int"},
    )


def scan(
    condition: str | None = None,
    params: str = "{}",
    *,
    after: int | None = None,
    incarnation: int | None = None,
    max_events: int = 1_000,
    json_text: bool = False,
) -> Call[list[Scanned]]:
    """Events after a position for which a condition holds, in order."""
    return Call(
        "broker_scan",
        {
            "condition": condition,
            "params": params,
            "after": after,
            "incarnation": incarnation,
            "max_events": max_events,
        },
        lambda rows: [made(Scanned, readable_row(row)) for row in rows],
        safe_to_repeat=True,
        json_text=json_text,
        json_unread=True,
        readable="_broker_scan_readable",
        types={"condition": "text", "params": "jsonb", "after": "bigint", "incarnation": "int"},
    )


def schedule(by_whom: str, *, every: timedelta | None = None) -> Call[None]:
    """Say who does the background work: services, or pg_cron."""
    return Call(
        "broker_schedule",
        {"by_whom": by_whom, "every": every},
        nothing,
        safe_to_repeat=True,
        types={"every": "interval"},
    )


def scheduled() -> Call[list[Scheduled]]:
    """Who does the background work, and how that goes."""
    return Call("broker_scheduled", {}, many(Scheduled), safe_to_repeat=True)


def unmatched() -> Call[Unmatched]:
    """How many events are numbered and not matched yet, and since when."""
    return Call("broker_unmatched", {}, one(Unmatched), safe_to_repeat=True)


def unnumbered() -> Call[timedelta]:
    """For how long the first event has waited that is not numbered yet."""
    return Call("broker_unnumbered", {}, scalar, safe_to_repeat=True)


def quarantined() -> Call[dict[str, int]]:
    """How many subscriptions are in quarantine, by group."""
    return Call(
        "broker_quarantined",
        {},
        lambda rows: {row["group_name"]: row["subscriptions"] for row in rows},
        safe_to_repeat=True,
    )


def lost() -> Call[dict[str, int]]:
    """How many deliveries have left before they were read, by group."""
    return Call(
        "broker_lost",
        {},
        lambda rows: {row["group_name"]: row["deliveries"] for row in rows},
        safe_to_repeat=True,
    )


def conditions() -> Call[list[Condition]]:
    """Distinct conditions and how many subscriptions have them."""
    return Call("broker_conditions", {}, many(Condition), safe_to_repeat=True)


def group(group_name: str, *, lanes: int | None = None, lasting: bool = True) -> Call[int]:
    """Make a group, and choose its lanes."""
    return Call(
        "broker_group",
        {"group_name": group_name, "lanes": lanes, "lasting": lasting},
        scalar,
        safe_to_repeat=True,
        types={"lanes": "int"},
    )


def group_delete(group_name: str) -> Call[None]:
    """Delete a group with all that belongs to it."""
    return Call("broker_group_delete", {"group_name": group_name}, nothing)


def groups() -> Call[list[Group]]:
    """Groups: lanes, subscriptions, handlers, what waits in them, and what they have lost."""
    return Call(
        "broker_groups",
        {},
        lambda rows: [
            made(Group, row | {"waiting": int(row["waiting"]), "dead": int(row["dead"])})
            for row in rows
        ],
        safe_to_repeat=True,
    )


def lag(group_name: str | None = None) -> Call[list[HandlerLag]]:
    """Handlers of groups, lane by lane: what waits, since when, what failed, who works on it."""
    return Call("broker_lag", {"group_name": group_name}, many(HandlerLag), safe_to_repeat=True)


def why(event_id: int | str) -> Call[list[Hop]]:
    """What became of an event, hop by hop; its id is a number or what ``event_id_text()`` made."""
    return Call(
        "broker_why",
        {"event_id": event_number(event_id)},
        many(Hop),
        safe_to_repeat=True,
        types={"event_id": "bigint"},
    )


def read(
    group_name: str,
    *,
    handler: str = "",
    lane: int | None = None,
    from_position: int | None = None,
    max_events: int = 100,
    peek: bool = False,
) -> Call[list[Waiting]]:
    """Events that wait for a handler of a group, in order."""
    return Call(
        "broker_read",
        {
            "group_name": group_name,
            "handler": handler,
            "lane": lane,
            "from_position": from_position,
            "max_events": max_events,
            "peek": peek,
        },
        lambda rows: [made(Waiting, readable_row(row) | {"lane": row["in_lane"]}) for row in rows],
        safe_to_repeat=True,
        json_unread=True,
        readable="_broker_read_readable",
        types={"lane": "int", "from_position": "bigint"},
    )


def seek(
    group_name: str,
    *,
    handler: str = "",
    at_time: datetime | None = None,
    at_position: int | None = None,
    up_to: int | None = None,
    lane: int | None = None,
) -> Call[dict[int, int]]:
    """Move a handler to a time, an event's position or behind a delivery; where it stands."""
    return Call(
        "broker_seek",
        {
            "group_name": group_name,
            "handler": handler,
            "at_time": at_time,
            "at_position": at_position,
            "up_to": up_to,
            "lane": lane,
        },
        lambda rows: {row["in_lane"]: row["after"] for row in rows},
        safe_to_repeat=True,
        types={"at_time": "timestamptz", "at_position": "bigint", "up_to": "bigint", "lane": "int"},
    )


def _text(value: Any, *, of: str) -> Any:
    """A name as text; numbers and UUIDs have but one, the driver would invent others."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | UUID) and not isinstance(value, bool):
        return str(value)
    is_bytes = isinstance(value, bytes | bytearray | memoryview)
    hint = "Decode it first." if is_bytes else "Give the text that stands for it."
    raise Invalid(f"a {of} is text, got {type(value).__name__}.", hint=hint)


def _number(subscription: Any) -> Any:
    if subscription is None or (
        isinstance(subscription, Integral) and not isinstance(subscription, bool)
    ):
        return subscription
    raise Invalid(f"subscription is the number of one, got {subscription!r:.100}.")


def _time(value: Any) -> Any:
    """When to deliver an event; a text is for the server to understand."""
    if value is None or isinstance(value, date | str):
        return moment(value)
    raise Invalid(
        f"deliver_at is a datetime, got {type(value).__name__}.",
        hint="For example datetime.now(UTC) + timedelta(minutes=5).",
    )
