"""Spark on Trunkline measured in one run: ``trunkline spark bench``, ``make bench``.

Reading and writing take turns with Spark's own JDBC source on a table with the same content,
streams with the sink that does nothing, a sync with a plain copy of its table. See
``bench/METHODOLOGY.md``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trunkline.log import bench as log_bench
from trunkline.spark.bench.delta import delta
from trunkline.spark.bench.ground import spark_session
from trunkline.spark.bench.latency import latency
from trunkline.spark.bench.read import read
from trunkline.spark.bench.scale import scale
from trunkline.spark.bench.sync import sync
from trunkline.spark.bench.write import write

if TYPE_CHECKING:
    from collections.abc import Callable

CELLS = {
    "read": read,
    "write": write,
    "latency": latency,
    "delta": delta,
    "sync": sync,
    "scale": scale,
}
_LONG = {"scale"}  # only where it is named, and in a full run
_RUNS = 3


def run(
    dsn: str,
    *,
    quick: bool = False,
    full: bool = False,
    only: str | None = None,
    runs: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Measure all cells, or those that ``only`` names; as `trunkline.log.bench.run`.

    A session of this process is used if there is one. Of the database, the schema ``bench_spark``
    is made and removed again.
    """
    if only is None and not full:
        only = ",".join(name for name in CELLS if name not in _LONG)
    log_bench.chosen(CELLS, only)  # before Spark is started
    with spark_session():
        return log_bench.run(
            dsn,
            quick=quick,
            full=full,
            only=only,
            runs=runs or (1 if quick else _RUNS),
            progress=progress,
            cells=CELLS,
        )
