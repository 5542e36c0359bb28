"""Tasks of the log source: record batches of Postgres to record batches of Arrow."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trunkline.core.errors import PositionTrimmed
from trunkline.log import arrow, calls
from trunkline.log.archived import ArchivedReader, fetch_blocking
from trunkline.log.decoding import decode
from trunkline.spark import connection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trunkline.log.batches import StoredBatch
    from trunkline.log.decoding import DecodedBatch
    from trunkline.spark.plan import Range

_FETCH_BYTES = 8 * 2**20
_BATCH_BYTES = 2**20  # of values and keys in one record batch for Spark; larger ones are not copied
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "headers": pa.string(),
}


def read_range(
    dsn: str, asked: Range, columns: Sequence[str], *, fail_on_data_loss: bool
) -> Iterator[pa.RecordBatch]:
    """The messages of a range in order, archived or not, some megabytes at a time."""
    schema = pa.schema([(name, _TYPES[name]) for name in columns])
    following, incarnation = asked.first, asked.incarnation
    database, archived = connection.db(dsn), ArchivedReader()
    while following <= asked.last:
        with connection.plain_errors():
            try:
                rows = fetch_blocking(
                    database,
                    calls.fetch(
                        asked.topic,
                        asked.partition,
                        following,
                        max_messages=asked.last - following + 1,
                        max_bytes=_FETCH_BYTES,
                        incarnation=incarnation,
                    ),
                    archived,
                )
            except PositionTrimmed as gone:
                first = gone.details.get("first")
                if fail_on_data_loss or first is None:
                    raise
                following = int(first)
                continue
        if not rows:
            return
        yield from _arrow(rows, asked, schema)
        following, incarnation = rows[-1].last_offset + 1, rows[-1].incarnation


def _arrow(rows: list[StoredBatch], asked: Range, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for group in _groups(rows):
        made = {name: _array(name, group, asked) for name in schema.names}
        found = pa.RecordBatch.from_arrays(list(made.values()), schema=schema)
        if group[-1].last_offset > asked.last and group[-1].deltas is not None:
            found = found.filter(pc.less_equal(_array("offset", group, asked), asked.last))
        yield found


def _groups(rows: list[StoredBatch]) -> Iterator[list[DecodedBatch]]:
    """Decoded batches, as many together as make a record batch of a good size."""
    group: list[DecodedBatch] = []
    size = 0
    for row in rows:
        batch = decode(row)
        group.append(batch)
        size += sum(len(column.data) for column in batch.columns if column is not None)
        if size >= _BATCH_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _array(name: str, group: Sequence[DecodedBatch], asked: Range) -> pa.Array:
    n = sum(batch.take for batch in group)
    match name:
        case "value" | "key":
            place = ("value", "key").index(name)
            return _joined([arrow.cells(one.columns[place], one.skip, one.take) for one in group])
        case "offset":
            return arrow.numbers(group)
        case "timestamp":
            moments = [(one.at - _EPOCH) // _MICROSECOND for one in group]
            times = np.repeat(np.array(moments, np.int64), [one.take for one in group])
            return pa.array(times).view(_TYPES["timestamp"])
        case "topic":
            return pa.repeat(pa.scalar(asked.topic), n)
        case "partition":
            return pa.repeat(pa.scalar(asked.partition, pa.int32()), n)
        case _:
            texts: list[str | None] = []
            for one in group:
                texts += one.header_texts() or [None] * one.take
            return pa.array(texts, pa.string())


def _joined(arrays: list[pa.Array]) -> pa.Array:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
