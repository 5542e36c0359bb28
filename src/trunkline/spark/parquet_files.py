"""Parquet files of lake tables, as tasks write them: new names, statistics, nothing shared.

A file has a name of its own for every attempt, so what a failed or repeated attempt left is only
ever an orphan: in no table, and removed by upkeep when it is old.
"""

from __future__ import annotations

import datetime as dt
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trunkline.core.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyarrow.fs import FileSystem

FILE_BYTES = 256 << 20  # of Arrow memory; about a quarter of it on disk
_GROUP_BYTES = 16 << 20  # of Arrow memory, in one row group
_HELD_BYTES = 4 * _GROUP_BYTES  # that a task holds back at most, over all its files
_LONGEST_TEXT = 32  # characters of a text in statistics
_MOST_COLUMNS = 32  # that have statistics
_HIGHEST = "\U0010ffff"


@dataclass(frozen=True)
class File:
    """A file that a task wrote: where below the table, and what is in it."""

    path: str
    size: int
    rows: int
    partition: Mapping[str, str | None] = field(default_factory=dict)
    stats: str = "{}"
    modified: int = 0


def write_files(
    batches: Iterator[pa.RecordBatch],
    *,
    files: FileSystem,
    schema: pa.Schema,
    folder: str = "",
    partition_columns: Sequence[str] = (),
) -> list[File]:
    """Write batches into new files, one or more for every set of partition values."""
    writers: dict[tuple[Any, ...], _Writer] = {}
    done: list[File] = []
    try:
        for batch in batches:
            for values, rows in _by_partition(_cast(batch, schema), partition_columns):
                if values not in writers:
                    named = dict(zip(partition_columns, map(_text, values), strict=True))
                    writers[values] = _Writer(files, folder, rows.schema, named)
                writers[values].add(rows)
                if writers[values].waiting >= _GROUP_BYTES:
                    writers[values].flush()
                if writers[values].bytes >= FILE_BYTES:
                    done.append(writers.pop(values).close())
            if sum(writer.waiting for writer in writers.values()) >= _HELD_BYTES:
                for writer in writers.values():
                    writer.flush()
        done += [writer.close() for writer in writers.values()]
        writers.clear()
    finally:
        for writer in writers.values():
            writer.close()
    return done


class _Writer:
    """One file that is being written."""

    def __init__(
        self, files: FileSystem, folder: str, schema: pa.Schema, partition: dict[str, str | None]
    ):
        self.bytes = 0
        self.waiting = 0
        self._group: list[pa.RecordBatch] = []
        self._files = files
        self._path = f"{folder}part-{uuid4()}.zstd.parquet"
        self._partition = partition
        self._stats = Statistics(schema)
        self._writer = pq.ParquetWriter(self._path, schema, filesystem=files, compression="zstd")

    def add(self, batch: pa.RecordBatch) -> None:
        self._group.append(batch)
        self._stats.add(batch)
        self.waiting += batch.nbytes
        self.bytes += batch.nbytes

    def flush(self) -> None:
        """Write what waits as one row group."""
        if self._group:
            group = pa.Table.from_batches(self._group)
            self._writer.write_table(group, row_group_size=group.num_rows)
        self._group.clear()
        self.waiting = 0

    def close(self) -> File:
        self.flush()
        self._writer.close()
        return File(
            self._path,
            self._files.get_file_info(self._path).size,
            self._stats.rows,
            self._partition,
            self._stats.json(),
            int(time.time() * 1000),
        )


class Statistics:
    """Rows, nulls, and the lowest and highest value of a file's columns, as Delta notes them.

    A column with a date or time outside of the years 1 to 9999 has no bounds.
    """

    def __init__(self, schema: pa.Schema):
        self.rows = 0
        self._nulls = dict.fromkeys(schema.names[:_MOST_COLUMNS], 0)
        self._ordered = [
            name for name in self._nulls if any(is_(schema.field(name).type) for is_ in _ORDERED)
        ]
        self._lowest: dict[str, Any] = {}
        self._highest: dict[str, Any] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        for name in self._nulls:
            self._nulls[name] += batch.column(name).null_count
        for name in tuple(self._ordered):
            try:
                bounds = pc.min_max(batch.column(name)).as_py()
            except OverflowError:
                self._ordered.remove(name)
                self._lowest.pop(name, None)
                self._highest.pop(name, None)
                continue
            lowest, highest = bounds["min"], bounds["max"]
            if lowest is None:
                continue
            self._lowest[name] = min(self._lowest.get(name, lowest), lowest)
            self._highest[name] = max(self._highest.get(name, highest), highest)

    def json(self) -> str:
        """What goes into the log of the table."""
        return json.dumps(
            {
                "numRecords": self.rows,
                "minValues": {n: _bound(v) for n, v in self._lowest.items()},
                "maxValues": {n: _bound(v, highest=True) for n, v in self._highest.items()},
                "nullCount": self._nulls,
            }
        )


_ORDERED = (
    pa.types.is_integer,
    pa.types.is_string,
    pa.types.is_date32,
    pa.types.is_timestamp,
)


def _bound(value: Any, *, highest: bool = False) -> Any:
    if isinstance(value, dt.datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="microseconds")
        return f"{text}Z" if value.tzinfo else text
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        return value[:_LONGEST_TEXT] + (_HIGHEST if highest else "")
    return value


def _cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.equals(schema):
        return batch
    arrays = [batch.column(field.name).cast(field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _by_partition(
    batch: pa.RecordBatch, columns: Sequence[str]
) -> Iterator[tuple[tuple[Any, ...], pa.RecordBatch]]:
    if not batch.num_rows:
        return
    if not columns:
        yield (), batch
        return
    indices: dict[tuple[Any, ...], list[int]] = {}
    keys = zip(*(_partition_values(batch, name) for name in columns), strict=True)
    for index, key in enumerate(keys):
        indices.setdefault(key, []).append(index)
    rest = batch.drop_columns(list(columns))
    for key, places in indices.items():
        yield key, rest.take(places)


def _partition_values(batch: pa.RecordBatch, name: str) -> list[Any]:
    try:
        values: list[Any] = batch.column(name).to_pylist()
    except OverflowError:
        raise Invalid(
            f"column {name} has a date or time outside of the years 1 to 9999,"
            " which cannot partition a table."
        ) from None
    return values


def _text(value: Any) -> str | None:
    """A partition value as Delta writes it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None).isoformat(" ", timespec="microseconds")
    if isinstance(value, bytes | float | list | dict):
        raise Invalid(f"a column of {type(value).__name__} cannot partition a table.")
    return str(value)
