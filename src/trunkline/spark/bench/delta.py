"""Cell `delta`: a stream into a Delta table against one that goes nowhere."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from trunkline.log.bench.measure import Slice, Target, compare
from trunkline.spark.bench.ground import fill_topic, spark_session

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from pyspark.sql import SparkSession

    from trunkline.log.bench.lab import Lab
    from trunkline.log.bench.measure import Row, Side


async def delta(lab: Lab) -> AsyncGenerator[Row]:
    """Micro-batches of a fixed size, all columns; the first of a stream is not counted."""
    most = 10_000 if lab.quick else 200_000
    n = (2 if lab.quick else 7) * most
    with spark_session() as spark:
        topic = fill_topic(lab, n, size=100)
        yield await compare(
            lab,
            "delta",
            f"stream of 100 B messages, {most} a batch, to trunkline.delta vs noop",
            ours=_stream(lab, spark, topic, most, "trunkline.delta"),
            baseline=_stream(lab, spark, topic, most, "noop"),
            target=Target(at_least=0.4),
        )


def _stream(lab: Lab, spark: SparkSession, topic: str, most: int, sink: str) -> Side:
    async def side(_seconds: float) -> Slice:
        with TemporaryDirectory(prefix="trunkline-bench-") as place:
            options = {"path": f"{place}/table"} if sink != "noop" else {}
            query = (
                spark.readStream.format("trunkline.log")
                .options(dsn=lab.dsn, subscribe=topic, startingOffsets="earliest")
                .option("maxOffsetsPerTrigger", str(most))
                .load()
                .writeStream.format(sink)
                .options(**options, checkpointLocation=f"{place}/checkpoint")
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            batches = [part for part in query.recentProgress if part["numInputRows"]][1:]
        took = [part["durationMs"]["triggerExecution"] / 1000 for part in batches]
        return Slice(sum(part["numInputRows"] for part in batches), sum(took), took)

    return side
