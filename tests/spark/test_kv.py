"""The format ``trunkline.kv``: planning and moving without a JVM, reading and writing in Spark."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType
from tests.fixtures.asking import ask
from tests.fixtures.postgres import TERMINATE

import trunkline
from trunkline.core.errors import Forbidden, Invalid, NotFound, PositionTrimmed
from trunkline.spark.kv_rows import Changes, Scan
from trunkline.spark.kv_sink import kv_stream_writer, kv_writer
from trunkline.spark.kv_source import KvPartition, KvSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from trunkline.platform import SyncPlatform
    from trunkline.spark.kv_source import KvReader, KvStreamReader
    from trunkline.spark.sink import BatchSink

LEFT_OVER = "select count(*) from pg_class where relname ~ '^spark_staging_[0-9]+$'"
ROWS = StructType([StructField("key", StringType()), StructField("value", StringType())])


@pytest.fixture
def tl(dsn: str) -> Iterator[SyncPlatform]:
    with trunkline.connect_sync(dsn) as platform:
        yield platform


def reader(tl: SyncPlatform, **options: Any) -> KvReader:
    source = KvSource({"dsn": tl.dsn, **options})
    return source.reader(source.schema())


def stream_reader(tl: SyncPlatform, **options: Any) -> KvStreamReader:
    source = KvSource({"dsn": tl.dsn, **options})
    return source.streamReader(source.schema())


def rows(made: KvReader | KvStreamReader, parts: Any) -> list[dict[str, Any]]:
    """What tasks read, without Spark."""
    return [row for part in parts for batch in made.read(part) for row in batch.to_pylist()]


def read(made: KvReader) -> dict[str, Any]:
    return {row["key"]: json.loads(row["value"]) for row in rows(made, made.partitions())}


# Reading


def test_a_batch_has_every_key_that_lives_with_its_version(tl: SyncPlatform) -> None:
    values = {"a": 1, "b": {"x": [1, None]}, "c": None, "ä": "text"}
    tl.kv.put_many(values)
    tl.kv.put("gone", 1)
    tl.kv.delete("gone")
    tl.kv.patch_numeric("counted", {"n": 2})

    made = reader(tl)

    assert read(made) == {**values, "counted": {"n": 2}}
    found = {row["key"]: row for row in rows(made, made.partitions())}
    (entry,) = tl.kv.get_many(["a"])
    assert found["a"]["version"] == entry.version
    assert found["a"]["expires_at"] is None
    assert {row["position"] for row in found.values()} == {tl.kv.head()}


def test_a_namespace_a_prefix_and_columns_are_chosen(tl: SyncPlatform) -> None:
    tl.kv.namespace_put("sessions")
    tl.kv.put_many({"user/1": 1, "user/2": 2, "other": 3}, namespace="sessions")
    tl.kv.put("user/9", 9)

    made = reader(tl, namespace="sessions", prefix="user/", columns="key")

    assert rows(made, made.partitions()) == [{"key": "user/1"}, {"key": "user/2"}]


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 50])
def test_however_it_is_cut_every_key_comes_once(tl: SyncPlatform, parts: int) -> None:
    names = [f"key {n}" for n in range(20)] + ["ä", "😀", "Z"]
    tl.kv.put_many(dict.fromkeys(names, 1))

    made = reader(tl, minPartitions=str(parts))
    planned = made.partitions()

    assert len(planned) == min(parts, len(names))
    sizes = [len(rows(made, [part])) for part in planned]
    assert max(sizes) - min(sizes) <= 1
    assert [row["key"] for row in rows(made, planned)] == sorted(names, key=str.encode)


def test_a_store_without_keys_is_an_empty_frame(tl: SyncPlatform) -> None:
    made = reader(tl, minPartitions="4")
    assert rows(made, made.partitions()) == []


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"namespace": "nothing"}, NotFound, 'no namespace "nothing"'),
        ({"namespace": ""}, Invalid, "namespace"),
        ({"columns": "vlaue"}, Invalid, "there is no column vlaue"),
        ({"startingOffsets": "latest"}, Invalid, "startingOffsets is not for a batch"),
        ({"minPartitions": "0"}, Invalid, "minPartitions"),
        ({"table": "x"}, Invalid, "there is no option table"),
    ],
)
def test_a_batch_that_makes_no_sense_is_refused(
    tl: SyncPlatform, options: dict[str, str], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        reader(tl, **options).partitions()


def test_the_keys_of_the_parade_are_for_admins(tl: SyncPlatform) -> None:
    made = reader(tl, namespace="parade")
    with psycopg.connect(tl.dsn, autocommit=True) as session:
        session.execute("create role kv_guest login in role trunkline_kv_client")
    try:
        guest = KvSource({"dsn": make_conninfo(tl.dsn, user="kv_guest"), "namespace": "parade"})
        assert rows(made, made.partitions()) == []
        with pytest.raises(Forbidden):
            guest.reader(guest.schema()).partitions()
        allowed = KvSource({"dsn": make_conninfo(tl.dsn, user="kv_guest")})
        tl.kv.put("a", 1)
        assert read(allowed.reader(allowed.schema())) == {"a": 1}
    finally:
        with psycopg.connect(tl.dsn, autocommit=True) as session:
            session.execute("drop role kv_guest")


def test_a_stream_begins_with_all_keys_and_goes_on_with_what_changes(tl: SyncPlatform) -> None:
    tl.kv.put_many({"a": 1, "b": 2})
    made = stream_reader(tl, startingOffsets="earliest", minPartitions="2")
    start = made.initialOffset()
    tl.kv.put("c", 3)
    first = made.latestOffset(start, ReadMaxRows(1))
    copied = made.partitions(start, first)
    assert all(isinstance(part.part, Scan) for part in copied if isinstance(part, KvPartition))
    assert {row["key"] for row in rows(made, copied)} == {"a", "b", "c"}

    tl.kv.put("a", 10)
    tl.kv.delete("b")
    second = made.latestOffset(first, ReadAllAvailable())

    changed = made.partitions(first, second)
    assert all(isinstance(part.part, Changes) for part in changed if isinstance(part, KvPartition))
    assert {row["key"]: row["value"] for row in rows(made, changed)} == {"a": "10", "b": None}
    assert made.partitions(second, second) == []


def test_a_stream_of_a_store_without_keys_begins_all_the_same(tl: SyncPlatform) -> None:
    made = stream_reader(tl, startingOffsets="earliest")
    start = made.initialOffset()
    made.prepareForTriggerAvailableNow()
    first = made.latestOffset(start, ReadAllAvailable())
    assert rows(made, made.partitions(start, first)) == []
    tl.kv.put("a", 1)
    again = stream_reader(tl)
    second = again.latestOffset(first, ReadAllAvailable())
    assert [row["key"] for row in rows(again, again.partitions(first, second))] == ["a"]


def test_a_stream_goes_on_from_its_checkpoint_in_parts(tl: SyncPlatform) -> None:
    made = stream_reader(tl)
    start = made.initialOffset()
    for n in range(5):
        tl.kv.put(f"k{n}", n)
    tl.kv.tick()
    first = made.latestOffset(start, ReadMaxRows(2))
    rest = made.latestOffset(first, ReadAllAvailable())
    assert [row["key"] for row in rows(made, made.partitions(start, first))] == ["k0", "k1"]
    found = rows(made, made.partitions(first, rest))
    assert [row["key"] for row in found] == ["k2", "k3", "k4"]
    assert [row["position"] for row in found] == [3, 4, 5]


def test_a_position_of_another_life_namespace_or_source_is_refused(tl: SyncPlatform) -> None:
    tl.kv.namespace_put("sessions")
    made = stream_reader(tl)
    start = made.initialOffset()
    with pytest.raises(PositionTrimmed, match="noted in life"):
        made.latestOffset({**start, "incarnation": 99}, ReadAllAvailable())
    with pytest.raises(PositionTrimmed, match="ends at"):
        made.latestOffset({**start, "next": start["next"] + 1}, ReadAllAvailable())
    with pytest.raises(Invalid, match="of option namespace sessions, not of default"):
        made.latestOffset({**start, "namespace": "sessions"}, ReadAllAvailable())
    with pytest.raises(Invalid, match="position of another source"):
        made.latestOffset({"version": 1, "group": None, "next": 1}, ReadAllAvailable())


def test_changes_that_have_left_are_told_with_what_to_do(tl: SyncPlatform) -> None:
    made = stream_reader(tl)
    start = made.initialOffset()
    for key in "ab":
        tl.kv.put(key, 1)
        tl.kv.tick()
    end = made.latestOffset(start, ReadAllAvailable())
    with psycopg.connect(tl.dsn, autocommit=True) as session:
        session.execute(
            "delete from trunkline.tick where sequence = 'kv_change' and n > 0"
            " and first_position = 1"
        )
    with pytest.raises(PositionTrimmed, match="has left") as gone:
        rows(made, made.partitions(start, end))
    assert "startingOffsets=earliest" in gone.value.hint


# Writing


def sink(tl: SyncPlatform, schema: StructType = ROWS, **options: Any) -> BatchSink:
    return kv_writer({"dsn": tl.dsn, **options}, schema, overwrite=False)


def write(made: BatchSink, *tasks: Any) -> None:
    """Let tasks write, then the driver commit, without Spark."""
    made.commit([made.write(iter([pa.RecordBatch.from_pylist(task)])) for task in tasks])


def row(key: str | None, value: Any, **more: Any) -> dict[str, Any]:
    return {"key": key, "value": None if value is None else json.dumps(value), **more}


def test_rows_are_put_and_those_without_a_value_delete_their_key(tl: SyncPlatform) -> None:
    tl.kv.put_many({"old": 1, "gone": {"a": 2}})
    tl.kv.patch_numeric("gone", {"n": 1})

    write(
        sink(tl),
        [row("old", {"x": 1}), row("gone", None)],
        [row("new", [1]), {"key": "null", "value": "null"}],
    )

    assert tl.kv.get("old") == {"x": 1}
    assert {entry.key for entry in tl.kv.scan()} == {"old", "new", "null"}
    with psycopg.connect(tl.dsn) as session:
        assert ask(session, LEFT_OVER) == 0


def test_many_rows_are_put_in_parts_and_told_to_others_once_each(tl: SyncPlatform) -> None:
    n = 12_345
    write(sink(tl), [row(f"k{each}", each) for each in range(n)])
    assert len(tl.kv.scan(max_keys=n + 1)) == n
    while tl.kv.tick():
        pass
    assert tl.kv.head() == n


def test_texts_are_kept_as_they_are_if_so_wished(tl: SyncPlatform) -> None:
    write(sink(tl, valueFormat="text"), [{"key": "a", "value": "{not json"}])
    assert tl.kv.get("a") == "{not json"


def test_what_is_written_expires_after_a_ttl_or_by_a_policy(tl: SyncPlatform) -> None:
    tl.kv.namespace_put("sessions")
    tl.kv.policy_put("short", timedelta(hours=1), namespace="sessions")
    write(sink(tl, ttl="8 hours"), [row("a", 1)])
    write(sink(tl, namespace="sessions", policy="short"), [row("b", 1)])
    (by_ttl,) = tl.kv.scan()
    (by_policy,) = tl.kv.scan(namespace="sessions")
    assert by_ttl.expires_at is not None
    assert by_policy.expires_at is not None
    assert by_ttl.expires_at > by_policy.expires_at


def test_rows_without_a_key_are_refused_with_how_to_leave_them_out(tl: SyncPlatform) -> None:
    with pytest.raises(Invalid, match=r"a key is a text, got NULL.*key is not null"):
        write(sink(tl), [row("a", 1), {"key": None, "value": "2"}])
    assert tl.kv.scan() == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"namespace": "nothing"}, 'no namespace "nothing"'),
        ({"namespace": "parade"}, "belongs to the parade"),
        ({"policy": "short"}, 'no policy "short"'),
        ({"ttl": "-1 hour"}, "a ttl is above 0"),
        ({"ttl": "soon"}, "soon"),
        ({"ttl": "1 hour", "policy": "p"}, "got both"),
        ({"valueFormat": "avro"}, "valueFormat"),
        ({"orderBy": "at"}, "the rows have no column at"),
        ({"keys": "key"}, "there is no option keys"),
    ],
)
def test_options_that_make_no_sense_are_refused_before_any_task_runs(
    tl: SyncPlatform, options: dict[str, str], words: str
) -> None:
    with pytest.raises(trunkline.TrunklineError, match=words):
        sink(tl, **options)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"key": StringType()}, "no column value"),
        ({"value": StringType()}, "no column key"),
        ({"key": IntegerType(), "value": StringType()}, '"key" is int, expected string'),
        ({"key": StringType(), "value": ROWS}, r'"value" is struct.* expected string'),
        (
            {"key": StringType(), "value": StringType(), "at": LongType()},
            "a key has no column at",
        ),
    ],
)
def test_rows_that_are_no_keys_and_values_are_refused(
    tl: SyncPlatform, fields: dict[str, Any], words: str
) -> None:
    schema = StructType([StructField(name, kind) for name, kind in fields.items()])
    with pytest.raises(Invalid, match=words):
        sink(tl, schema)


def test_a_namespace_is_not_overwritten(tl: SyncPlatform) -> None:
    for make in (kv_writer, kv_stream_writer):
        with pytest.raises(Invalid, match="cannot be overwritten"):
            make({"dsn": tl.dsn}, ROWS, overwrite=True)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"key": "b", "value": "{rubbish"}, "a value is not JSON"),
        ({"key": "b", "value": r'"\u0000"'}, "a value is not JSON"),
        ({"key": None, "value": "1"}, "a key is a text"),
        ({"key": "", "value": "1"}, "a key is a text"),
        ({"key": "x" * 600, "value": "1"}, "at most 512 bytes"),
        ({"key": "a", "value": "2"}, 'two rows of one batch have the key "a"'),
    ],
)
def test_a_bad_row_is_told_and_nothing_is_written(
    tl: SyncPlatform, bad: dict[str, Any], words: str
) -> None:
    with pytest.raises(trunkline.TrunklineError, match=words):
        write(sink(tl), [row("a", 1)], [bad])
    assert tl.kv.scan() == []


def test_of_a_key_that_comes_twice_the_row_that_is_highest_counts(tl: SyncPlatform) -> None:
    schema = StructType([*ROWS.fields, StructField("task", LongType())])
    made = sink(tl, schema, orderBy="task")
    write(
        made,
        [row("a", "first", task=1), row("b", None, task=9)],
        [row("a", "last", task=3), row("b", 1, task=8)],
        [row("a", "middle", task=2)],
    )
    assert {entry.key: entry.value for entry in tl.kv.scan()} == {"a": "last"}
    with pytest.raises(Invalid, match='have the key "a" with the same task'):
        write(made, [row("a", 1, task=1)], [row("a", 2, task=1)])


def test_a_batch_is_written_once_however_often_it_is_tried(tl: SyncPlatform) -> None:
    made = sink(tl, appId="load", batchId="7")
    write(made, [row("a", 1)])
    tl.kv.put("a", 2)
    write(made, [row("a", 1)])
    assert tl.kv.get("a") == 2


def test_rows_that_were_lost_on_the_way_are_told(tl: SyncPlatform) -> None:
    made = sink(tl)
    staged = made.write(iter([pa.RecordBatch.from_pylist([row("a", 1)])]))
    with psycopg.connect(tl.dsn, autocommit=True) as session:
        session.execute(f"truncate trunkline.spark_staging_{staged.number}")
    with pytest.raises(PositionTrimmed, match="a task staged 1 row, 0 are there"):
        made.commit([staged])
    assert tl.kv.get("a") is None


def test_a_commit_whose_connection_breaks_is_made_again(tl: SyncPlatform) -> None:
    made = sink(tl, appId="load")
    staged = made.write(iter([pa.RecordBatch.from_pylist([row("a", 1)])]))
    with psycopg.connect(make_conninfo(tl.dsn, dbname="postgres"), autocommit=True) as session:
        session.execute(TERMINATE, [conninfo_to_dict(tl.dsn)["dbname"]])
    made.commit([staged])
    assert tl.kv.get("a") == 1


# In a real Spark


@pytest.mark.spark
def test_spark_loads_keys_follows_them_and_writes_them_elsewhere(
    spark: SparkSession, tl: SyncPlatform, tmp_path: Path
) -> None:
    tl.kv.namespace_put("copy")
    frame = spark.range(1000).selectExpr(
        "concat('user/', id) as key", "to_json(named_struct('n', id)) as value"
    )
    frame.write.format("trunkline.kv").option("dsn", tl.dsn).mode("append").save()
    assert tl.kv.get("user/999") == {"n": 999}

    batch = spark.read.format("trunkline.kv").options(dsn=tl.dsn, minPartitions="3").load()
    assert batch.where("get_json_object(value, '$.n') >= 500").count() == 500

    stream = (
        spark.readStream.format("trunkline.kv")
        .options(dsn=tl.dsn, startingOffsets="earliest", prefix="user/")
        .load()
    )
    drained(stream, tl, tmp_path)
    assert len(tl.kv.scan(namespace="copy", max_keys=2000)) == 1000
    tl.kv.delete("user/1")
    tl.kv.put("user/2", "new")
    drained(stream, tl, tmp_path)
    copied = {entry.key: entry.value for entry in tl.kv.scan(namespace="copy", max_keys=2000)}
    assert copied == {entry.key: entry.value for entry in tl.kv.scan(max_keys=2000)}


def drained(frame: DataFrame, tl: SyncPlatform, checkpoint: Path) -> None:
    """Bring what a stream has now into the other namespace."""
    query = (
        frame.writeStream.format("trunkline.kv")
        .options(dsn=tl.dsn, namespace="copy", orderBy="position")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
