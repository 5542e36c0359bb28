"""Found by Spark by its name: makes the format ``trunkline.log`` known."""

from trunkline.spark.log_source import LogSource as DefaultSource

__all__ = ["DefaultSource"]
