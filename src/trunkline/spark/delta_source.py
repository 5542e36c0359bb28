"""Reading a Delta table: the driver lists its files, every task reads one of them.

Columns that came later are null in older files. Values that the table is partitioned by are only in
its log. Rows that a deletion vector names are left out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from trunkline.core.errors import Invalid, NotFound
from trunkline.spark.columns import chosen
from trunkline.spark.connection import plain_errors
from trunkline.spark.delta_rules import refuse_unreadable
from trunkline.spark.lake_path import (
    LakePath,
    files_in,
)
from trunkline.spark.options import Options, Words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


class DeltaReadOptions(Options):
    """Options of ``spark.read.format("trunkline.delta")``."""

    path: LakePath
    """The folder of the table."""
    columns: Words | None = None
    """Only these columns; Spark reads all of a Python source otherwise."""


@dataclass(frozen=True)
class FilePart(InputPartition):
    """A file of the table, and what is not in it."""

    file: str
    values: Mapping[str, Any] = field(default_factory=dict)
    """Of the columns that the table is partitioned by."""
    kept: bytes | None = None
    """A bit per row; None where no row is deleted."""


class DeltaReader(DataSourceReader):
    """Lists files on the driver, reads them in tasks."""

    def __init__(self, path: str, schema: StructType):
        self._path = path
        self._names = chosen(schema_of(path), schema)
        self._schema: pa.Schema = to_arrow_schema(schema, timezone="UTC")

    def partitions(self) -> Sequence[InputPartition]:
        with plain_errors():
            table = _table(self._path)
            kept = _kept_rows(table)
            return [
                FilePart(
                    unquote(action["path"]),
                    {
                        name: action[f"partition.{name}"]
                        for name in table.metadata().partition_columns
                        if name in self._names
                    },
                    kept.get(unquote(action["path"]).rpartition("/")[2]),
                )
                for action in pa.table(table.get_add_actions(flatten=True)).to_pylist()
            ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, FilePart):
            return  # Spark makes up a partition where a plan has none
        with files_in(self._path).open_input_file(partition.file) as opened:
            stored = pq.ParquetFile(opened, coerce_int96_timestamp_unit="us")
            there = stored.schema_arrow.names
            present = [name for name in self._names if name in there]
            first = 0
            for batch in stored.iter_batches(columns=present or there[:1]):
                rows = _without_deleted(batch, partition.kept, first)
                first += batch.num_rows
                if rows.num_rows:
                    yield self._conformed(rows, partition.values)

    def _conformed(self, rows: pa.RecordBatch, values: Mapping[str, Any]) -> pa.RecordBatch:
        """The columns that were asked for, in their types."""
        columns = [
            rows.column(column.name).cast(column.type)
            if column.name in rows.schema.names and column.name not in values
            else pa.repeat(pa.scalar(values.get(column.name), column.type), rows.num_rows)
            for column in self._schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def schema_of(path: str, columns: Sequence[str] | None = None) -> StructType:
    """The columns of a table, or some of them; `NotFound` where there is no table."""
    table = _table(path)
    refuse_unreadable(table)
    found = StructType.fromJson(json.loads(table.schema().to_json()))
    if missing := [name for name in columns or () if name not in found.fieldNames()]:
        raise Invalid(
            f"there is no column {', '.join(missing)}.",
            hint=f"There are: {', '.join(found.fieldNames())}.",
        )
    return found if columns is None else StructType([found[name] for name in columns])


def _table(path: str) -> DeltaTable:
    if not DeltaTable.is_deltatable(path):
        raise NotFound(f"there is no Delta table in {path}.", hint="Is the path right?")
    return DeltaTable(path)


def _kept_rows(table: DeltaTable) -> dict[str, bytes]:
    """For every file with deleted rows, by its name, a bit per row."""
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return {}
    found = pa.table(table.deletion_vectors())
    return {
        unquote(place).rpartition("/")[2]: np.packbits(np.array(kept, bool)).tobytes()
        for place, kept in zip(
            found.column("filepath").to_pylist(),
            found.column("selection_vector").to_pylist(),
            strict=True,
        )
    }


def _without_deleted(batch: pa.RecordBatch, kept: bytes | None, first: int) -> pa.RecordBatch:
    """A batch that begins with this row of its file; rows beyond the bits are kept."""
    if kept is None:
        return batch
    bits = np.unpackbits(np.frombuffer(kept, np.uint8))[first : first + batch.num_rows]
    mask = np.ones(batch.num_rows, bool)
    mask[: len(bits)] = bits
    return batch.filter(pa.array(mask))
