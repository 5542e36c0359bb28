"""Offsets as Spark keeps them: `Positions`, and the JSON that users write in options.

Offsets are the *next* ones to read, as in Kafka's source: ``{"orders": {"0": 1}}`` starts with the
first message of partition 0.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from trunkline.core.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

Place = tuple[str, int]
"""A partition of a topic."""

EARLIEST, LATEST = -2, -1

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Positions:
    """The next offset of every partition, and the life of the server that they belong to.

    The ids of topics tell one from another that bore its name before; older checkpoints lack them.
    """

    incarnation: int
    next: Mapping[Place, int]
    topic_ids: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As it is written into a checkpoint."""
        topics: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in sorted(self.next.items()):
            topics.setdefault(topic, {})[str(partition)] = offset
        return {
            "version": _VERSION,
            "incarnation": self.incarnation,
            "next": topics,
            "topic_ids": dict(sorted(self.topic_ids.items())),
        }

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Positions:
        """What was read from a checkpoint."""
        version = written.get("version")
        if version != _VERSION:
            raise Invalid(
                f"the checkpoint has offsets of version {version!r}, expected {_VERSION}.",
                hint="It was written by another source, or by a newer Trunkline.",
            )
        return cls(
            written["incarnation"],
            {
                (topic, int(partition)): offset
                for topic, partitions in written["next"].items()
                for partition, offset in partitions.items()
            },
            written.get("topic_ids", {}),
        )


def parse_offsets(option: str, text: str) -> str | dict[Place, int]:
    """``earliest``, ``latest``, or JSON: offsets by partition; -2 is earliest, -1 latest."""
    if text.lower() in ("earliest", "latest"):
        return text.lower()
    lowest = EARLIEST if option == "startingOffsets" else LATEST
    example = f'{{"orders": {{"0": 1, "1": {lowest}}}}}'
    try:
        topics = json.loads(text)
        found = {
            (topic, int(partition)): offset
            for topic, partitions in topics.items()
            for partition, offset in partitions.items()
        }
    except (ValueError, AttributeError):
        raise Invalid(
            f"{option} is neither earliest, latest nor offsets in JSON: {text!r:.120}.",
            hint=f"An example: {example}.",
        ) from None
    for (topic, partition), offset in found.items():
        if isinstance(offset, bool) or not isinstance(offset, int) or offset < lowest or not offset:
            raise Invalid(
                f'{option} of partition {partition} of "{topic}" is {offset!r}, expected a number.',
                hint="Offsets start at 1; "
                + ("-1 means latest." if lowest == LATEST else "-2 means earliest, -1 latest."),
            )
    return found


def parse_times(text: str) -> dict[Place, datetime]:
    """JSON: times by partition, in milliseconds since 1970 or as ISO texts."""
    try:
        found = {
            (topic, int(partition)): _moment(at)
            for topic, partitions in json.loads(text).items()
            for partition, at in partitions.items()
        }
    except (ValueError, TypeError, AttributeError, OverflowError, OSError):
        found = {}
    if not found:
        raise ValueError(
            'times are JSON by topic and partition, such as {"orders": {"0": 1700000000000}}'
        )
    return found


def parse_assignment(text: str) -> dict[str, tuple[int, ...]]:
    """JSON: the partitions of topics."""
    try:
        found = {
            topic: tuple(sorted({_number(each) for each in partitions}))
            for topic, partitions in json.loads(text).items()
        }
    except (ValueError, TypeError, AttributeError):
        found = {}
    if not found or not all(found.values()):
        raise ValueError('partitions are JSON by topic, such as {"orders": [0, 1]}')
    return found


def _moment(at: Any) -> datetime:
    if isinstance(at, str):
        moment = datetime.fromisoformat(at)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return datetime.fromtimestamp(_number(at) / 1000, UTC)


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(value)
    return value
