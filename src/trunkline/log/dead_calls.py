"""What becomes of messages that failed for good: one builder per SQL function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trunkline.core.calls import Call, as_json, made, scalar
from trunkline.log.models import DeadMessage, DeadMessageDetails

if TYPE_CHECKING:
    from trunkline.log.models import Message

GROUP = "dead-letters"
"""The group of a topic of dead letters that is done with what is settled."""


def bury(
    topic: str,
    group: str,
    partition: int,
    claim: int,
    *,
    message: Message | None = None,
) -> Call[dict[int, int]]:
    """Make what a claim holds dead letters, and end it; their numbers by offset.

    ``message`` is the one that it holds, where SQL cannot read it.
    """
    arguments: dict[str, Any] = {
        "topic": topic,
        "group_name": group,
        "partition": partition,
        "claim": claim,
    }
    if message is not None:
        arguments |= {
            "payload": message.value,
            "key": message.key,
            "headers": None if message.headers is None else as_json(message.headers, of="headers"),
            "at": message.at,
        }
    return Call(
        "log_bury",
        arguments,
        lambda rows: {row["log_offset"]: row["letter"] for row in rows},
        types={"payload": "bytea", "key": "bytea", "headers": "jsonb"},
    )


def waiting() -> Call[dict[str, int]]:
    """How many dead letters are not settled, by the topic that they lie in."""
    return Call(
        "_log_dead_waiting",
        {},
        lambda rows: {row["topic"]: row["letters"] for row in rows},
        safe_to_repeat=True,
    )


def dead_list(topic: str | None = None, *, group: str | None = None) -> Call[list[DeadMessage]]:
    """Dead letters of shared groups: messages that failed for good and are not settled."""
    return Call(
        "log_dead_list",
        {"topic": topic, "group_name": group},
        lambda rows: [made(DeadMessage, row | {"offset": row["log_offset"]}) for row in rows],
        safe_to_repeat=True,
        types={"topic": "text", "group_name": "text"},
    )


def dead_show(topic: str, letter: int) -> Call[DeadMessageDetails]:
    """One dead letter: the message, and what is told about it."""

    def details(rows: list[dict[str, Any]]) -> DeadMessageDetails:
        known = {"letter": letter, "topic": topic, "offset": rows[0]["log_offset"]}
        return made(DeadMessageDetails, rows[0] | known)

    return Call(
        "log_dead_show",
        {"topic": topic, "letter": letter},
        details,
        safe_to_repeat=True,
        json_unread=True,
        types={"letter": "bigint"},
    )


def dead_retry(topic: str, letter: int | None = None, *, group: str | None = None) -> Call[int]:
    """Append dead letters to their topic again: one, or all of a group; how many."""
    return _dead("log_dead_retry", topic, letter, group)


def dead_discard(topic: str, letter: int | None = None, *, group: str | None = None) -> Call[int]:
    """Give dead letters up: one, or all of a group; how many."""
    return _dead("log_dead_discard", topic, letter, group)


def _dead(function: str, topic: str, letter: int | None, group: str | None) -> Call[int]:
    return Call(
        function,
        {"topic": topic, "letter": letter, "group_name": group},
        scalar,
        types={"letter": "bigint", "group_name": "text"},
    )
