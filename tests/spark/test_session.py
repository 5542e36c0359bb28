"""The session, and what its workers are started from."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import trunkline
from trunkline.spark.delta_sink import DeltaSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

THREADS = """
import os, sys
from trunkline.spark import daemon
daemon.load()
print(len(os.listdir("/proc/self/task")), "pyarrow" in sys.modules)
"""


@pytest.mark.parametrize(("threads", "arrow"), [("1", True), ("2", False)])
def test_what_workers_are_forked_from_has_one_thread(threads: str, arrow: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", THREADS],
        env=os.environ | {"OMP_NUM_THREADS": threads},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"1 {arrow}\n"


def test_a_worker_looks_for_garbage_only_in_what_is_its_own(spark: SparkSession) -> None:
    def looked_through(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import gc

        import pyarrow as pa

        for _ in rows:
            yield pa.RecordBatch.from_pydict(
                {"own": [len(gc.get_objects())], "loaded": [gc.get_freeze_count()]}
            )

    numbers = spark.range(1, numPartitions=1)
    [found] = numbers.mapInArrow(looked_through, "own long, loaded long").collect()
    assert found.own * 3 < found.loaded, found


def noting(place: str) -> type[DataSource]:
    """A sink that notes what its commit would look through for garbage; by value, for Spark."""

    class Noting(DeltaSource):
        @classmethod
        def name(cls) -> str:
            return "noting"

        def writer(self, schema: Any, overwrite: bool) -> Any:
            made = super().writer(schema, overwrite)
            commit = made.commit

            def noted(messages: Any) -> None:
                import gc

                commit(messages)
                with open(place, "a") as file:  # noqa: PTH123
                    file.write(f"{len(gc.get_objects())} {gc.get_freeze_count()}\n")

            made.commit = noted
            return made

    return Noting


def test_a_commit_looks_for_garbage_only_in_what_is_new(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.dataSource.register(noting(str(tmp_path / "noted")))
    for _ in range(2):
        spark.range(1).write.format("noting").mode("append").save(f"{tmp_path}/delta")
    own, loaded = map(int, (tmp_path / "noted").read_text().splitlines()[-1].split())
    assert own * 3 < loaded


class Counting(StatefulProcessor):
    """How many rows of a key came so far."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.seen = handle.getValueState("seen", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], _timers: Any) -> Iterator[Row]:  # noqa: N802
        before = self.seen.get()[0] if self.seen.exists() else 0
        self.seen.update((before + sum(1 for _ in rows),))
        yield Row(key=key[0], n=self.seen.get()[0])

    def close(self) -> None:
        pass


def test_a_session_keeps_the_state_of_a_stream(
    spark: SparkSession, dsn: str, tmp_path: Path
) -> None:
    """The extra brings what transformWithState needs beside PySpark."""
    with trunkline.connect_sync(dsn) as tl:
        tl.log.create("in")
        tl.log.append("in", [b"a", b"b", b"a"])
    stream = spark.readStream.format("trunkline.log").options(
        dsn=dsn, subscribe="in", startingOffsets="earliest"
    )
    counted = (
        stream.load()
        .selectExpr("string(value) as key")
        .groupBy("key")
        .transformWithState(Counting(), "key string, n long", "update", "none")
    )
    found: list[Any] = []
    query = counted.writeStream.outputMode("update").foreachBatch(
        lambda rows, _: found.extend(rows.collect())
    )
    query = query.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(200)
    assert sorted((row.key, row.n) for row in found) == [("a", 2), ("b", 1)]
