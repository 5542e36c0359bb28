"""The log's measurements: the same that ``trunkline log bench`` runs."""

from __future__ import annotations

from trunkline.log.bench import CELLS, run

__all__ = ["CELLS", "run"]
