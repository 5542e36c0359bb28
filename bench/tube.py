"""The tubes' measurements: the same that ``trunkline tube bench`` runs."""

from __future__ import annotations

from trunkline.tube.bench import CELLS, run

__all__ = ["CELLS", "run"]
