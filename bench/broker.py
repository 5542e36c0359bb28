"""The broker's measurements: the same that ``trunkline broker bench`` runs."""

from __future__ import annotations

from trunkline.broker.bench import CELLS, run

__all__ = ["CELLS", "run"]
