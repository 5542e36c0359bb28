"""A Spark driver of its own, to be killed: ``python stream_job.py '{"job": "stream", ...}'``.

`set_trap` puts formats in the place of ours that do the same, but for one thing: at the phase of
their `Trap` they kill the driver and all that belongs to it, or they wait until they are let go.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.taskcontext import TaskContext

from trunkline.spark.log_source import LogOptions, LogSource, LogStreamReader
from trunkline.spark.sink import BatchSink, StreamSink
from trunkline.spark.table_source import TableSource
from trunkline.spark.tube_lanes import Lanes
from trunkline.testing import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

HASTY = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
}

cloudpickle.register_pickle_by_value(sys.modules[__name__])


@dataclass(frozen=True)
class Trap:
    """Where somebody is stopped: the phase, and the batch of a stream.

    Phases: ``plan``, ``task`` (a task has staged its rows), ``commit`` (all tasks have), ``done``
    (committed, the checkpoint does not know yet), ``acknowledge`` (a sync committed).
    """

    phase: str
    batch: int = 0
    kill: int | None = None
    """This process group."""
    folder: str | None = None
    """Or: make the file ``reached`` in it, and wait for the file ``go``; once."""

    def at(self, phase: str, batch: int | None = None) -> None:
        """Strike here, if this is the place."""
        if phase != self.phase or batch not in (None, self.batch):
            return
        if self.kill is not None:
            os.killpg(self.kill, signal.SIGKILL)
            os.killpg(0, signal.SIGKILL)
        assert self.folder is not None
        reached, go = Path(self.folder, "reached"), Path(self.folder, "go")
        if reached.exists():
            return
        reached.touch()
        wait_until(go.exists, 60)


def set_trap(spark: SparkSession, trap: Trap) -> None:
    """Let the formats ``trunkline.log`` and ``trunkline.table`` of a session walk into a trap."""

    class Reader(LogStreamReader):
        def partitions(self, start: Any, end: Any) -> Any:
            trap.at("plan")
            return super().partitions(start, end)

    class Streamed(StreamSink):
        def write(self, iterator: Any) -> Any:
            staged = super().write(iterator)
            trap.at("task", int(TaskContext.get().getLocalProperty("streaming.sql.batchId")))
            return staged

        def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
            trap.at("commit", batchId)
            super().commit(messages, batchId)
            trap.at("done", batchId)

    class Written(BatchSink):
        def write(self, iterator: Any) -> Any:
            staged = super().write(iterator)
            trap.at("task")
            return staged

        def commit(self, messages: Any) -> None:
            trap.at("commit")
            super().commit(messages)
            trap.at("done")

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


def events(spark: SparkSession, dsn: str) -> DataFrame:
    """The topic ``events``, some hundred messages at a time."""
    given = {"dsn": dsn, "subscribe": "events", "startingOffsets": "earliest"}
    return (
        spark.readStream.format("trunkline.log")
        .options(**given, maxOffsetsPerTrigger=200)
        .load()
        .selectExpr("partition", "`offset`", "cast(value as string) as value")
    )


def into_seen(rows: DataFrame, dsn: str, checkpoint: str, **trigger: Any) -> StreamingQuery:
    """A stream into the table ``app.seen``."""
    return (
        rows.writeStream.format("trunkline.table")
        .options(dsn=dsn, dbtable="app.seen", checkpointLocation=checkpoint)
        .trigger(**(trigger or {"availableNow": True}))
        .start()
    )


def main(told: dict[str, Any]) -> None:
    from trunkline.spark import session, sync

    os.environ["SPARK_LOCAL_DIRS"] = told["folder"]
    spark = session("killed", master="local[2]", **HASTY, **told.get("conf", {}))
    if "phase" in told:
        group = None if told.get("pause") else os.getpgrp()
        trap = Trap(told["phase"], told.get("batch", 0), kill=group, folder=told["folder"])
        set_trap(spark, trap)
        if trap.phase == "acknowledge":
            Lanes.acknowledge_each = lambda *_a, **_b: trap.at("acknowledge")  # type: ignore[assignment]
    if told["job"] == "stream":
        query = into_seen(events(spark, told["dsn"]), told["dsn"], told["checkpoint"])
        try:
            query.awaitTermination()
        finally:
            print("progress", *(each.json for each in query.recentProgress))
    else:
        sync(spark, "lake", "table:app.copy", dsn=told["dsn"], once=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
