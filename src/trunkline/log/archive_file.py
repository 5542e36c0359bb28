"""Files of the archive: a segment goes into one Parquet file, which says what it holds."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem

from trunkline.core.errors import Invalid
from trunkline.log.archive import SCHEMA, Digest, rows
from trunkline.log.archived import open_location

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from trunkline.log.decoding import DecodedBatch
    from trunkline.log.models import SealedSegment

_GROUP_ROWS = 65_536
_GROUP_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A segment that was copied to a file; ``path`` is relative to the location."""

    path: str
    messages: int
    bytes: int
    checksum: str
    first_at: datetime
    last_at: datetime


def write(
    location: str, path: str, segment: SealedSegment, parts: Iterable[DecodedBatch]
) -> WrittenFile:
    """Copy a segment to a new file, durable when this returns.

    `Invalid` when a message of the segment is missing: then the file is of no use.
    """
    filesystem, root = open_location(location)
    target = f"{root}/{path}"
    filesystem.create_dir(target.rpartition("/")[0], recursive=True)
    digest = Digest()
    expected = segment.first_offset
    first_at = last_at = segment.last_at
    with filesystem.open_output_stream(target) as stream, _writer(stream) as writer:
        groups = _RowGroups(writer)
        for part in parts:
            batch = rows(part, segment.partition)
            offsets = batch.column("offset")
            if (offsets[0].as_py(), offsets[-1].as_py()) != (expected, expected + len(part) - 1):
                raise _not_whole(segment, expected)
            first_at = part.at if expected == segment.first_offset else first_at
            last_at = part.at
            digest.update(batch)
            groups.add(batch)
            expected += len(part)
        if expected != segment.last_offset + 1:
            raise _not_whole(segment, expected)
        groups.flush()
        writer.add_key_value_metadata({"trunkline.checksum": digest.checksum()})
    if isinstance(filesystem, LocalFileSystem):
        _sync(Path(target), up_to=Path(root))
    size: int = filesystem.get_file_info(target).size
    return WrittenFile(path, digest.messages, size, digest.checksum(), first_at, last_at)


def look(location: str, path: str) -> tuple[int, int, str | None]:
    """Messages, bytes and checksum of a file, as it says itself."""
    filesystem, root = open_location(location)
    target = f"{root}/{path}"
    with filesystem.open_input_file(target) as source:
        footer = pq.read_metadata(source)
    said = (footer.metadata or {}).get(b"trunkline.checksum")
    size: int = filesystem.get_file_info(target).size
    return footer.num_rows, size, None if said is None else said.decode()


class _RowGroups:
    """Gathers rows until they make a row group of a size that readers can hold."""

    def __init__(self, writer: pq.ParquetWriter):
        self._writer = writer
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.get_total_buffer_size()
        if self._rows >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._batches:
            table = pa.Table.from_batches(self._batches)
            self._writer.write_table(table, row_group_size=table.num_rows)
        self._batches, self._rows, self._bytes = [], 0, 0


def _writer(stream: pa.NativeFile) -> pq.ParquetWriter:
    repeated = ["partition", "timestamp", "incarnation", "key", "headers"]
    return pq.ParquetWriter(
        stream,
        SCHEMA,
        compression="zstd",
        use_dictionary=repeated,
        column_encoding={"offset": "DELTA_BINARY_PACKED"},
        write_statistics=["partition", "offset", "timestamp", "incarnation"],
        sorting_columns=[pq.SortingColumn(SCHEMA.get_field_index("offset"))],
        write_page_checksum=True,
    )


def _sync(file: Path, *, up_to: Path) -> None:
    """The file and the folders that lead to it outlive a crash of the machine."""
    for path in (file, *[parent for parent in file.parents if parent.is_relative_to(up_to.parent)]):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _not_whole(segment: SealedSegment, expected: int) -> Invalid:
    return Invalid(
        f"segment {segment.segment_id} of {segment.topic}/{segment.partition} should hold"
        f" {segment.first_offset} to {segment.last_offset}; there is no {expected}."
    )
