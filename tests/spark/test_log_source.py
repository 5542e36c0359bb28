"""The format ``trunkline.log`` in a real Spark."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

import trunkline
from trunkline.core.errors import Invalid, PositionTrimmed
from trunkline.spark import register
from trunkline.spark.log_source import LogSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from trunkline.platform import SyncPlatform


@pytest.fixture
def tl(dsn: str) -> Iterator[SyncPlatform]:
    with trunkline.connect_sync(dsn) as platform:
        yield platform


@pytest.fixture
def orders(tl: SyncPlatform) -> list[bytes]:
    """A topic of two partitions, one of them compressed by its writer, with keys and headers."""
    tl.log.create("orders", partitions=2, codec="zstd")
    values = [b"value %d" % number for number in range(1000)]
    for first in range(0, 1000, 250):
        part = values[first : first + 250]
        tl.log.append("orders", part, keys=[b"key %d" % (n % 20) for n in range(250)])
    return values


def reading(spark: SparkSession, dsn: str, /, **options: Any) -> DataFrame:
    given = {"dsn": dsn, "subscribe": "orders"} | options
    return spark.read.format("trunkline.log").options(**given).load()


def streaming(spark: SparkSession, dsn: str, /, **options: Any) -> DataFrame:
    given = {"dsn": dsn, "subscribe": "orders"} | options
    return spark.readStream.format("trunkline.log").options(**given).load()


def drained(frame: DataFrame, checkpoint: Path, into: list[Any]) -> None:
    """Run a stream until it has read what is there now; rows end up in a list."""
    query = (
        frame.writeStream.foreachBatch(lambda rows, _batch: into.extend(rows.collect()))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)


def test_a_batch_reads_every_message_with_its_key_offset_and_time(
    spark: SparkSession, dsn: str, orders: list[bytes], tl: SyncPlatform
) -> None:
    rows = reading(spark, dsn).collect()
    assert sorted(bytes(row.value) for row in rows) == sorted(orders)
    by_place = {(row.partition, row.offset): row for row in rows}
    assert len(by_place) == len(orders)
    for message in tl.log.read("orders", 1, limit=2000):
        row = by_place[1, message.offset]
        assert (bytes(row.key), bytes(row.value)) == (message.key, message.value)
        assert row.topic == "orders"


def test_offsets_bound_a_batch_and_min_partitions_cuts_it(
    spark: SparkSession, dsn: str, orders: list[bytes]
) -> None:
    assert orders
    frame = reading(
        spark,
        dsn,
        startingOffsets=json.dumps({"orders": {"0": 11, "1": -1}}),
        endingOffsets=json.dumps({"orders": {"0": 31}}),
        minPartitions=4,
        columns="offset",
    )
    assert frame.rdd.getNumPartitions() >= 4
    assert sorted(row.offset for row in frame.collect()) == list(range(11, 31))


@pytest.mark.parametrize("pushed", ["true", "false"])
def test_filters_give_the_same_rows_with_and_without_push_down(
    spark: SparkSession, dsn: str, orders: list[bytes], pushed: str
) -> None:
    assert orders
    spark.conf.set("spark.sql.python.filterPushdown.enabled", pushed)
    try:
        frame = reading(spark, dsn).where("partition = 1 and offset > 5 and offset <= 9")
        assert sorted(row.offset for row in frame.collect()) == [6, 7, 8, 9]
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


def test_a_stream_reads_on_from_its_checkpoint_and_notices_new_partitions(
    spark: SparkSession, dsn: str, orders: list[bytes], tl: SyncPlatform, tmp_path: Path
) -> None:
    seen: list[Any] = []
    frame = streaming(
        spark, dsn, startingOffsets="earliest", maxOffsetsPerTrigger=300, groupId="spark"
    )
    drained(frame, tmp_path / "checkpoint", seen)
    assert len(seen) == len(orders)
    assert [place.lag for place in tl.log.groups("orders", "spark")] == [0, 0]
    tl.log.alter("orders", partitions=3)
    for partition in range(3):
        tl.log.append("orders", [b"late"], partition=partition)
    drained(frame, tmp_path / "checkpoint", seen)
    assert [bytes(row.value) for row in seen[len(orders) :]] == [b"late"] * 3
    assert len({(row.partition, row.offset) for row in seen}) == len(orders) + 3


def test_a_stream_whose_offsets_left_with_retention_fails_or_goes_on_as_it_was_told(
    spark: SparkSession, dsn: str, tl: SyncPlatform, tmp_path: Path
) -> None:
    tl.log.create("orders", partitions=1)
    tl.log.append("orders", [b"first"])
    seen: list[Any] = []
    drained(streaming(spark, dsn, startingOffsets="earliest"), tmp_path / "checkpoint", seen)
    tl.log.append("orders", [b"lost"] * 5)
    tl.log.append("orders", [b"kept"] * 5)
    tl.log.trim("orders", 0, 7)
    with pytest.raises(Exception, match="has offsets 7 to 11, asked for 2 to 11"):
        drained(streaming(spark, dsn), tmp_path / "checkpoint", seen)
    drained(streaming(spark, dsn, failOnDataLoss="false"), tmp_path / "checkpoint", seen)
    assert [bytes(row.value) for row in seen] == [b"first", *[b"kept"] * 5]


def test_a_topic_that_was_made_anew_is_not_skipped_up_to_the_checkpoint(
    dsn: str, tl: SyncPlatform, orders: list[bytes]
) -> None:
    assert orders
    given = {"dsn": dsn, "subscribe": "orders", "startingOffsets": "latest"}
    source = LogSource(given)
    strict = source.streamReader(source.schema())
    start = strict.initialOffset()
    tl.log.delete("orders")
    tl.log.create("orders", partitions=2)
    tl.log.append("orders", [b"new"] * 3, partition=0)
    with pytest.raises(PositionTrimmed, match="made again"):
        strict.latestOffset(start, ReadAllAvailable())
    strict.stop()
    source = LogSource({**given, "failOnDataLoss": "false", "groupId": "spark"})
    lenient = source.streamReader(source.schema())
    end = lenient.latestOffset(start, ReadAllAvailable())
    parts = lenient.partitions(start, end)
    lenient.commit(start)  # as Spark does for the batch before, once the next is planned
    assert [place.up_to for place in tl.log.groups("orders", "spark")] == [0, 0]
    lenient.commit(end)
    lenient.stop()
    assert [(part.read.first, part.read.last) for part in parts] == [(1, 3)]  # type: ignore[attr-defined]
    assert [place.up_to for place in tl.log.groups("orders", "spark")] == [3, 0]


def test_a_topic_that_was_made_anew_and_filled_is_not_read_from_the_place_of_the_old_one(
    dsn: str, tl: SyncPlatform
) -> None:
    tl.log.create("orders", partitions=1)
    tl.log.append("orders", [b"old"] * 3)
    given = {"dsn": dsn, "subscribe": "orders", "startingOffsets": "earliest", "groupId": "spark"}
    source = LogSource(given)
    strict = source.streamReader(source.schema())
    begin = strict.initialOffset()
    old = strict.latestOffset(begin, ReadAllAvailable())
    tl.log.delete("orders")
    tl.log.create("orders", partitions=1)
    tl.log.append("orders", [b"new"] * 5)
    for planning in (
        lambda: strict.latestOffset(old, ReadAllAvailable()),
        lambda: strict.partitions(begin, old),
        lambda: strict.partitions(old, old),
    ):
        with pytest.raises(PositionTrimmed, match=r'"orders" was deleted.*failOnDataLoss=false'):
            planning()
    strict.stop()
    source = LogSource({**given, "failOnDataLoss": "false"})
    lenient = source.streamReader(source.schema())
    assert lenient.partitions(begin, old) == []  # planned before, and to be run again
    end = lenient.latestOffset(old, ReadAllAvailable())
    lenient.commit(old)
    assert [place.up_to for place in tl.log.groups("orders", "spark")] == [0]
    parts = lenient.partitions(old, end)
    lenient.stop()
    assert [(part.read.first, part.read.last) for part in parts] == [(1, 5)]  # type: ignore[attr-defined]


def test_a_checkpoint_of_another_history_is_refused_with_the_cut(
    spark: SparkSession, dsn: str, tl: SyncPlatform, tmp_path: Path
) -> None:
    tl.log.create("orders", partitions=1)
    tl.log.append("orders", [b"a"] * 10)
    seen: list[Any] = []
    drained(streaming(spark, dsn, startingOffsets="earliest"), tmp_path / "checkpoint", seen)
    written = tmp_path / "checkpoint" / "offsets" / "0"
    text = written.read_text()
    noted = json.loads(text.splitlines()[-1])
    text = text.replace(f'"incarnation": {noted["incarnation"]}', '"incarnation": 999')
    written.write_text(text)
    for checksum in (tmp_path / "checkpoint" / "offsets").glob(".*crc"):
        checksum.unlink()
    tl.log.append("orders", [b"b"])
    with pytest.raises(Exception, match="noted in life 999"):
        drained(streaming(spark, dsn), tmp_path / "checkpoint", seen)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subscribe": "nothing"}, 'there is no topic "nothing"'),
        ({"startingOffsets": "{]"}, "neither earliest, latest nor offsets in JSON"),
        ({"endingOffsets": '{"orders": {"0": -2}}'}, "is -2, expected a number"),
        ({"startingOffsets": '{"orders": {"7": 1}}'}, "names partition 7"),
        ({"startingOffsets": '{"orders": {"0": 9}}', "endingOffsets": '{"orders": {"0": 3}}'},
         "after its end 3"),
        ({"endingOffsets": '{"orders": {"0": 999999}}'},
         "asked for 1 to 999998"),
        ({"dsn": "postgresql://u:pa55word@127.0.0.1:1/nowhere"}, "Connection refused"),
        ({"subscrib": "orders"}, "Options are:"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_one_readable_error_without_a_password(
    spark: SparkSession, dsn: str, orders: list[bytes], options: dict[str, str], said: str
) -> None:
    assert orders
    with pytest.raises(Exception, match=said) as refused:
        reading(spark, dsn, **options).count()
    assert "pa55word" not in str(refused.value)
    assert len(str(refused.value).splitlines()) < 40


def test_a_schema_that_a_topic_does_not_have_is_refused(
    spark: SparkSession, dsn: str, orders: list[bytes]
) -> None:
    assert orders
    with pytest.raises(Exception, match="no column value of type string"):
        (
            spark.read.format("trunkline.log")
            .schema("value string")
            .option("dsn", dsn)
            .option("subscribe", "orders")
            .load()
            .count()
        )


def test_a_time_starts_a_read(spark: SparkSession, dsn: str, tl: SyncPlatform) -> None:
    tl.log.create("orders")
    tl.log.append("orders", [b"old"])
    tl.log.append("orders", [b"new"])
    at = next(tl.log.read("orders", start=2)).at
    rows = reading(spark, dsn, startingTimestamp=at.isoformat()).collect()
    assert [bytes(row.value) for row in rows] == [b"new"]
    later = (at + timedelta(hours=1)).isoformat()
    assert reading(spark, dsn, startingTimestamp=later).count() == 0


def test_formats_may_be_registered_again_and_in_a_new_session(
    spark: SparkSession, dsn: str, orders: list[bytes]
) -> None:
    assert reading(spark, dsn).count() == len(orders)
    for session in (spark, spark.newSession()):
        assert reading(register(register(session)), dsn).count() == len(orders)


def test_our_formats_need_no_registration(spark: SparkSession) -> None:
    from pyspark_trunkline_log import DefaultSource

    assert DefaultSource.name() == "trunkline.log"
    with pytest.raises(Invalid):
        DefaultSource({}).schema()
    assert spark.version.startswith("4.3")
