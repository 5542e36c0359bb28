"""Which messages of which topics ``trunkline.log`` reads, in the words of Kafka's source."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMinRows

import trunkline
from trunkline.core.errors import Invalid, NotFound, PositionTrimmed
from trunkline.spark import log_reading
from trunkline.spark.log_source import LogSource
from trunkline.testing import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from trunkline.platform import SyncPlatform
    from trunkline.spark.log_source import LogReader
    from trunkline.spark.log_stream import LogStreamReader

NOW = ReadAllAvailable()


@pytest.fixture
def tl(dsn: str) -> Iterator[SyncPlatform]:
    """Two topics of orders with three messages in each partition, and another one."""
    with trunkline.connect_sync(dsn) as platform:
        for topic, partitions in (("orders.eu", 2), ("orders.us", 1), ("visits", 1)):
            platform.log.create(topic, partitions=partitions)
            for partition in range(partitions):
                platform.log.append(topic, [b"x"] * 3, partition=partition)
        yield platform


def reader(tl: SyncPlatform, **options: str) -> LogReader:
    source = LogSource({"dsn": tl.dsn, **options})
    return source.reader(source.schema())


def stream_reader(tl: SyncPlatform, **options: str) -> LogStreamReader:
    source = LogSource({"dsn": tl.dsn, "startingOffsets": "earliest", **options})
    return source.streamReader(source.schema())


def planned(parts: Any) -> dict[str, tuple[int, int]]:
    """By topic and partition, the first and the last offset."""
    return {
        f"{each.topic}:{each.partition}": (each.first, each.last)
        for each in (part.read for part in parts)
    }


def test_a_pattern_is_all_topics_whose_whole_name_fits(tl: SyncPlatform) -> None:
    both = {"orders.eu:0": (1, 3), "orders.eu:1": (1, 3), "orders.us:0": (1, 3)}
    assert planned(reader(tl, subscribePattern=r"orders\..*").partitions()) == both
    with pytest.raises(NotFound, match="no topic fits subscribePattern 'orders'"):
        reader(tl, subscribePattern="orders").partitions()


def test_a_stream_of_a_pattern_takes_in_new_topics_and_tells_of_those_that_are_gone(
    tl: SyncPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_reading, "_LIST_AGAIN", 0.0)
    made = stream_reader(tl, subscribePattern="orders.*", groupId="spark")
    start = made.latestOffset(made.initialOffset(), NOW)
    tl.log.create("orders.asia", partitions=1)
    tl.log.append("orders.asia", [b"new"])
    more = made.latestOffset(start, NOW)
    assert planned(made.partitions(start, more)) == {"orders.asia:0": (1, 1)}
    assert [place.lag for place in tl.log.groups("orders.us", "spark")] == [0]

    tl.log.append("orders.eu", [b"last"], partition=0)
    tl.log.delete("orders.asia")
    with pytest.raises(PositionTrimmed, match=r'"orders.asia" was deleted.*failOnDataLoss'):
        made.latestOffset(more, NOW)
    lenient = stream_reader(tl, subscribePattern="orders.*", failOnDataLoss="false")
    assert planned(lenient.partitions(start, more)) == {}
    rest = lenient.latestOffset(more, NOW)
    assert planned(lenient.partitions(more, rest)) == {"orders.eu:0": (4, 4)}


def test_only_assigned_partitions_are_read(tl: SyncPlatform) -> None:
    assign = json.dumps({"orders.eu": [1], "visits": [0]})
    both = {"orders.eu:1": (1, 3), "visits:0": (1, 3)}
    assert planned(reader(tl, assign=assign).partitions()) == both
    made = stream_reader(tl, assign=assign)
    start = made.initialOffset()
    assert planned(made.partitions(start, made.latestOffset(start, NOW))) == both
    with pytest.raises(NotFound, match='assign names partition 7 of "visits"'):
        reader(tl, assign='{"visits": [7]}').partitions()


def test_every_partition_may_begin_and_end_at_a_time_of_its_own(tl: SyncPlatform) -> None:
    tl.log.append("orders.eu", [b"later"], partition=0)
    at = next(tl.log.read("orders.eu", 0, start=4)).at
    times = {"orders.eu": {"0": at.isoformat(), "1": int((at.timestamp() + 60) * 1000)}}
    given = {"subscribe": "orders.eu,visits"}
    begun = reader(tl, **given, startingOffsetsByTimestamp=json.dumps(times)).partitions()
    assert planned(begun) == {"orders.eu:0": (4, 4), "visits:0": (1, 3)}
    ended = reader(tl, **given, endingOffsetsByTimestamp=json.dumps(times)).partitions()
    assert planned(ended) == {"orders.eu:0": (1, 3), "orders.eu:1": (1, 3), "visits:0": (1, 3)}
    with pytest.raises(NotFound, match="startingOffsetsByTimestamp names partition 9"):
        reader(tl, **given, startingOffsetsByTimestamp='{"visits": {"9": 0}}').partitions()


def test_a_micro_batch_waits_for_enough_messages_but_not_for_ever(tl: SyncPlatform) -> None:
    given = {"subscribe": "visits", "minOffsetsPerTrigger": "4"}
    made = stream_reader(tl, **given, maxOffsetsPerTrigger="4")
    start = made.initialOffset()
    limit = made.getDefaultReadLimit()
    assert limit == ReadMinRows(4)
    assert made.latestOffset(start, limit) == start
    tl.log.append("visits", [b"x"] * 3)
    assert made.latestOffset(start, limit)["next"] == {"visits": {"0": 5}}
    assert made.latestOffset(start, NOW)["next"] == {"visits": {"0": 7}}
    made.prepareForTriggerAvailableNow()
    few = {**start, "next": {"visits": {"0": 6}}}
    assert made.latestOffset(few, limit)["next"] == {"visits": {"0": 7}}
    made.stop()

    impatient = stream_reader(tl, **given, maxTriggerDelay="200ms")

    def reads_on() -> None:
        assert impatient.latestOffset(few, limit)["next"] == {"visits": {"0": 7}}

    wait_until(reads_on)
    impatient.stop()


@pytest.mark.spark
def test_spark_streams_a_pattern_with_a_least_number_of_messages(
    spark: SparkSession, tl: SyncPlatform, tmp_path: Path
) -> None:
    seen: list[Any] = []
    query = (
        spark.readStream.format("trunkline.log")
        .options(dsn=tl.dsn, subscribePattern="orders.*", startingOffsets="earliest")
        .options(minOffsetsPerTrigger="100", maxTriggerDelay="1h", columns="topic,offset")
        .load()
        .writeStream.foreachBatch(lambda rows, _batch: seen.extend(rows.collect()))
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    assert sorted(row.topic for row in seen) == ["orders.eu"] * 6 + ["orders.us"] * 3


def test_a_topic_that_is_added_to_a_checkpoint_begins_with_its_earliest_message(
    tl: SyncPlatform,
) -> None:
    start = stream_reader(tl, subscribe="orders.us").initialOffset()
    tl.log.trim("visits", 0, 3)
    tl.log.append("visits", [b"new"])
    more = stream_reader(tl, subscribe="orders.us,visits")
    end = more.latestOffset(start, NOW)
    assert planned(more.partitions(start, end)) == {"orders.us:0": (1, 3), "visits:0": (3, 4)}


def test_a_new_partition_whose_beginning_has_left_is_lost_and_not_passed_over(
    tl: SyncPlatform,
) -> None:
    made = stream_reader(tl, subscribe="orders.us")
    start = made.initialOffset()
    tl.log.alter("orders.us", partitions=2)
    tl.log.append("orders.us", [b"lost", b"kept"], partition=1)
    tl.log.trim("orders.us", 1, 2)
    with pytest.raises(PositionTrimmed, match="has offsets 2 to 2, asked for 1 to 2"):
        made.partitions(start, made.latestOffset(start, NOW))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"subscribe": "orders.us,visits"}, {"subscribe": "orders.us"}),
        ({"subscribe": "visits"}, {"subscribe": "orders.us"}),
        ({"subscribePattern": ".*"}, {"subscribePattern": "orders.*"}),
        ({"assign": '{"orders.eu": [0, 1]}'}, {"assign": '{"orders.eu": [0]}'}),
    ],
)
def test_a_checkpoint_of_a_topic_that_is_left_out_is_refused(
    tl: SyncPlatform, before: dict[str, str], after: dict[str, str]
) -> None:
    start = stream_reader(tl, **before).initialOffset()
    with pytest.raises(Invalid, match=r"the checkpoint reads (visits|orders\.eu), which the opt"):
        stream_reader(tl, **after).latestOffset(start, NOW)
    stream_reader(tl, **after, failOnDataLoss="false").latestOffset(start, NOW)


def test_a_topic_that_was_deleted_may_be_left_out_of_the_next_start(tl: SyncPlatform) -> None:
    start = stream_reader(tl, subscribe="orders.us,visits").initialOffset()
    tl.log.delete("visits")
    made = stream_reader(tl, subscribe="orders.us")
    end = made.latestOffset(start, NOW)
    assert planned(made.partitions(start, end)) == {"orders.us:0": (1, 3)}


def test_a_checkpoint_of_a_server_that_was_restored_says_where_to_begin(tl: SyncPlatform) -> None:
    made = stream_reader(tl, subscribe="orders.us")
    end = made.latestOffset(made.initialOffset(), NOW)
    beyond = {**end, "next": {"orders.us": {"0": 9}}}
    with pytest.raises(PositionTrimmed, match="the checkpoint goes on at 9") as refused:
        made.latestOffset(beyond, NOW)
    assert 'startingOffsets {"orders.us": {"0": 4}}' in refused.value.hint
    assert "new appId" in refused.value.hint


def test_an_offset_of_nought_is_refused(tl: SyncPlatform) -> None:
    with pytest.raises(Invalid, match="Offsets start at 1"):
        reader(tl, subscribe="orders.us", startingOffsets='{"orders.us": {"0": 0}}').partitions()
