"""Whatever happens between a task and the checkpoint, every row is there once."""

from __future__ import annotations

import json
import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.taskcontext import TaskContext
from tests.fixtures.asking import ask, column

import trunkline
from trunkline.spark.iceberg import catalogue
from trunkline.spark.session import SOURCES
from trunkline.testing import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from trunkline.platform import SyncPlatform

LEFT_OVER = "select count(*) from pg_class where relname ~ '^spark_staging_[0-9]+$'"
SINKS = ("log", "table", "events", "delta", "iceberg")


@pytest.fixture
def tl(dsn: str) -> Iterator[SyncPlatform]:
    with trunkline.connect_sync(dsn) as platform:
        yield platform


@pytest.fixture
def session(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(dsn, autocommit=True) as opened:
        yield opened


def options_of(sink: str, dsn: str, place: Path) -> dict[str, str]:
    return {
        "log": {"dsn": dsn, "topic": "out"},
        "table": {"dsn": dsn, "dbtable": "out"},
        "events": {"dsn": dsn, "topic": "out"},
        "delta": {"path": str(place / "delta")},
        "iceberg": {"dsn": dsn, "table": "lake.out", "warehouse": str(place / "iceberg")},
    }[sink]


def written(sink: str, tl: SyncPlatform, dsn: str, place: Path, name: str = "out") -> list[int]:
    """The numbers that are in a sink, sorted."""
    if sink == "log":
        parts = [tl.log.read(name, part, limit=100_000) for part in range(2)]
        return sorted(int(message.value or b"") for part in parts for message in part)
    if sink == "table":
        with psycopg.connect(dsn) as session:
            return column(session, f"select value::int from {name} order by 1")
    if sink == "events":
        with psycopg.connect(dsn) as session:
            return column(session, "select payload::int from trunkline.event order by 1")
    if sink == "delta":
        if not DeltaTable.is_deltatable(str(place / "delta")):
            return []
        rows = DeltaTable(str(place / "delta")).to_pyarrow_table()
    else:
        with catalogue(dsn) as catalog:
            rows = catalog.load_table(f"lake.{name}").scan().to_arrow()
    return sorted(int(value) for value in rows.column(0).to_pylist())


@pytest.fixture
def numbers(tl: SyncPlatform, session: psycopg.Connection[Any]) -> Callable[[int, int], None]:
    """Append numbers to a topic that streams read; where they go to is there."""
    tl.log.create("in", partitions=2)
    tl.log.create("out", partitions=2)
    session.execute("create table out (value text)")

    def append(first: int, last: int) -> None:
        for number in range(first, last, 100):
            values = [str(n).encode() for n in range(number, min(number + 100, last))]
            tl.log.append("in", values, keys=values)

    return append


def stream(spark: SparkSession, dsn: str, most: int = 250, offsets: str = "earliest") -> DataFrame:
    given = {"dsn": dsn, "subscribe": "in", "startingOffsets": offsets, "columns": "value"}
    source = spark.readStream.format("trunkline.log").options(**given)
    return source.option("maxOffsetsPerTrigger", most).load().selectExpr("string(value) as value")


def start(frame: DataFrame, name: str, checkpoint: Path, **options: str) -> StreamingQuery:
    given = {"checkpointLocation": str(checkpoint)} | options
    if name.endswith(".events"):
        frame = frame.withColumnRenamed("value", "payload")
    stream = frame.writeStream.format(name).options(**given).queryName(checkpoint.name)
    query = stream.trigger(availableNow=True).start()
    # the next may start when this has its processes: Spark gives each of them ten seconds
    wait_until(lambda: bool(query.recentProgress) or not query.isActive, 90)
    return query


def ended(queries: Iterable[StreamingQuery]) -> list[str]:
    """What each stream says when it has ended: nothing, or why it failed."""
    said = []
    for query in queries:
        try:
            assert query.awaitTermination(90)
            said.append("")
        except StreamingQueryException as failure:
            said.append(str(failure))
    return said


def failing_once(sink: str, marker: Path) -> type:
    """A sink whose second commit raises after it took effect; then no more.

    Made in a function so that Spark takes it along by value: its workers know no tests.
    """
    module, _, kind = SOURCES[f"trunkline.{sink}"].partition(":")
    parent = getattr(import_module(module), kind)
    mark = str(marker)

    class Failing(parent):  # type: ignore[misc, valid-type]
        @classmethod
        def name(cls) -> str:
            return f"failing.{sink}"

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802
            made = super().streamWriter(schema, overwrite)
            commit = made.commit

            def late(messages: Any, batchId: int) -> None:  # noqa: N803
                commit(messages, batchId)
                if batchId == 1 and not os.path.exists(mark):  # noqa: PTH110
                    open(mark, "w").close()  # noqa: PTH123
                    raise RuntimeError("the answer got lost")

            made.commit = late
            return made

    return Failing


def test_a_commit_that_took_effect_and_then_failed_is_not_repeated(
    spark: SparkSession,
    dsn: str,
    tl: SyncPlatform,
    numbers: Callable[[int, int], None],
    session: psycopg.Connection[Any],
    tmp_path: Path,
) -> None:
    numbers(0, 700)
    for sink in SINKS:
        spark.dataSource.register(failing_once(sink, tmp_path / f"{sink} failed"))

    def copied() -> list[str]:
        return ended(
            [
                start(
                    stream(spark, dsn),
                    f"failing.{sink}",
                    tmp_path / f"{sink} checkpoint",
                    **options_of(sink, dsn, tmp_path),
                )
                for sink in SINKS
            ]
        )

    assert all("the answer got lost" in failure for failure in copied())
    assert all(250 < len(written(sink, tl, dsn, tmp_path)) < 700 for sink in SINKS)
    assert copied() == [""] * len(SINKS)
    for sink in SINKS:
        assert written(sink, tl, dsn, tmp_path) == list(range(700)), sink
    assert ask(session, LEFT_OVER) == 0


def test_an_app_id_outlives_a_deleted_checkpoint_and_never_hides_other_rows(
    spark: SparkSession,
    dsn: str,
    tl: SyncPlatform,
    numbers: Callable[[int, int], None],
    tmp_path: Path,
) -> None:
    sinks = ("table", "delta")

    def copied(place: Path) -> list[str]:
        return ended(
            [
                start(
                    stream(spark, dsn),
                    f"trunkline.{sink}",
                    place / sink,
                    **options_of(sink, dsn, tmp_path),
                    appId=f"copy to {sink}",
                )
                for sink in sinks
            ]
        )

    numbers(0, 500)
    for place in ("kept", "anew"):
        assert copied(tmp_path / place) == ["", ""]
        for sink in sinks:
            assert written(sink, tl, dsn, tmp_path) == list(range(500)), sink
    numbers(500, 700)  # the last batch is now cut elsewhere: to take it for done would lose rows
    for sink, failure in zip(sinks, copied(tmp_path / "other"), strict=True):
        assert f'of "copy to {sink}" was written before with other rows' in failure
        assert written(sink, tl, dsn, tmp_path) == list(range(500)), sink


def test_new_rows_after_a_lost_checkpoint_are_never_taken_for_old_ones(
    spark: SparkSession,
    dsn: str,
    tl: SyncPlatform,
    numbers: Callable[[int, int], None],
    session: psycopg.Connection[Any],
    tmp_path: Path,
) -> None:
    sinks = ("log", "delta", "iceberg")
    numbers(0, 200)
    ends = session.execute("select partition, last_offset + 1 from trunkline.log_ends('{in}')")
    onward = json.dumps({"in": dict(ends.fetchall())})

    def copied(place: str, app: str, **source: Any) -> list[str]:
        return ended(
            start(
                stream(spark, dsn, 100, **source),
                f"trunkline.{sink}",
                tmp_path / f"{sink} {place}",
                **options_of(sink, dsn, tmp_path),
                appId=f"{app} {sink}",
            )
            for sink in sinks
        )

    assert copied("first", "copy") == [""] * len(sinks)
    numbers(200, 400)
    for sink, failure in zip(sinks, copied("lost", "copy", offsets=onward), strict=True):
        assert "was written before with other rows" in failure, failure
        assert written(sink, tl, dsn, tmp_path) == list(range(200)), sink
    assert copied("anew", "second copy", offsets=onward) == [""] * len(sinks)
    for sink in sinks:
        assert written(sink, tl, dsn, tmp_path) == list(range(400)), sink


def test_a_batch_write_is_repeated_once_and_not_with_other_rows(
    spark: SparkSession,
    dsn: str,
    tl: SyncPlatform,
    session: psycopg.Connection[Any],
    tmp_path: Path,
) -> None:
    tl.log.create("out", partitions=2)
    session.execute("create table out (value text)")

    def write(sink: str, first: int, last: int, partitions: int) -> None:
        name = "payload" if sink == "events" else "value"
        rows = spark.range(first, last, numPartitions=partitions).selectExpr(
            f"string(id) as {name}"
        )
        rows.write.format(f"trunkline.{sink}").mode("append").options(
            **options_of(sink, dsn, tmp_path), appId=f"nightly {sink}"
        ).save()

    for sink in SINKS:
        write(sink, 0, 50, 2)
        write(sink, 0, 50, 1)
        with pytest.raises(PySparkException, match="other rows: 50 rows then, 50 now"):
            write(sink, 50, 100, 2)
        assert written(sink, tl, dsn, tmp_path) == list(range(50)), sink
    assert ask(session, LEFT_OVER) == 0


def test_two_writes_of_a_foreach_batch_under_one_app_id_are_refused(
    spark: SparkSession,
    dsn: str,
    numbers: Callable[[int, int], None],
    session: psycopg.Connection[Any],
    tmp_path: Path,
) -> None:
    numbers(0, 100)

    def save(rows: DataFrame, app: str, batch: int) -> None:
        rows.write.format("trunkline.table").mode("append").options(
            dsn=dsn, dbtable="out", appId=app, batchId=batch
        ).save()

    def halves(second: str) -> Callable[[DataFrame, int], None]:
        def each(rows: DataFrame, batch: int) -> None:
            save(rows.where("int(value) < 50"), "half", batch)
            save(rows.where("int(value) >= 50"), second, batch)

        return each

    def run(second: str, computed: str) -> str:
        rows = stream(spark, dsn).selectExpr(f"{computed} as value")
        query = rows.writeStream.foreachBatch(halves(second))
        query = query.option("checkpointLocation", str(tmp_path / "each"))
        return ended([query.trigger(availableNow=True).start()])[0]

    assert "was written before with other rows: 50 rows then" in run("half", "value")
    assert run("other half", "concat('0', value)") == ""  # another run, with other values
    assert column(session, "select value::int from out order by 1") == list(range(100))
    assert ask(session, "select count(*) from out where length(value) = 3") == 50


def test_of_two_streams_with_one_app_id_one_writes_each_batch(
    spark: SparkSession,
    dsn: str,
    tl: SyncPlatform,
    numbers: Callable[[int, int], None],
    tmp_path: Path,
) -> None:
    sinks = ("table", "iceberg")
    numbers(0, 700)
    queries = [
        start(
            stream(spark, dsn),
            f"trunkline.{sink}",
            tmp_path / f"{sink} {name}",
            **options_of(sink, dsn, tmp_path),
            appId=f"copy to {sink}",
        )
        for sink in sinks
        for name in ("first", "second")
    ]
    assert ended(queries) == [""] * len(queries)
    for sink in sinks:
        assert written(sink, tl, dsn, tmp_path) == list(range(700)), sink


def stumbling(place: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Gives half of the rows and fails; the second time all of them, backwards."""
    mark = str(place / "stumbled")

    def stumble(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        held = list(batches)
        if context.attemptNumber() == 0:
            yield from held[: len(held) // 2 + 1]
            open(f"{mark}-{context.stageId()}", "w").close()  # noqa: PTH123
            raise RuntimeError("stumbled")
        for batch in reversed(held):
            yield batch.take(pa.array(range(batch.num_rows - 1, -1, -1)))

    return stumble


@pytest.fixture
def small_batches(spark: SparkSession) -> Iterator[None]:
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(name)
    spark.conf.set(name, "500")
    yield
    spark.conf.set(name, before)


@pytest.mark.usefixtures("small_batches")
def test_a_task_that_is_tried_again_in_another_order_writes_its_rows_once(
    spark: SparkSession,
    dsn: str,
    tl: SyncPlatform,
    session: psycopg.Connection[Any],
    tmp_path: Path,
) -> None:
    tl.log.create("retried", partitions=2)
    session.execute("create table retried (id bigint)")
    every = list(range(5_000))
    source = spark.range(len(every), numPartitions=2)
    rows = source.mapInArrow(stumbling(tmp_path), source.schema)
    messages = rows.selectExpr("cast(id as string) as value", "cast(id % 7 as string) as key")
    for frame, name, options in (
        (messages, "log", {"dsn": dsn, "topic": "retried"}),
        (rows, "table", {"dsn": dsn, "dbtable": "retried"}),
        (rows.selectExpr("string(id) as payload"), "events", {"dsn": dsn, "topic": "retried"}),
        (rows, "delta", {"path": str(tmp_path / "delta")}),
    ):
        frame.write.format(f"trunkline.{name}").options(**options).mode("append").save()
    assert len(list(tmp_path.glob("stumbled-*"))) == 4
    assert written("log", tl, dsn, tmp_path, "retried") == every
    assert column(session, "select id from retried order by 1") == every
    assert written("events", tl, dsn, tmp_path) == every
    assert written("delta", tl, dsn, tmp_path) == every
    # what Spark killed in the middle could not clean up after itself: that is left to maintenance
    session.execute("update trunkline.spark_staging set created_at = created_at - interval '2 d'")
    session.execute("call trunkline.maintain()")
    assert ask(session, LEFT_OVER) == 0
