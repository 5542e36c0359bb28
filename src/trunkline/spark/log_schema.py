"""The columns of a topic."""

from __future__ import annotations

from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

COLUMNS: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "headers": StringType(),
}


def schema_of(columns: tuple[str, ...] | None, *, headers: bool) -> StructType:
    """The schema of the columns that were asked for; headers are extra."""
    names = columns or tuple(name for name in COLUMNS if name != "headers" or headers)
    return StructType([StructField(name, COLUMNS[name]) for name in names])
