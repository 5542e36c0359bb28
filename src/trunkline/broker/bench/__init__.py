"""The broker measured against the plain design: ``trunkline broker bench``, ``make bench``.

What each side does and why is told in ``bench/METHODOLOGY.md``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trunkline.broker.bench.deliver import deliver
from trunkline.broker.bench.held import held
from trunkline.broker.bench.latency import latency
from trunkline.broker.bench.publish import publish
from trunkline.broker.bench.subscriptions import subscriptions
from trunkline.broker.bench.watch import watch
from trunkline.broker.bench.webhooks import webhooks
from trunkline.log import bench as log_bench

if TYPE_CHECKING:
    from collections.abc import Callable

CELLS = {
    "deliver": deliver,
    "publish": publish,
    "latency": latency,
    "held": held,
    "subscriptions": subscriptions,
    "watch": watch,
    "webhooks": webhooks,
}


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

    Groups called ``bench.*`` and the schema ``bench_broker`` are made and removed again; events
    stay until they leave with retention.
    """
    return log_bench.run(
        dsn, quick=quick, full=full, only=only, runs=runs, progress=progress, cells=CELLS
    )
