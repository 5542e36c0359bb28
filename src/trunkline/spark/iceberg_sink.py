"""The sink ``trunkline.iceberg``: appends to Iceberg tables, exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field
from pyspark.sql.datasource import DataSource

from trunkline.spark.connection import plain_errors
from trunkline.spark.lake_path import LakePath  # noqa: TC001 - pydantic reads it
from trunkline.spark.sink import BatchSink, SinkOptions, StreamSink

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from trunkline.spark.iceberg import IcebergTarget


class IcebergSinkOptions(SinkOptions):
    """Options of ``df.write.format("trunkline.iceberg")``."""

    table: str = Field(pattern=r"^[^.]+(\.[^.]+)+$")
    """``namespace.name``; made with the first write."""
    warehouse: LakePath
    """The folder or address below which new tables are kept."""


class IcebergSource(DataSource):
    """``trunkline.iceberg``: writes in batches and streams."""

    @classmethod
    def name(cls) -> str:
        return "trunkline.iceberg"

    def writer(self, schema: StructType, overwrite: bool) -> BatchSink:  # noqa: FBT001 - Spark's
        with plain_errors():
            options = IcebergSinkOptions.parse(self.options)
            return BatchSink(_target(options, schema, overwrite=overwrite), options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSink:  # noqa: FBT001
        with plain_errors():
            options = IcebergSinkOptions.parse(self.options)
            return StreamSink(_target(options, schema, overwrite=overwrite), options)


def _target(options: IcebergSinkOptions, schema: StructType, *, overwrite: bool) -> IcebergTarget:
    from trunkline.spark.iceberg import target_of  # slow to import, and Spark imports every sink

    return target_of(options, schema, overwrite=overwrite)
