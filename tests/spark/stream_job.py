"""A Spark driver of its own, to be killed: ``python stream_job.py '{"streams": {...}, ...}'``.

`set_traps` puts formats in the place of ours that do the same, but for one thing: at the phase of
their `Trap` they wait until they are let go. Its streams do so before its other jobs begin.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.taskcontext import TaskContext

from trunkline.spark import tube_files
from trunkline.spark.log_reading import LogOptions
from trunkline.spark.log_source import LogSource
from trunkline.spark.log_stream import LogStreamReader
from trunkline.spark.sink import BatchSink, StreamSink
from trunkline.spark.table_source import TableSource
from trunkline.spark.tube_lanes import Lanes
from trunkline.testing import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

BATCH = 200  # messages of a micro-batch
PATIENCE = 180  # seconds for what takes ten on a calm machine

cloudpickle.register_pickle_by_value(sys.modules[__name__])


@dataclass(frozen=True)
class Trap:
    """Where a job waits: the phase, and the batch of a stream.

    Phases: ``plan``, ``task`` (a task has staged its rows), ``commit`` (all tasks have), ``done``
    (committed, the checkpoint does not know yet), ``files`` (all tasks of a sync wrote theirs),
    ``acknowledge`` (a sync committed).
    """

    folder: str
    name: str
    phase: str
    batch: int = 0

    @property
    def reached(self) -> Path:
        """A file that is there once somebody waits."""
        return Path(self.folder, f"{self.name}.reached")

    @property
    def go(self) -> Path:
        """A file to be made by whoever lets them go."""
        return Path(self.folder, f"{self.name}.go")

    def at(self, phase: str, batch: int | None = None) -> None:
        """Wait here, if this is the place and nobody was here before."""
        if phase == self.phase and batch in (None, self.batch) and not self.reached.exists():
            self.reached.touch()
            wait_until(self.go.exists, PATIENCE)


def set_traps(spark: SparkSession, traps: Mapping[str, Trap]) -> None:
    """Let the formats of a session walk into traps, by the name of the topic or the table."""

    def at(name: str, phase: str, batch: int | None = None) -> None:
        if trap := traps.get(name):
            trap.at(phase, batch)

    class Reader(LogStreamReader):
        def partitions(self, start: Any, end: Any) -> Any:
            at(self._options.subscribe[0], "plan")
            return super().partitions(start, end)

    class Streamed(StreamSink):
        def write(self, iterator: Any) -> Any:
            staged = super().write(iterator)
            batch = TaskContext.get().getLocalProperty("streaming.sql.batchId")
            at(_written(self), "task", int(batch))
            return staged

        def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
            at(_written(self), "commit", batchId)
            super().commit(messages, batchId)
            at(_written(self), "done", batchId)

    class Written(BatchSink):
        def write(self, iterator: Any) -> Any:
            staged = super().write(iterator)
            at(_written(self), "task")
            return staged

    class Log(LogSource):
        def streamReader(self, schema: Any) -> Any:  # noqa: N802
            return Reader(LogOptions.parse(self.options).refuse("stream"), schema)

    class Table(TableSource):
        def writer(self, schema: Any, overwrite: bool) -> Any:
            return _as(Written, super().writer(schema, overwrite))

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802
            return _as(Streamed, super().streamWriter(schema, overwrite))

    spark.dataSource.register(Log)
    spark.dataSource.register(Table)


def _as(kind: type, sink: Any) -> Any:
    made = kind.__new__(kind)
    made.__dict__.update(sink.__dict__)
    return made


def _written(sink: Any) -> str:
    name: str = sink._target.name
    return name.rpartition(".")[2]


def start_stream(
    spark: SparkSession, dsn: str, name: str, checkpoint: str, **trigger: Any
) -> StreamingQuery:
    """The topic ``name`` into the table ``app.name``, some hundred messages at a time."""
    given = {"dsn": dsn, "subscribe": name, "startingOffsets": "earliest"}
    rows = (
        spark.readStream.format("trunkline.log")
        .options(**given, maxOffsetsPerTrigger=BATCH)
        .load()
        .selectExpr("partition", "`offset`", "cast(value as string) as value")
    )
    return (
        rows.writeStream.format("trunkline.table")
        .options(dsn=dsn, dbtable=f"app.{name}", checkpointLocation=checkpoint)
        .trigger(**(trigger or {"availableNow": True}))
        .start()
    )


def main(told: dict[str, Any]) -> None:
    from trunkline.spark import archive, session, sync

    dsn, folder, trapped = told["dsn"], told["folder"], told["traps"]
    os.environ["SPARK_LOCAL_DIRS"] = folder
    spark = session("killed", master="local[6]", **told["conf"])  # some tasks stay where they are
    traps = {name: Trap(folder, name, *where) for name, where in trapped.items()}
    set_traps(spark, traps)
    write_slices = tube_files.write_slices

    def files_written(spark: SparkSession, slices: Any, table: Any) -> Any:
        files = write_slices(spark, slices, table)
        traps[slices[0].tube].at("files")
        return files

    tube_files.write_slices = files_written
    Lanes.acknowledge_each = lambda self, *_a, **_b: traps[self._tube].at("acknowledge")  # type: ignore[method-assign]

    def stream(name: str) -> None:
        try:
            queries[name].awaitTermination()
        finally:
            print("progress", *(each.json for each in queries[name].recentProgress), flush=True)

    def follow(tube: str) -> None:
        sync(spark, tube, told["syncs"][tube], dsn=dsn, once=True)

    def store(topic: str) -> None:
        archive(spark, [topic], location=f"{folder}/lake", dsn=dsn)

    queries = {}
    for name in told["streams"]:  # one by one: Spark gives each of their processes ten seconds
        queries[name] = start_stream(spark, dsn, name, f"{folder}/{name}")
        wait_until(traps[name].reached.exists, PATIENCE)
    jobs = {"streams": stream, "syncs": follow, "archives": store}
    with ThreadPoolExecutor(sum(len(told[kind]) for kind in jobs)) as threads:
        for kind, job in jobs.items():
            for name in told[kind]:
                threads.submit(_said, job, name)


def _said(job: Callable[[str], None], name: str) -> None:
    """Run a job; what becomes of it is printed."""
    try:
        job(name)
        print(name, "ended", flush=True)
    except Exception:
        print(name, "failed", traceback.format_exc(), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
