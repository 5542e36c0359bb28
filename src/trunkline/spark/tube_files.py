"""Changed rows of a tube as files of a lake: a task writes what it reads.

Rows go from the server into Parquet inside one Python worker; Spark hands out the work, repeats
what fails, and brings back the names of the files. Through a frame they would pass the JVM on their
way from one worker to the next.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import pyarrow as pa

from trunkline.spark.parquet_files import File
from trunkline.spark.tube_rows import read_slice

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from trunkline.spark.delta import DeltaTarget
    from trunkline.spark.tube_rows import Slice

_COLUMNS = "path string, size long, rows long, stats string, modified long"
_NAMES = [column.partition(" ")[0] for column in _COLUMNS.split(", ")]


def write_slices(spark: SparkSession, slices: Sequence[Slice], table: DeltaTarget) -> list[File]:
    """Let a task per slice put its rows into files that belong to no table yet."""

    def write(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                rows = read_slice(slices[number])
                yield named(table.write_files(rows, mode="upsert"))

    numbered = spark.range(0, len(slices), 1, len(slices))
    return [File(**row.asDict()) for row in numbered.mapInArrow(write, _COLUMNS).collect()]


def named(files: Sequence[File]) -> pa.RecordBatch:
    """What the driver is told of files: a row each."""
    listed = [asdict(file) for file in files]
    columns = {name: [file[name] for file in listed] for name in _NAMES}
    kinds = [pa.string(), pa.int64(), pa.int64(), pa.string(), pa.int64()]
    return pa.RecordBatch.from_pydict(columns, pa.schema(list(zip(_NAMES, kinds, strict=True))))
