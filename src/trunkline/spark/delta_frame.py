"""A Delta table as a frame: Spark reads the files, Delta's log says which, and what is not in them.

Columns that came later are null in older files. Values that a table is partitioned by are only in
its log; a file is known again by its name, which is made once.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable

from trunkline.spark.columns import spark_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_FILE = "__file"


def frame_of(spark: SparkSession, path: str) -> DataFrame | None:
    """The rows of the newest version; None when there is no table, or no file in it."""
    if not DeltaTable.is_deltatable(path):
        return None
    table = DeltaTable(path)
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    if not actions:
        return None
    # not file_uris(): Spark takes what is escaped in it for the name
    files = [f"{path.rstrip('/')}/{unquote(action['path'])}" for action in actions]
    schema = _schema(table)
    partitioned = table.metadata().partition_columns
    if not partitioned:
        return spark.read.schema(schema).parquet(*files)
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructField, StructType

    stored, kept = _parted(schema, partitioned)
    rows = spark.read.schema(stored).parquet(*files)
    named = StructType([*kept.fields, StructField(_FILE, StringType())])
    values = spark.createDataFrame(_values(actions, kept), named)
    return (
        rows.withColumn(_FILE, f.col("_metadata.file_name"))
        .join(f.broadcast(values), _FILE, "left")
        .select(*(f.col(spark_name(name)) for name in schema.fieldNames()))
    )


def _schema(table: DeltaTable) -> StructType:
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(table.schema().to_json()))


def _parted(schema: StructType, partitioned: Sequence[str]) -> tuple[StructType, StructType]:
    """The columns that files hold, and those that the log holds."""
    from pyspark.sql.types import StructType

    return (
        StructType([field for field in schema if field.name not in partitioned]),
        StructType([field for field in schema if field.name in partitioned]),
    )


def _values(actions: list[dict[str, Any]], kept: StructType) -> list[tuple[Any, ...]]:
    """For every file what the log holds of its rows, and its name."""
    return [
        (
            *(action[f"partition.{name}"] for name in kept.fieldNames()),
            action["path"].rpartition("/")[2],
        )
        for action in actions
    ]
