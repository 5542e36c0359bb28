"""The sink ``trunkline.log`` in a real Spark: as the Python client would write, and once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from pyspark.sql import types as t
from pyspark.sql.types import StructField, StructType
from tests.fixtures.asking import ask, column

import trunkline
from trunkline.core.errors import Invalid, TrunklineError
from trunkline.spark.log_sink import log_stream_writer, log_writer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from trunkline.platform import SyncPlatform

LEFT_OVER = "select count(*) from pg_class where relname ~ '^spark_staging_[0-9]+$'"


@pytest.fixture
def tl(dsn: str) -> Iterator[SyncPlatform]:
    with trunkline.connect_sync(dsn) as platform:
        yield platform


@pytest.fixture
def session(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(dsn, autocommit=True) as opened:
        yield opened


def write(frame: DataFrame, dsn: str, mode: str = "append", **options: Any) -> None:
    given = {"dsn": dsn} | options
    frame.write.format("trunkline.log").options(**given).mode(mode).save()


def messages(tl: SyncPlatform, topic: str, partition: int = 0) -> list[tuple[Any, ...]]:
    found = tl.log.read(topic, partition, limit=100_000)
    return [(message.key, message.value, message.headers) for message in found]


def refusal(frame: DataFrame, dsn: str, mode: str = "append", **options: Any) -> str:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - Spark's own, of several kinds
        write(frame, dsn, mode, **options)
    return str(caught.value)


def test_rows_go_where_the_python_client_would_put_them(
    spark: SparkSession, dsn: str, tl: SyncPlatform, session: psycopg.Connection[Any]
) -> None:
    for topic in ("by_client", "by_spark"):
        tl.log.create(topic, partitions=3)
    keys = [f"key {number % 50}" for number in range(12_000)]
    values = [f"value {number}" for number in range(12_000)]
    tl.log.append("by_client", values, keys=keys)
    rows = [(key, value, '{"n": 1}') for key, value in zip(keys, values, strict=True)]
    frame = spark.createDataFrame(rows, "key string, value string, headers string").coalesce(1)
    write(frame, dsn, topic="by_spark")
    for partition in range(3):
        expected = [(key, value) for key, value, _ in messages(tl, "by_client", partition)]
        found = messages(tl, "by_spark", partition)
        assert [(key, value) for key, value, _ in found] == expected
        assert all(headers == {"n": 1} for *_, headers in found)
    assert all(check.problem is None for check in tl.log.verify("by_spark"))
    assert ask(session, LEFT_OVER) == 0


def test_rows_name_their_topic_and_partition_and_those_without_a_key_spread(
    spark: SparkSession, dsn: str, tl: SyncPlatform
) -> None:
    for topic in ("a", "b"):
        tl.log.create(topic, partitions=2, codec="zstd")
    rows = [("a", 1, b"1"), ("b", 0, b"2"), ("a", 1, b"3"), ("a", 0, b"4")]
    frame = spark.createDataFrame(rows, "topic string, partition int, value binary").coalesce(1)
    write(frame, dsn)
    assert [value for _, value, _ in messages(tl, "a", 1)] == [b"1", b"3"]
    assert [value for _, value, _ in messages(tl, "a", 0)] == [b"4"]
    assert [value for _, value, _ in messages(tl, "b", 0)] == [b"2"]
    keyless = spark.range(40, numPartitions=2).selectExpr("cast(id as string) as value")
    write(keyless, dsn, topic="b")
    sizes = [len(messages(tl, "b", partition)) for partition in range(2)]
    assert sizes == [1 + 20, 20]


def test_a_tombstone_needs_a_compacted_topic(
    spark: SparkSession, dsn: str, tl: SyncPlatform, session: psycopg.Connection[Any]
) -> None:
    tl.log.create("plain")
    tl.log.create("compacted", compact=True)
    frame = spark.createDataFrame([("k", None)], "key string, value string")
    assert 'topic "plain" is not compacted: a value must not be null' in refusal(
        frame, dsn, topic="plain"
    )
    write(frame, dsn, topic="compacted")
    assert messages(tl, "compacted") == [(b"k", None, None)]
    keyless = spark.createDataFrame([("v",)], "value string")
    assert "every message needs a key" in refusal(keyless, dsn, topic="compacted")
    assert ask(session, LEFT_OVER) == 0


def schema(**columns: t.DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


TEXT, NUMBER = t.StringType(), t.IntegerType()


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        (schema(a=NUMBER), {"topic": "t"}, 'need a column "value", they have: a int'),
        (
            schema(value=NUMBER),
            {"topic": "t"},
            'column "value" is int, expected binary or string',
        ),
        (schema(value=TEXT, partition=TEXT), {"topic": "t"}, 'column "partition" is string'),
        (schema(value=TEXT, amount=NUMBER), {"topic": "t"}, "a message has no column amount"),
        (schema(value=TEXT), {}, "neither an option topic nor a column topic"),
        (schema(value=TEXT), {"topic": "u"}, 'there is no topic "u"'),
        (schema(value=TEXT), {"topc": "t"}, "there is no option topc"),
    ],
)
def test_what_cannot_be_written_is_refused_before_any_task_runs(
    dsn: str, tl: SyncPlatform, columns: StructType, options: dict[str, str], said: str
) -> None:
    tl.log.create("t")
    with pytest.raises(TrunklineError) as caught:
        log_writer({"dsn": dsn} | options, columns, overwrite=False)
    assert said in str(caught.value)


def test_a_topic_is_not_overwritten(dsn: str, tl: SyncPlatform) -> None:
    tl.log.create("t")
    with pytest.raises(Invalid, match="a topic cannot be overwritten"):
        log_stream_writer({"dsn": dsn, "topic": "t"}, schema(value=TEXT), overwrite=True)


def test_a_partition_that_is_not_there_writes_nothing(
    spark: SparkSession, dsn: str, tl: SyncPlatform
) -> None:
    tl.log.create("t", partitions=2)
    frame = spark.createDataFrame([("a", 1), ("b", 2)], "value string, partition int")
    assert 'topic "t" has partitions 0 to 1, asked for 2' in refusal(frame, dsn, topic="t")
    assert messages(tl, "t", 1) == []


def test_a_second_write_under_one_app_id_writes_nothing(
    spark: SparkSession, dsn: str, tl: SyncPlatform, session: psycopg.Connection[Any]
) -> None:
    tl.log.create("t")
    frame = spark.createDataFrame([("v",)], "value string")
    for batch in ("0", "0", "1"):
        write(frame, dsn, topic="t", appId="load", batchId=batch)
    write(frame, dsn, topic="t", appId="load")
    assert len(messages(tl, "t")) == 2
    assert column(session, "select batch from trunkline.spark_ledger order by 1") == [0, 1]
    assert ask(session, LEFT_OVER) == 0


def test_a_stream_copies_a_topic_and_its_readers_are_woken(
    spark: SparkSession, dsn: str, tl: SyncPlatform, tmp_path: Path
) -> None:
    tl.log.create("from", partitions=2)
    tl.log.create("to", partitions=3)
    for first in range(0, 4000, 1000):
        values = [b"%d" % number for number in range(first, first + 1000)]
        tl.log.append("from", values, keys=[b"k%d" % (n % 7) for n in range(1000)])

    def copy() -> None:
        query = (
            spark.readStream.format("trunkline.log")
            .options(dsn=dsn, subscribe="from", startingOffsets="earliest")
            .options(maxOffsetsPerTrigger=1500, columns="key,value")
            .load()
            .writeStream.format("trunkline.log")
            .options(dsn=dsn, topic="to", checkpointLocation=str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(60)

    copy()
    copy()
    found = [m for partition in range(3) for m in messages(tl, "to", partition)]
    assert sorted(int(value) for _, value, _ in found) == list(range(4000))
    with psycopg.connect(dsn) as session:
        ledger = column(session, "select rows from trunkline.spark_ledger order by batch")
    assert sum(ledger) == 4000
    assert len(ledger) >= 3
