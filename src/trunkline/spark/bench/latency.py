"""Cell `latency`: from the call of append until foreachBatch holds the message."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from trunkline.log.bench.measure import Figures, Row, Target, percentile
from trunkline.spark.bench.ground import spark_session
from trunkline.spark.session import FAST

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from trunkline.log.bench.lab import Lab

_PATIENCE = 60.0  # seconds for one message: the first waits for the stream to start


async def latency(lab: Lab) -> AsyncGenerator[Row]:
    """One message after the other, with Spark's settings and with the fast ones."""
    with spark_session() as spark:
        for case, settings, limit in (
            ("default settings", {}, 220),
            ("settings trunkline.spark.FAST", FAST, 140),
        ):
            with _settings(spark, settings):
                samples = sorted(await _samples(lab, spark))
            p50, p95, p99 = (percentile(samples, share) for share in (0.5, 0.95, 0.99))
            yield Row(
                "latency",
                f"append to foreachBatch, p50, {case}",
                p50,
                "ms",
                Target(at_most=limit),
                ours=Figures(round(1000 / p50, 1), p50, p95, p99),
                runs=len(samples),
                details={"p90_ms": percentile(samples, 0.9)},
            )


@contextmanager
def _settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings for streams that start meanwhile."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, previous in before.items():
            if previous is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, previous)


async def _samples(lab: Lab, spark: SparkSession) -> list[float]:
    """Seconds from the call until the rows are here; the first messages only warm up."""
    warm_up, counted = (3, 5) if lab.quick else (15, 40)
    source = random.Random(1)  # noqa: S311 - repeatable, not secret
    topic = lab.create("latency")
    seen: dict[bytes, float] = {}
    with _stream(lab, spark, topic, seen):
        took = []
        for number in range(warm_up + counted):
            await asyncio.sleep(source.uniform(0.2, 0.4))
            message = b"%d" % number
            begin = time.perf_counter()
            await lab.log.append(topic, [message])
            while message not in seen:
                await asyncio.sleep(0.001)
                assert time.perf_counter() - begin < _PATIENCE, "the message does not arrive"
            took.append(seen[message] - begin)
    return took[warm_up:]


@contextmanager
def _stream(lab: Lab, spark: SparkSession, topic: str, seen: dict[bytes, float]) -> Iterator[None]:
    """A stream that notes when it saw each message."""

    def note(rows: DataFrame, _batch: int) -> None:
        found = rows.collect()
        now = time.perf_counter()
        seen.update({bytes(row["value"]): now for row in found})

    with TemporaryDirectory(prefix="trunkline-bench-") as place:
        query = (
            spark.readStream.format("trunkline.log")
            .options(dsn=lab.dsn, subscribe=topic, startingOffsets="earliest")
            .load()
            .writeStream.foreachBatch(note)
            .option("checkpointLocation", place)
            .start()
        )
        try:
            yield
        finally:
            query.stop()
