"""Found by Spark by its name: makes the format ``trunkline.events`` known."""

from trunkline.spark.events_source import EventsSource as DefaultSource

__all__ = ["DefaultSource"]
