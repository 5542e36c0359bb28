"""Found by Spark by its name: makes the format ``trunkline.iceberg`` known."""

from trunkline.spark.iceberg_sink import IcebergSource as DefaultSource

__all__ = ["DefaultSource"]
