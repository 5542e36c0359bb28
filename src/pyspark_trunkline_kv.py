"""Found by Spark by its name: makes the format ``trunkline.kv`` known."""

from trunkline.spark.kv_source import KvSource as DefaultSource

__all__ = ["DefaultSource"]
