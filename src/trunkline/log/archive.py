"""What the archive of a topic looks like: the columns of its files, and the checksum of a segment.

Parquet files hold one row per message, sorted by offset. The checksum of a segment is
``columns-sha256:`` and the SHA-256 over the SHA-256 of each of these streams, in this order, each
over all messages of the segment by offset, however they are cut into batches, files and row groups:

- of key, value and headers (UTF-8): first the lengths as int32, -1 where it is null; then the
  bytes, one after the other;
- of offset, timestamp (microseconds since 1970), event_id (0 where it is null) as int64 and of
  incarnation as int32.

Integers are little endian. So whoever can read the columns can compute it, without the database.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from trunkline.log.decoding import DecodedBatch

CHECKSUM = "columns-sha256"
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("headers", pa.string()),
        ("event_id", pa.int64()),
        ("incarnation", pa.int32()),
    ]
)

_TEXTS = ("key", "value", "headers")
_NUMBERS = {
    "offset": pa.int64(),
    "timestamp": pa.int64(),
    "event_id": pa.int64(),
    "incarnation": pa.int32(),
}


def rows(part: DecodedBatch, partition: int) -> pa.RecordBatch:
    """The messages of a record batch as rows of the archive; no value is copied."""
    table = part.to_arrow().combine_chunks()
    n = len(part)
    ids = part.event_ids_buffer
    columns = {
        "key": table.column("key"),
        "value": table.column("value"),
        "partition": pa.repeat(pa.scalar(partition, pa.int32()), n),
        "offset": table.column("offset"),
        "timestamp": table.column("timestamp"),
        "headers": table.column("headers"),
        "event_id": (
            pa.nulls(n, pa.int64())
            if ids is None
            else pa.Array.from_buffers(pa.int64(), n, [None, pa.py_buffer(ids)], offset=part.skip)
        ),
        "incarnation": pa.repeat(pa.scalar(part.incarnation, pa.int32()), n),
    }
    arrays = [
        column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
        for column in columns.values()
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


class Digest:
    """The checksum of a segment, fed with its rows in the order of offsets."""

    def __init__(self) -> None:
        self.messages = 0
        self._lengths = {name: sha256() for name in _TEXTS}
        self._bytes = {name: sha256() for name in _TEXTS}
        self._numbers = {name: sha256() for name in _NUMBERS}

    def update(self, batch: pa.RecordBatch) -> None:
        """Take the next rows."""
        self.messages += batch.num_rows
        for name in _TEXTS:
            array = batch.column(name)
            lengths = pc.fill_null(pc.binary_length(array), -1)
            self._lengths[name].update(_window(lengths, 4))
            if array.null_count < len(array):
                self._bytes[name].update(_data(array.drop_null() if array.null_count else array))
        for name, kind in _NUMBERS.items():
            array = pc.fill_null(batch.column(name).cast(kind), 0)
            self._numbers[name].update(_window(array, kind.bit_width // 8))

    def checksum(self) -> str:
        """What the rows so far come to."""
        streams = [
            *(hasher for name in _TEXTS for hasher in (self._lengths[name], self._bytes[name])),
            *self._numbers.values(),
        ]
        whole = sha256(b"".join(hasher.digest() for hasher in streams))
        return f"{CHECKSUM}:{whole.hexdigest()}"


def _window(array: pa.Array, width: int) -> memoryview:
    """The fixed-width values of an array without nulls."""
    data = memoryview(array.buffers()[1])
    return data[array.offset * width : (array.offset + len(array)) * width]


def _data(array: pa.Array) -> memoryview:
    """The bytes of an array of binary or text without nulls."""
    _, ends, data = array.buffers()
    bounds = pa.Array.from_buffers(pa.int32(), len(array) + 1, [None, ends], offset=array.offset)
    return memoryview(data or b"")[bounds[0].as_py() : bounds[-1].as_py()]
