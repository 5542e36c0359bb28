"""Found by Spark by its name: makes the format ``trunkline.table`` known."""

from trunkline.spark.table_source import TableSource as DefaultSource

__all__ = ["DefaultSource"]
