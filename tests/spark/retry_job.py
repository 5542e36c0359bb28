"""Write into a topic, a table and a lake from tasks whose first attempt dies on the way.

The second attempt gives the rows in another order. It needs a Spark of its own: only
``local[n, failures]`` tries a task again.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.taskcontext import TaskContext
from tests.fixtures.spark import HASTY

from trunkline.spark import session

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = 10_000


def stumble(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Half of the rows and a failure; the second time all of them, backwards."""
    context = TaskContext.get()
    assert context is not None
    held = list(batches)
    if context.attemptNumber() == 0:
        yield from held[: len(held) // 2 + 1]
        raise RuntimeError("stumbled")
    for batch in reversed(held):
        yield batch.take(pa.array(range(batch.num_rows - 1, -1, -1)))


def main(dsn: str, place: str) -> None:
    spark = session("retry", master="local[2,3]", **HASTY)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1000")
    source = spark.range(ROWS, numPartitions=2)
    rows = source.mapInArrow(stumble, source.schema)
    messages = rows.selectExpr("cast(id as string) as value", "cast(id % 7 as string) as key")
    for frame, name, options in (
        (messages, "log", {"dsn": dsn, "topic": "retried"}),
        (rows, "table", {"dsn": dsn, "dbtable": "retried"}),
        (rows, "delta", {"path": f"{place}/delta"}),
    ):
        frame.write.format(f"trunkline.{name}").options(**options).mode("append").save()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
