"""Cell `scale`: how reading and syncing grow with cores and rows."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from psycopg import sql

from trunkline.log.bench.measure import Row
from trunkline.spark.bench.ground import SCHEMA, fill_topic, read_topic, spark_session, turn
from trunkline.spark.bench.read import summed
from trunkline.spark.bench.sync import change, orders
from trunkline.spark.jobs import sync as job

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from pyspark.sql import SparkSession

    from trunkline.log.bench.lab import Lab
    from trunkline.log.bench.measure import Side


SIZES = (1_000_000, 3_000_000, 10_000_000)
_WARM_TURNS = 5
_WARM_ROWS = 50_000


async def scale(lab: Lab) -> AsyncGenerator[Row]:
    """Rows per second at 1 and 2 cores, and at 1, 3 and 10 million rows (``--full``)."""
    sizes = SIZES if lab.full else (10_000, 20_000)
    most = [1, 2] if lab.full else [None]
    curves: dict[tuple[str, int], list[list[float]]] = {}
    for n in sizes:
        topic = fill_topic(lab, n, size=100)
        with orders(lab, n) as tube, TemporaryDirectory() as place:
            for cores in most:
                with _on(cores) as spark:
                    used = spark.sparkContext.defaultParallelism
                    _warm_up(spark, lab, topic, tube, f"{place}/warm {used}")
                    sides = {
                        "read": turn(n, partial(_read, spark, lab, topic)),
                        "sync": turn(
                            n,
                            partial(_sync, spark, lab, tube, f"{place}/{used}"),
                            before=partial(change, lab),
                        ),
                    }
                    for name, side in sides.items():
                        rate = await _rate(side, 1 if name == "sync" else 3)
                        curves.setdefault((name, used), []).append([n, rate])
        lab.clean()
    for (name, used), curve in sorted(curves.items()):
        yield Row(
            "scale",
            f"{name}, {used} cores, {sizes[-1]} rows vs {sizes[0]}, by rows per second",
            round(curve[-1][1] / curve[0][1], 2),
            details={"what": name, "cores": used, "rows_and_rows_per_second": curve},
        )


def _warm_up(spark: SparkSession, lab: Lab, topic: str, tube: str, path: str) -> None:
    """Let workers start and the JVM compile before anything is timed."""
    for _ in range(_WARM_TURNS):
        summed(read_topic(spark, lab, topic).where(f"offset <= {_WARM_ROWS}"))
    table = sql.Identifier(SCHEMA, "orders")
    some = sql.SQL("update {} set total = total + 1 where id <= %s").format(table)
    lab.watcher.execute(some, [_WARM_ROWS])
    _sync(spark, lab, tube, path)


def _read(spark: SparkSession, lab: Lab, topic: str) -> None:
    summed(read_topic(spark, lab, topic))


def _sync(spark: SparkSession, lab: Lab, tube: str, path: str) -> None:
    job.sync(spark, tube, f"delta:{path}", dsn=lab.dsn, once=True)


async def _rate(side: Side, turns: int) -> float:
    """The first turn is not counted where there are more."""
    found = [await side(0) for _ in range(turns)]
    return round(median(part.rate for part in found[min(1, turns - 1) :]), 1)


@contextmanager
def _on(cores: int | None) -> Iterator[SparkSession]:
    """A session with so many cores, for which that of this process ends; None: that one."""
    from pyspark.sql import SparkSession

    known = SparkSession.getActiveSession()
    if cores is not None and known is not None:
        known.stop()
    with spark_session(None if cores is None else f"local[{cores}]") as spark:
        yield spark
