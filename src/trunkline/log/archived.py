"""Messages that have left the database for the archive, read from their files.

`log_fetch` answers TL410 for an offset that is archived and says which files hold it. `fetch` and
`fetch_blocking` take that as the way to go on: they hand out the same record batches as the
database would have, up to the last offset of the segment, and then ask the database again. So a
reader sees one topic: what comes next always follows from the offset that came last, whether a
segment leaves before, while or after it is read.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from trunkline.core.errors import Invalid, NotFound, PositionTrimmed, Unavailable
from trunkline.core.extras import is_installed
from trunkline.log.batches import FORMAT, Codec, StoredBatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    import pyarrow.fs as pafs
    import pyarrow.parquet as pq

    from trunkline.core.calls import Call
    from trunkline.core.db import AsyncDb, Db

_BATCH_ROWS = 10_000


def can_read() -> bool:
    """Whether the package that reads the files is installed."""
    return is_installed("pyarrow")


async def fetch(
    db: AsyncDb, call: Call[list[StoredBatch]], archived: ArchivedReader
) -> list[StoredBatch]:
    """Run a fetch; what is archived comes from its files, read in a thread."""
    if not archived.covers(call):
        try:
            return await db.run(call)
        except PositionTrimmed as error:
            archived.open(error)
    try:
        return await asyncio.to_thread(archived.read, call)
    except asyncio.CancelledError:
        archived.leave()  # to the thread, which reads on
        raise


def fetch_blocking(
    db: Db, call: Call[list[StoredBatch]], archived: ArchivedReader
) -> list[StoredBatch]:
    """As `fetch`."""
    if not archived.covers(call):
        try:
            return db.run(call)
        except PositionTrimmed as error:
            archived.open(error)
    return archived.read(call)


class ArchivedReader:
    """Reads one partition where it is archived; holds one row group of one file at a time."""

    def __init__(self) -> None:
        self._segment: ArchivedSegment | None = None

    def covers(self, call: Call[Any]) -> bool:
        """Whether the segment that is open holds what a fetch asks for."""
        segment = self._segment
        return segment is not None and segment.holds(call.arguments["from_offset"])

    def open(self, error: PositionTrimmed) -> None:
        """Go on in the files that a refusal names; raises it again when it names none."""
        if not error.details.get("archived"):
            raise error
        if not can_read():
            raise PositionTrimmed(
                error.message,
                hint="To read what is archived: pip install 'trunkline[arrow]'.",
                details=error.details,
            ) from error
        self._segment = ArchivedSegment(error.details)

    def leave(self) -> None:
        """Let go of the segment that is open: the next fetch asks where to read."""
        self._segment = None

    def read(self, call: Call[Any]) -> list[StoredBatch]:
        """What `log_fetch` would have answered, from the files."""
        segment = self._segment
        assert segment is not None
        asked = call.arguments
        segment.check_history(asked["from_offset"], asked["incarnation"])
        found = segment.fetch(asked["from_offset"], asked["max_messages"], asked["max_bytes"])
        if found and found[-1].last_offset >= segment.last and self._segment is segment:
            self._segment = None
        return found


class ArchivedSegment:
    """The files of one archived segment, by the facts of a TL410 or a row of the manifest."""

    def __init__(self, facts: dict[str, Any]):
        self.first: int = facts["first"]
        self.last: int = facts["last"]
        self._topic: str = facts["topic"]
        self._partition: int = facts["partition"]
        self._before: int | None = facts.get("before")
        self._location: str = facts["location"]
        self._paths: list[str] = [file["path"] for file in facts["files"]]
        counts = [int(file["messages"]) for file in facts["files"]]
        self._firsts = [self.first + sum(counts[:index]) for index in range(len(counts))]
        self._file: pq.ParquetFile | None = None
        self._file_index = -1
        self._rows: pa.Table | None = None
        self._rows_first = 0

    def holds(self, offset: int) -> bool:
        """Whether an offset is one of the segment's."""
        return self.first <= offset <= self.last

    def check_history(self, from_offset: int, incarnation: int | None) -> None:
        """TL410 when another life of the server wrote what a reader believes to have seen."""
        if incarnation is None:
            return
        writer = self._before
        if from_offset > self.first:
            seen = self._rows_at(from_offset - 1)
            writer = seen.column("incarnation")[from_offset - 1 - self._rows_first].as_py()
        if writer is None or writer == incarnation:
            return
        raise PositionTrimmed(
            f"offset {from_offset - 1} of partition {self._partition} of"
            f' "{self._topic}" was written by incarnation {writer} of the server,'
            f" yours by {incarnation}.",
            hint="The server was restored or failed over: what you saw beyond the cut"
            " is not in this history.",
            details={
                "topic": self._topic,
                "partition": self._partition,
                "cut": self._cut(from_offset, incarnation),
                "incarnation": writer,
                "asked": from_offset,
            },
        )

    def fetch(self, from_offset: int, max_messages: int, max_bytes: int) -> list[StoredBatch]:
        """Record batches from an offset on: at least one, never beyond the segment."""
        found: list[StoredBatch] = []
        reach, size = from_offset, 0
        while reach <= self.last and max_messages > 0 and size < max_bytes:
            rows = self._rows_at(reach)
            window = rows.slice(reach - self._rows_first, min(max_messages, _BATCH_ROWS))
            for batch in _stored(window, reach):
                found.append(batch)
                reach = batch.last_offset + 1
                max_messages -= batch.n
                size += len(batch.payload) + len(batch.keys or b"") + len(batch.headers or b"")
                if size >= max_bytes:
                    break
        return found

    def _rows_at(self, offset: int) -> pa.Table:
        """The row group that holds an offset."""
        rows = self._rows
        if rows is None or not 0 <= offset - self._rows_first < rows.num_rows:
            index = max(i for i, first in enumerate(self._firsts) if first <= offset)
            with self._plain_errors(self._paths[index]):
                rows = self._read_group(index, offset)
            self._rows = rows
        return rows

    def _read_group(self, index: int, offset: int) -> pa.Table:
        from trunkline.log.archive import SCHEMA

        file = self._opened(index)
        first = self._firsts[index]
        for group in range(file.metadata.num_row_groups):
            n = file.metadata.row_group(group).num_rows
            if offset < first + n:
                rows = file.read_row_group(group).select(SCHEMA.names).cast(SCHEMA)
                self._check(rows, first, index)
                self._rows_first = first
                return rows
            first += n
        raise self._damaged(index, f"ends at {first - 1}, expected {offset}")

    def _opened(self, index: int) -> pq.ParquetFile:
        import pyarrow.parquet as pq

        if self._file is None or self._file_index != index:
            filesystem, path = open_location(self._location)
            self._file = pq.ParquetFile(
                filesystem.open_input_file(f"{path}/{self._paths[index]}"),
                page_checksum_verification=True,
            )
            self._file_index = index
        return self._file

    def _check(self, rows: pa.Table, first: int, index: int) -> None:
        import pyarrow.compute as pc

        offsets = rows.column("offset")
        expected = pc.equal(pc.subtract(offsets, first), _count(rows.num_rows))
        if offsets.null_count or not pc.all(expected).as_py():
            raise self._damaged(index, f"has not the offsets from {first} on")
        if not pc.all(pc.equal(rows.column("partition"), self._partition)).as_py():
            raise self._damaged(index, f"is not of partition {self._partition}")

    def _cut(self, from_offset: int, incarnation: int) -> int:
        """The last offset that a reader of an earlier life may have seen, as far as files tell."""
        cut, offset = self.first - 1, self.first
        while offset < from_offset:
            rows = self._rows_at(offset)
            before = rows.slice(0, from_offset - self._rows_first)
            for at, writer in zip(
                before.column("offset").to_pylist(),
                before.column("incarnation").to_pylist(),
                strict=True,
            ):
                cut = at if writer <= incarnation else cut
            offset = self._rows_first + rows.num_rows
        return cut

    def _damaged(self, index: int, what: str) -> Invalid:
        return Invalid(
            f"the archive of partition {self._partition} of"
            f' "{self._topic}" is damaged: {self._paths[index]} {what}.',
            details={"location": self._location, "path": self._paths[index]},
        )

    @contextmanager
    def _plain_errors(self, path: str) -> Iterator[None]:
        import pyarrow as pa

        where = f"{self._location}/{path}"
        try:
            yield
        except FileNotFoundError:
            raise NotFound(
                f"offsets {self.first} to {self.last} of partition {self._partition} of"
                f' "{self._topic}" are archived in {where}, which is not there.',
                hint="Is it mounted here, and is the location right for this machine?",
                details={"location": self._location, "path": path},
            ) from None
        except (pa.ArrowInvalid, KeyError) as error:
            raise Invalid(
                f"{where} is damaged: {error}.",
                details={"location": self._location, "path": path},
            ) from None
        except OSError as error:
            if "checksum" in str(error) or "Couldn't deserialize" in str(error):
                raise Invalid(f"{where} is damaged: {error}.") from None
            raise Unavailable(f"{where} cannot be read: {error}.") from None


def open_location(location: str) -> tuple[pafs.FileSystem, str]:
    """The file system and the path of a location: an absolute path, or a URI that Arrow knows."""
    from pyarrow import fs

    if location.startswith("/"):
        return fs.LocalFileSystem(), location.rstrip("/")
    scheme, separator, rest = location.partition(":")
    if scheme in ("s3a", "s3n"):  # as Spark calls it
        scheme = "s3"
    try:
        filesystem, path = fs.FileSystem.from_uri(scheme + separator + rest)
    except (ValueError, TypeError) as error:
        raise Invalid(f'"{location}" is not a location that can be read: {error}.') from None
    return filesystem, path.rstrip("/")


def _stored(rows: pa.Table, first: int) -> Iterator[StoredBatch]:
    """Rows as record batches: one for each moment and writer."""
    import pyarrow.compute as pc

    rows = rows.combine_chunks()
    ends: set[int] = set()
    for name in ("timestamp", "incarnation"):
        ends |= _run_ends(rows.column(name).chunk(0))
    ends |= _run_ends(pc.is_null(rows.column("event_id").chunk(0)))
    begin = 0
    for end in sorted(ends):
        yield _batch(rows.slice(begin, end - begin), first + begin)
        begin = end


def _run_ends(array: pa.Array) -> set[int]:
    import pyarrow.compute as pc

    return set(pc.run_end_encode(array).run_ends.to_pylist())


def _batch(rows: pa.Table, first: int) -> StoredBatch:
    from trunkline.log import arrow

    n = rows.num_rows
    values = arrow.join("value", rows.column("value"))
    keys = None
    if rows.column("key").null_count < n:
        keys = arrow.join("key", rows.column("key"))
    headers, event_ids = rows.column("headers"), rows.column("event_id")
    return StoredBatch(
        format=FORMAT,
        codec=int(Codec.NONE),
        incarnation=rows.column("incarnation")[0].as_py(),
        base_offset=first,
        last_offset=first + n - 1,
        n=n,
        at=rows.column("timestamp")[0].as_py(),
        value_ends=values.ends,
        payload=bytes(values.data),
        value_valid=values.valid,
        key_ends=None if keys is None else keys.ends,
        keys=None if keys is None else bytes(keys.data),
        key_valid=None if keys is None else keys.valid,
        deltas=None,
        event_ids=None if event_ids.null_count else _int64(event_ids),
        headers=None if headers.null_count == n else _json_array(headers.to_pylist()),
        skip=0,
        take=n,
    )


def _int64(column: pa.ChunkedArray) -> bytes:
    array = column.combine_chunks()
    window: memoryview = memoryview(array.buffers()[1])[8 * array.offset :]
    return bytes(window[: 8 * len(array)])


def _json_array(texts: list[str | None]) -> bytes:
    return f"[{','.join('null' if text is None else text for text in texts)}]".encode()


def _count(n: int) -> pa.Array:
    from trunkline.log import arrow

    return arrow.offsets(0, None, 0, n)
