"""Spark's measurements: the same that ``trunkline spark bench`` runs."""

from __future__ import annotations

from trunkline.spark.bench import CELLS, run

__all__ = ["CELLS", "run"]
