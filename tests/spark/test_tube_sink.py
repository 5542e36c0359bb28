"""The sink of ``trunkline.tube``: touching without a JVM, and in a real Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType
from tests.fixtures.asking import ask, call, column

from trunkline.core.errors import Invalid, NotFound, TrunklineError
from trunkline.spark.tube_sink import tube_stream_writer, tube_writer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from tests.fixtures.asking import Session

    from trunkline.spark.sink import BatchSink

KEYS = StructType([StructField("key", StringType())])
LEFT_OVER = "select count(*) from pg_class where relname ~ '^spark_staging_[0-9]+$'"
TOUCHED = (
    "select key from trunkline.tube_entry e cross join unnest(e.keys) key"
    " where e.op = 'T' and e.priority = 0 order by key"
)


@pytest.fixture
def session(dsn: str) -> Iterator[Session]:
    """A tube with a table."""
    with psycopg.connect(dsn, autocommit=True) as opened:
        opened.execute("create table orders (id bigint primary key)")
        call(opened, "tube_ensure", tube="lake")
        call(opened, "tube_attach", tube="lake", relation="orders", shard="0")
        yield opened


def sink(dsn: str, **options: str) -> BatchSink:
    given = {"dsn": dsn, "tube": "lake", "relation": "orders", **options}
    return tube_writer(given, KEYS, overwrite=False)


def write(made: BatchSink, *tasks: list[str | None]) -> None:
    """What Spark does, with a task for each list of keys."""
    kinds = pa.schema([("key", pa.string())])
    made.commit(
        [made.write(iter([pa.RecordBatch.from_pydict({"key": keys}, kinds)])) for keys in tasks]
    )


def test_keys_are_touched_once_each_in_the_form_of_the_table(dsn: str, session: Session) -> None:
    made = sink(dsn, appId="repair")
    for _ in range(2):
        write(made, ["1", "02"], ["2", "1", "3"])
    assert column(session, TOUCHED) == ["1", "2", "3"]
    assert ask(session, LEFT_OVER) == 0


def test_many_keys_go_behind_what_changes_and_keys_without_a_table_to_a_shard(
    dsn: str, session: Session
) -> None:
    many = [f"{n:05}" for n in range(25_000)]
    given = {"dsn": dsn, "tube": "lake", "shard": "3", "priority": "backfill"}
    write(tube_writer(given, KEYS, overwrite=False), list(many))
    touched = (
        "select key from trunkline.tube_entry e cross join unnest(e.keys) key"
        " where e.priority = 1 and e.shard = 3 and e.attachment is null order by key"
    )
    assert column(session, touched) == many


def test_a_bad_key_is_told_and_nothing_is_touched(dsn: str, session: Session) -> None:
    for bad, words in (("x", "this is no key of table"), (None, "a key is a text, got NULL")):
        with pytest.raises(TrunklineError, match=words):
            write(sink(dsn), ["1"], [bad])
    assert column(session, TOUCHED) == []


def test_what_makes_no_sense_is_refused_before_any_task_runs(dsn: str, session: Session) -> None:
    session.execute("create table visits (id bigint primary key, place int)")
    for options, words in (
        ({"relation": "nothing"}, 'table "nothing" is not attached to tube "lake"'),
        ({"tube": "nothing"}, 'is not attached to tube "nothing"'),
    ):
        with pytest.raises(NotFound, match=words):
            sink(dsn, **options)
    with pytest.raises(NotFound, match='no tube "nothing"'):
        tube_writer({"dsn": dsn, "tube": "nothing", "shard": "0"}, KEYS, overwrite=False)
    with pytest.raises(Invalid, match="neither an option relation nor an option shard"):
        tube_writer({"dsn": dsn, "tube": "lake"}, KEYS, overwrite=False)
    call(session, "tube_attach", tube="lake", relation="visits", shard="place % 4")
    with pytest.raises(Invalid, match='table "visits" has an expression for its shard'):
        sink(dsn, relation="visits")
    sink(dsn, relation="visits", shard="3")
    with pytest.raises(Invalid, match="priority"):
        sink(dsn, priority="high")
    for wrong in (
        StructType([StructField("key", LongType())]),
        StructType([*KEYS.fields, StructField("payload", StringType())]),
    ):
        with pytest.raises(Invalid, match='one column, "key" string'):
            tube_writer({"dsn": dsn, "tube": "lake", "shard": "0"}, wrong, overwrite=False)
    for make in (tube_writer, tube_stream_writer):
        with pytest.raises(Invalid, match="cannot be overwritten"):
            make({"dsn": dsn, "tube": "lake", "shard": "0"}, KEYS, overwrite=True)


@pytest.mark.spark
def test_spark_touches_keys(spark: SparkSession, dsn: str, session: Session) -> None:
    keys = spark.range(3).selectExpr("string(id) as key")
    keys.write.format("trunkline.tube").options(dsn=dsn, tube="lake", relation="orders").mode(
        "append"
    ).save()
    assert column(session, TOUCHED) == ["0", "1", "2"]
