"""The sink of ``trunkline.events``: moving without a JVM, writing in a real Spark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType
from tests.broker.steps import events, tick
from tests.fixtures.asking import ask, call, column

from trunkline.core.errors import Invalid, PositionTrimmed, TrunklineError
from trunkline.spark.events_sink import events_stream_writer, events_writer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.fixtures.asking import Session

    from trunkline.spark.sink import BatchSink

LEFT_OVER = "select count(*) from pg_class where relname ~ '^spark_staging_[0-9]+$'"
TEXTS = ("topic", "key", "payload", "metadata")


@pytest.fixture
def session(dsn: str) -> Iterator[Session]:
    with psycopg.connect(dsn, autocommit=True) as opened:
        yield opened


def schema(*names: str, **others: Any) -> StructType:
    kinds = {**dict.fromkeys(names, StringType()), **others}
    return StructType([StructField(name, kind) for name, kind in kinds.items()])


def sink(dsn: str, columns: StructType | None = None, **options: str) -> BatchSink:
    given = {"dsn": dsn, **options}
    return events_writer(given, columns or schema(*TEXTS), overwrite=False)


def write(made: BatchSink, *tasks: list[dict[str, Any]]) -> None:
    """What Spark does, with a task for each list of rows."""
    kinds = pa.schema([(name, pa.string()) for name in tasks[0][0]])
    made.commit(
        [made.write(iter([pa.RecordBatch.from_pylist(rows, schema=kinds)])) for rows in tasks]
    )


def row(payload: Any, topic: str = "order", **more: Any) -> dict[str, Any]:
    given = {"topic": topic, "key": None, "payload": json.dumps(payload), "metadata": None}
    return {**given, **more}


def published(session: Session) -> list[Any]:
    tick(session)
    return [event.payload for event in events(session)]


def test_rows_are_published_in_the_order_of_tasks_and_rows(dsn: str, session: Session) -> None:
    call(session, "broker_topic", topic="order", key_order="locked")
    first = [
        row({"n": 1}, key="a", metadata='{"trace": "t"}'),
        row(None, "visit"),
        row([2], key="a"),
    ]
    many = [row(n, key=str(n)) for n in range(6_000)]
    write(sink(dsn), first, many)
    assert published(session) == [{"n": 1}, None, [2], *range(6_000)]
    one, other, *_ = events(session)
    assert (one.topic, one.key, one.metadata) == ("order", "a", {"trace": "t"})
    assert (other.topic, other.key, other.metadata) == ("visit", None, None)
    assert ask(session, LEFT_OVER) == 0


def test_one_topic_for_all_rows_and_only_a_payload_is_enough(dsn: str, session: Session) -> None:
    write(sink(dsn, schema("payload"), topic="visit"), [{"payload": "1"}, {"payload": "2"}])
    tick(session)
    assert [(event.topic, event.payload) for event in events(session)] == [
        ("visit", 1),
        ("visit", 2),
    ]


def test_a_batch_is_published_once_however_often_it_is_tried(dsn: str, session: Session) -> None:
    made = sink(dsn, appId="load", batchId="7")
    for _ in range(2):
        write(made, [row(1)])
    assert published(session) == [1]
    assert column(session, "select detail ->> 'target' from trunkline.spark_ledger") == ["events"]
    assert ask(session, LEFT_OVER) == 0


def test_a_bad_row_is_told_and_nothing_is_published(dsn: str, session: Session) -> None:
    wrong = [
        ({"payload": "{rubbish"}, "a payload or metadata is not JSON"),
        ({"payload": r'"\u0000"'}, "a payload or metadata is not JSON"),
        ({"payload": None}, "a payload is JSON, got SQL NULL"),
        ({"metadata": "[]"}, "metadata is a JSON object"),
        ({"topic": None}, "an event has a topic, got NULL"),
        ({"key": "x" * 1001}, "a key has up to 1000 bytes"),
    ]
    made = sink(dsn)
    for bad, words in wrong:
        with pytest.raises(TrunklineError, match=words):
            write(made, [row(1)], [{**row(1), **bad}])
    staged = made.write(iter([pa.RecordBatch.from_pylist([{"topic": "order", "payload": "1"}])]))
    session.execute(f"truncate trunkline.spark_staging_{staged.number}")
    with pytest.raises(PositionTrimmed, match="a task staged 1 row, 0 are there"):
        made.commit([staged])
    assert published(session) == []


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (schema("topic", "value"), 'need a column "payload"'),
        (schema("payload"), "neither an option topic nor a column topic"),
        (schema("topic", "payload", "total"), "has no column total"),
        (schema("topic", "payload", subscription=LongType()), "has no column subscription"),
        (schema("topic", "payload", key=IntegerType()), '"key" is int, expected string'),
    ],
)
def test_rows_that_are_no_events_are_refused(dsn: str, columns: StructType, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        sink(dsn, columns)


def test_events_are_not_overwritten(dsn: str) -> None:
    for make in (events_writer, events_stream_writer):
        with pytest.raises(Invalid, match="cannot be overwritten"):
            make({"dsn": dsn}, schema(*TEXTS), overwrite=True)


@pytest.mark.spark
def test_spark_publishes_rows_and_a_stream_of_events_as_other_events(
    spark: SparkSession, dsn: str, session: Session, tmp_path: Path
) -> None:
    frame = spark.range(3).selectExpr(
        "'order' as topic", "to_json(named_struct('n', id)) as payload", "string(id) as key"
    )
    frame.write.format("trunkline.events").option("dsn", dsn).mode("append").save()
    copied = (
        spark.readStream.format("trunkline.events")
        .options(dsn=dsn, subscribe="order", startingOffsets="earliest")
        .option("columns", "position,key,payload,metadata,at")
        .load()
        .writeStream.format("trunkline.events")
        .options(dsn=dsn, topic="copy", checkpointLocation=str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert copied.awaitTermination(60)
    tick(session)
    found = [(event.topic, event.key, event.payload) for event in events(session)]
    assert sorted(found) == sorted(
        (topic, str(n), {"n": n}) for topic in ("order", "copy") for n in range(3)
    )
