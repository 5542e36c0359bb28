"""Found by Spark by its name: makes the format ``trunkline.delta`` known."""

from trunkline.spark.delta_sink import DeltaSource as DefaultSource

__all__ = ["DefaultSource"]
