"""What groups ask of the database: one builder per SQL function."""

from __future__ import annotations

from datetime import datetime, timedelta
from numbers import Integral
from typing import TYPE_CHECKING, Any

from trunkline.core.calls import Call, many, moment, nothing, scalar
from trunkline.core.errors import Invalid
from trunkline.core.notes import Note
from trunkline.log.models import Assignment, Behind, Claim, Lag, Position, Start

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID


def progress(topic: str, group: str, partitions: Sequence[int], up_to: Sequence[int]) -> Call[None]:
    """Note how far a reader is that keeps its offsets elsewhere."""
    return Call(
        "log_progress",
        {
            "topic": topic,
            "group_name": group,
            "partitions": list(partitions),
            "up_to": list(up_to),
        },
        nothing,
        safe_to_repeat=True,
        types={"partitions": "int[]", "up_to": "bigint[]"},
    )


def join(
    topic: str, group: str, process: UUID, *, member: str = "", start: Start = "earliest"
) -> Call[list[Assignment]]:
    """Take part in an assigned group: the partitions that are yours."""
    return Call(
        "log_join",
        {
            "topic": topic,
            "group_name": group,
            "process": process,
            "member": member,
            "start": start_text(start),
        },
        many(Assignment),
        safe_to_repeat=True,
    )


def leave(
    topic: str,
    group: str,
    process: UUID,
    *,
    member: str = "",
    partitions: Sequence[int] | None = None,
) -> Call[None]:
    """Give partitions back, or leave the group."""
    return Call(
        "log_leave",
        {
            "topic": topic,
            "group_name": group,
            "process": process,
            "member": member,
            "partitions": None if partitions is None else list(partitions),
        },
        nothing,
        safe_to_repeat=True,
        types={"partitions": "int[]"},
    )


def commit(
    topic: str,
    group: str,
    partition: int,
    epoch: int,
    up_to: int,
    *,
    incarnation: int | None = None,
) -> Call[None]:
    """Say that everything up to an offset is done; refused when the epoch is over.

    ``incarnation`` is that of the last batch: what another life of the server wrote is refused too.
    """
    return Call(
        "log_commit",
        {
            "topic": topic,
            "group_name": group,
            "partition": partition,
            "epoch": epoch,
            "up_to": up_to,
            "incarnation": incarnation,
        },
        nothing,
        safe_to_repeat=True,
    )


def claim(
    topic: str,
    group: str,
    partition: int,
    *,
    max_messages: int = 100,
    deadline: timedelta | None = None,
    max_attempts: int = 5,
    process: UUID | None = None,
    start: Start = "earliest",
    archived: bool = False,
) -> Call[list[Claim]]:
    """Claim the next messages of a partition for one of many readers of a shared group."""
    return Call(
        "log_claim",
        {
            "topic": topic,
            "group_name": group,
            "partition": partition,
            "max_messages": max_messages,
            "deadline": deadline,
            "max_attempts": max_attempts,
            "process": process,
            "start": start_text(start),
            "archived": archived,
        },
        many(Claim),
        safe_to_repeat=True,  # a claim whose answer got lost comes back after its deadline
    )


def claimable(topic: str, group: str) -> Call[list[int]]:
    """Which partitions have something to claim."""
    return Call(
        "log_claimable",
        {"topic": topic, "group_name": group},
        lambda rows: [row["log_claimable"] for row in rows],
        safe_to_repeat=True,
    )


def ack(topic: str, group: str, partition: int, claim: int) -> Call[None]:
    """A claim is done; refused when it is not in flight any more."""
    return Call("log_ack", _claim(topic, group, partition, claim), nothing)


def release(
    topic: str,
    group: str,
    partition: int,
    claim: int,
    *,
    retry_after: timedelta = timedelta(0),
    reason: str | None = None,
) -> Call[None]:
    """Give a claim back, to be handed out again."""
    arguments = {
        **_claim(topic, group, partition, claim),
        "retry_after": retry_after,
        "reason": None if reason is None else Note(reason),
    }
    return Call("log_release", arguments, nothing)


def extend(
    topic: str, group: str, partition: int, claim: int, deadline: timedelta
) -> Call[datetime]:
    """More time for a claim, counted from now."""
    return Call(
        "log_extend", {**_claim(topic, group, partition, claim), "deadline": deadline}, scalar
    )


def seek(
    topic: str, group: str, start: Start, *, partition: int | None = None
) -> Call[dict[int, int]]:
    """Move a group to earliest, latest, an offset or a time; the next offset by partition."""
    return Call(
        "log_seek",
        {"topic": topic, "group_name": group, "start": start_text(start), "partition": partition},
        lambda rows: {row["to_partition"]: row["from_offset"] for row in rows},
        safe_to_repeat=True,
    )


def groups(topic: str | None = None, group: str | None = None) -> Call[list[Position]]:
    """Groups by partition: what is done, what is there, how far behind, who owns it."""
    return Call(
        "log_groups", {"topic": topic, "group_name": group}, many(Position), safe_to_repeat=True
    )


def lag(topic: str | None = None, group: str | None = None) -> Call[list[Lag]]:
    """How far each group is behind, in messages."""
    return Call("log_lag", {"topic": topic, "group_name": group}, many(Lag), safe_to_repeat=True)


def behind(topic: str | None = None, group: str | None = None) -> Call[list[Behind]]:
    """How far groups are behind by partition: in messages, and for how long."""
    return Call(
        "log_behind", {"topic": topic, "group_name": group}, many(Behind), safe_to_repeat=True
    )


def group_delete(topic: str, group: str) -> Call[None]:
    """Forget a group and its positions."""
    return Call("log_group_delete", {"topic": topic, "group_name": group}, nothing)


def start_text(start: Start) -> str:
    """A start as SQL takes it; a time without a zone is local, whatever the server's zone is."""
    if not isinstance(start, str | Integral | datetime) or isinstance(start, bool):
        raise Invalid(f"a start is earliest, hot, latest, an offset or a time, got {start!r:.100}.")
    return moment(start).isoformat() if isinstance(start, datetime) else str(start)


def _claim(topic: str, group: str, partition: int, claim: int) -> dict[str, Any]:
    return {"topic": topic, "group_name": group, "partition": partition, "claim": claim}
