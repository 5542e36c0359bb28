"""Spark: topics, tubes and tables as sources and sinks, and the jobs that run on it.

Importing this needs neither Spark nor Java; calling does.
"""

from __future__ import annotations

from trunkline.spark.session import FAST, register, session

__all__ = ["FAST", "register", "session"]
