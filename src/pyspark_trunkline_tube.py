"""Found by Spark by its name: makes the format ``trunkline.tube`` known."""

from trunkline.spark.tube_source import TubeSource as DefaultSource

__all__ = ["DefaultSource"]
