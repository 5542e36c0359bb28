"""Tasks of the log source: record batches of Postgres to record batches of Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from trunkline.core.errors import PositionTrimmed
from trunkline.log import calls
from trunkline.log.archived import ArchivedReader, fetch_blocking
from trunkline.log.batches import decode
from trunkline.spark import connection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trunkline.log.batches import StoredBatch
    from trunkline.spark.plan import Range

_FETCH_BYTES = 8 * 2**20
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
    table = pa.concat_tables([decode(row).to_arrow() for row in rows])
    if rows[-1].last_offset > asked.last and rows[-1].deltas is not None:
        table = table.filter(pa.compute.less_equal(table["offset"], asked.last))
    n = table.num_rows
    constants = {
        "topic": lambda: pa.repeat(pa.scalar(asked.topic), n),
        "partition": lambda: pa.repeat(pa.scalar(asked.partition, pa.int32()), n),
    }
    arrays = [
        constants[name]() if name in constants else table[name].combine_chunks()
        for name in schema.names
    ]
    yield pa.RecordBatch.from_arrays(arrays, schema=schema)
