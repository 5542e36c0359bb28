"""Archive a topic without Spark, for tests of everything around that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.fixtures.asking import Session, call
from tests.log.steps import TOPIC, configure, fetch, maintain

from trunkline.core.execution import execute
from trunkline.log import calls
from trunkline.log.archive_file import write
from trunkline.log.decoding import decode
from trunkline.log.models import Archived, ArchivedFile, SealedSegment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trunkline.log.decoding import DecodedBatch

CHECKSUM = "columns-sha256:" + "0" * 64


def add(session: Session, first: int, last: int, **other: Any) -> Any:
    """A row of the manifest for a range of offsets, believable unless told otherwise."""
    number = session.execute(
        "select segment_id from trunkline.log_segment where first_offset <= %s"
        " and last_offset >= %s",
        [first, first],
    ).fetchone()
    row = {
        "topic": TOPIC,
        "partition": 0,
        "first_offset": first,
        "last_offset": last,
        "messages": last - first + 1,
        "bytes": 100,
        "location": "/archive/orders",
        "format": "parquet",
        "files": f'[{{"path": "{first}.parquet", "messages": {last - first + 1}}}]',
        "checksum": CHECKSUM,
        "segment_id": number and number[0],
    } | other
    return call(session, "log_archive_add", **row)


def archive(session: Session, folder: Path, topic: str = TOPIC) -> list[Archived]:
    """Copy every sealed segment of a topic to files and note them."""
    return [copy(session, folder, segment) for segment in execute(session, calls.archivable(topic))]


def copy(session: Session, folder: Path, segment: SealedSegment) -> Archived:
    location = str(folder / segment.topic)
    path = f"{segment.partition}/{segment.first_offset}.parquet"
    written = write(location, path, segment, parts(session, segment))
    return execute(
        session,
        calls.archive_add(
            segment,
            location=location,
            format="parquet",
            files=[ArchivedFile(path, written.messages)],
            bytes=written.bytes,
            checksum=written.checksum,
        ),
    )


def parts(session: Session, segment: SealedSegment) -> Iterator[DecodedBatch]:
    reach = segment.first_offset
    while reach <= segment.last_offset:
        for row in fetch(
            session,
            reach,
            topic=segment.topic,
            partition=segment.partition,
            max_messages=segment.last_offset - reach + 1,
        ):
            yield decode(row)
            reach = row.last_offset + 1


def drop_archived(session: Session) -> None:
    """What is archived leaves the database."""
    configure(session, log__archived_retention="0")
    maintain(session)
