"""Tasks of ``archive``: each copies one segment to one file, and tells the driver what it wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa

from trunkline.core.errors import Invalid, NotFound, PositionTrimmed
from trunkline.log import archive_file, calls
from trunkline.log.decoding import decode
from trunkline.spark import connection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trunkline.log.decoding import DecodedBatch
    from trunkline.log.models import SealedSegment

COPIED = (
    "number int, path string, messages bigint, bytes bigint, checksum string,"
    " first_at timestamp, last_at timestamp, error string"
)

_FETCH_BYTES = 8 << 20
_SCHEMA = pa.schema(
    [
        ("number", pa.int32()),
        ("path", pa.string()),
        ("messages", pa.int64()),
        ("bytes", pa.int64()),
        ("checksum", pa.string()),
        ("first_at", pa.timestamp("us", tz="UTC")),
        ("last_at", pa.timestamp("us", tz="UTC")),
        ("error", pa.string()),
    ]
)


class CopyTask:
    """What a task does: the segment of its number becomes a file."""

    def __init__(
        self, dsn: str, location: str, incarnation: int, segments: tuple[SealedSegment, ...]
    ):
        self._dsn = dsn
        self._location = location
        self._incarnation = incarnation
        self._segments = segments

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._location})"

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                segment = self._segments[number]
                row = {"number": number}
                try:
                    with connection.plain_errors():
                        name = file_name(segment, self._incarnation)
                        file = archive_file.write(
                            self._location, name, segment, self._parts(segment)
                        )
                    row |= {
                        field: getattr(file, field)
                        for field in _SCHEMA.names
                        if field not in ("number", "error")
                    }
                except (Invalid, NotFound, PositionTrimmed) as error:
                    row["error"] = str(error)
                except OSError as error:
                    row["error"] = f"{self._location} cannot be written: {error}"
                yield pa.RecordBatch.from_pylist([row], schema=_SCHEMA)

    def _parts(self, segment: SealedSegment) -> Iterator[DecodedBatch]:
        database = connection.db(self._dsn)
        reach = segment.first_offset
        while reach <= segment.last_offset:
            rows = database.run(
                calls.fetch(
                    segment.topic,
                    segment.partition,
                    reach,
                    max_messages=segment.last_offset - reach + 1,
                    max_bytes=_FETCH_BYTES,
                )
            )
            if not rows:
                return
            yield from map(decode, rows)
            reach = rows[-1].last_offset + 1


def file_name(segment: SealedSegment, incarnation: int) -> str:
    """A name that no other attempt uses; it tells which life of the server wrote the file."""
    offsets = f"{segment.first_offset:020d}-{segment.last_offset:020d}"
    return f"{segment.partition}/{offsets}-{incarnation}-{uuid4().hex}.parquet"
