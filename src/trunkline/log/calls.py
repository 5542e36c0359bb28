"""What topics and messages ask of the database: one builder per SQL function."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from trunkline.core.calls import Call, made, many, nothing, one, scalar
from trunkline.core.errors import Invalid, NotFound
from trunkline.log.batches import PackedBatch, StoredBatch
from trunkline.log.models import (
    Archived,
    ArchivedFile,
    Check,
    Ends,
    Partition,
    SealedSegment,
    Start,
    Topic,
    TopicSize,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID


def create(
    topic: str,
    *,
    partitions: int = 1,
    retention: timedelta | None = None,
    retention_bytes: int | None = None,
    compact: bool = False,
    codec: str = "none",
    early_release: bool = False,
    archive: bool = False,
) -> Call[Topic]:
    """Create a topic; harmless when it is there with the same settings."""
    return Call(
        "log_create",
        {
            "topic": topic,
            "partitions": partitions,
            "retention": retention,
            "retention_bytes": retention_bytes,
            "compact": compact,
            "codec": codec,
            "early_release": early_release,
            "archive": archive,
        },
        one(Topic),
        safe_to_repeat=True,
    )


def alter(
    topic: str,
    *,
    partitions: int | None = None,
    retention: timedelta | str | None = None,
    retention_bytes: int | None = None,
    codec: str | None = None,
    early_release: bool | None = None,
    archive: bool | None = None,
) -> Call[Topic]:
    """Change settings of a topic; None leaves one as it is, ``"infinity"`` or 0 keeps for ever."""
    return Call(
        "log_alter",
        {
            "topic": topic,
            "partitions": partitions,
            # Postgres knows an infinite interval since 17; log_alter takes the longer ones for one
            "retention": "10000 years" if retention == "infinity" else retention,
            "retention_bytes": retention_bytes,
            "codec": codec,
            "early_release": early_release,
            "archive": archive,
        },
        one(Topic),
        safe_to_repeat=True,
        types={"retention": "interval"},
    )


def delete(topic: str) -> Call[None]:
    """Delete a topic with its messages and groups."""
    return Call("log_delete", {"topic": topic}, nothing)


def list_topics() -> Call[list[TopicSize]]:
    """All topics with their settings and sizes."""
    return Call("log_list", {}, many(TopicSize), safe_to_repeat=True)


def describe(topic: str) -> Call[list[Partition]]:
    """The partitions of a topic: offsets, segments, bytes, what is archived."""
    return Call("log_describe", {"topic": topic}, many(Partition), safe_to_repeat=True)


def settings(topic: str) -> Call[Topic]:
    """The settings of a topic."""
    return Call("log_settings", {"topic": topic}, one(Topic), safe_to_repeat=True)


def append_batch(
    topic: str,
    partition: int,
    batch: PackedBatch,
    *,
    producer_id: UUID | None = None,
    producer_seq: int | None = None,
    release_early: bool = False,
    topic_id: int | None = None,
) -> Call[tuple[int, int]]:
    """Append a packed batch; with a producer's number a repeat changes nothing.

    With ``topic_id`` by the function of the partition's own, which takes less. It may be missing
    or granted to others: `SchemaMismatch` and `Forbidden` then speak of it alone.
    """
    arguments: dict[str, Any] = {
        "topic": topic,
        "partition": partition,
        "n": batch.n,
        "codec": int(batch.codec),
        "value_ends": batch.value_ends,
        "payload": batch.payload,
        "value_valid": batch.value_valid,
        "key_ends": batch.key_ends,
        "keys": batch.keys,
        "key_valid": batch.key_valid,
        "headers": batch.headers,
        "producer_id": producer_id,
        "producer_seq": producer_seq,
        "release_early": release_early or None,
    }
    own = "" if topic_id is None else f"_{topic_id}_{partition}"
    return Call(
        f"log_append_batch{own}",
        {name: value for name, value in arguments.items() if value is not None},
        lambda rows: (rows[0]["first_offset"], rows[0]["last_offset"]),
        safe_to_repeat=producer_id is not None,
        binary=True,
    )


def flush() -> Call[None]:
    """Wait until everything committed before is durable."""
    return Call("log_flush", {}, nothing, safe_to_repeat=True)


def fetch(
    topic: str,
    partition: int,
    from_offset: int,
    *,
    max_messages: int = 10_000,
    max_bytes: int = 4_194_304,
    incarnation: int | None = None,
) -> Call[list[StoredBatch]]:
    """Record batches from an offset on."""
    return Call(
        "log_fetch",
        {
            "topic": topic,
            "partition": partition,
            "from_offset": from_offset,
            "max_messages": max_messages,
            "max_bytes": max_bytes,
            "incarnation": incarnation,
        },
        _stored,
        safe_to_repeat=True,
        binary=True,
    )


def offset_at(topic: str, partition: int, at_time: datetime) -> Call[int]:
    """The first offset appended at a time or later."""
    if not isinstance(at_time, datetime):
        raise Invalid(f"a time is a datetime, got {type(at_time).__name__}.")
    return Call(
        "log_offset_at",
        {"topic": topic, "partition": partition, "at_time": at_time},
        scalar,
        safe_to_repeat=True,
    )


def place(topic: str, partition: int, start: Start) -> Call[int]:
    """The offset that a start means in a partition."""
    if isinstance(start, datetime):
        return offset_at(topic, partition, start)

    def offset(rows: list[dict[str, Any]]) -> int:
        for row in rows:
            if row["partition"] == partition:
                found = made(Partition, row)
                places = {"earliest": found.earliest, "hot": found.first_offset}
                return places.get(str(start), found.last_offset + 1)
        raise _no_partition(topic, partition, len(rows))

    if start not in ("earliest", "hot", "latest"):
        raise Invalid(f'a start is earliest, hot, latest, an offset or a time, got "{start}".')
    return Call("log_describe", {"topic": topic}, offset, safe_to_repeat=True)


def last_offset(topic: str, partition: int) -> Call[int]:
    """Where a partition ends at this moment; a standby can tell, too."""

    def last(rows: list[dict[str, Any]]) -> int:
        for row in rows:
            if row["partition"] == partition:
                return int(row["last_offset"])
        raise _no_partition(topic, partition, len(rows))

    return Call("log_describe", {"topic": topic}, last, safe_to_repeat=True)


def ready(topic: str, partitions: Sequence[int], up_to: Sequence[int]) -> Call[list[int]]:
    """Which partitions have messages beyond the given offsets."""
    return Call(
        "log_ready",
        {"topic": topic, "partitions": list(partitions), "up_to": list(up_to)},
        lambda rows: [row["log_ready"] for row in rows],
        safe_to_repeat=True,
        types={"partitions": "int[]", "up_to": "bigint[]"},
    )


def ends(topics: Sequence[str]) -> Call[list[Ends]]:
    """Where the partitions of topics begin and end at this moment."""
    return Call(
        "log_ends",
        {"topics": list(topics)},
        many(Ends),
        safe_to_repeat=True,
        types={"topics": "text[]"},
    )


def position_check(topic: str, partition: int, next_offset: int, incarnation: int) -> Call[None]:
    """Refuse an offset that was noted in another history."""
    return Call(
        "log_position_check",
        {
            "topic": topic,
            "partition": partition,
            "next_offset": next_offset,
            "incarnation": incarnation,
        },
        nothing,
        safe_to_repeat=True,
    )


def history(topic: str) -> Call[tuple[int, int]]:
    """Which topic bears a name, in which life of the server: what was read counts in that one."""
    return Call(
        "_log_history",
        {"topic": topic},
        lambda rows: (rows[0]["topic_id"], rows[0]["incarnation"]),
        safe_to_repeat=True,
    )


def trim(topic: str, partition: int, before_offset: int) -> Call[int]:
    """Forget everything before an offset; the first offset there is."""
    return Call(
        "log_trim",
        {"topic": topic, "partition": partition, "before_offset": before_offset},
        scalar,
        safe_to_repeat=True,
    )


def compact(topic: str, *, partition: int | None = None) -> Call[dict[int, int]]:
    """Of each key only the last value stays; how many messages left, by partition."""
    return Call(
        "log_compact",
        {"topic": topic, "partition": partition},
        lambda rows: {row["in_partition"]: row["removed"] for row in rows},
        safe_to_repeat=True,
    )


def verify(topic: str) -> Call[list[Check]]:
    """Count the messages of each partition and name every break of the promise."""
    return Call("log_verify", {"topic": topic}, many(Check), safe_to_repeat=True)


def archivable(topic: str | None = None) -> Call[list[SealedSegment]]:
    """Sealed segments that are not archived yet: of a topic, or of all that ask for it."""
    return Call("log_archivable", {"topic": topic}, many(SealedSegment), safe_to_repeat=True)


def archives(
    topic: str, *, partition: int | None = None, from_offset: int = 1
) -> Call[list[Archived]]:
    """What is archived of a topic: ranges, files and checksums."""
    return Call(
        "log_archives",
        {"topic": topic, "partition": partition, "from_offset": from_offset},
        lambda rows: [_archived(row) for row in rows],
        safe_to_repeat=True,
    )


def archive_add(
    segment: SealedSegment,
    *,
    location: str,
    format: str,  # noqa: A002
    files: Sequence[ArchivedFile],
    bytes: int,  # noqa: A002
    checksum: str,
) -> Call[Archived]:
    """Note that a sealed segment was copied to files: retention may take it then."""
    return Call(
        "log_archive_add",
        {
            "topic": segment.topic,
            "partition": segment.partition,
            "first_offset": segment.first_offset,
            "last_offset": segment.last_offset,
            "messages": sum(file.messages for file in files),
            "bytes": bytes,
            "location": location,
            "format": format,
            "files": json.dumps([asdict(file) for file in files]),
            "checksum": checksum,
            "segment_id": segment.segment_id,
        },
        lambda rows: _archived(rows[0]),
        safe_to_repeat=True,
        types={"files": "jsonb"},
    )


def _no_partition(topic: str, partition: int, partitions: int) -> NotFound:
    return NotFound(f'topic "{topic}" has partitions 0 to {partitions - 1}, asked for {partition}.')


def _archived(row: dict[str, Any]) -> Archived:
    files = tuple(ArchivedFile(file["path"], int(file["messages"])) for file in row["files"])
    return made(Archived, row | {"files": files})


def _stored(rows: list[dict[str, Any]]) -> list[StoredBatch]:
    return [made(StoredBatch, row | {"incarnation": row["written_by"]}) for row in rows]
