"""The format ``trunkline.events``: planning without a JVM, reading in a real Spark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.types.json import Jsonb
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from tests.broker.groups import match, subscribe
from tests.fixtures.asking import ask, call, called
from tests.fixtures.postgres import new_database

from trunkline.core.errors import Conflict, Invalid, NotFound, PositionTrimmed, Unavailable
from trunkline.spark import events_group
from trunkline.spark.events_source import EventsPartition, EventsSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from tests.fixtures.postgres import AnyServer

    from trunkline.spark.events_source import EventsReader, EventsStreamReader

Session = psycopg.Connection[Any]


@pytest.fixture(scope="module")
def shared_dsn(server: AnyServer, template: str) -> Iterator[str]:
    """A database with five events, two of them orders, which a group wants."""
    with new_database(server, template=template) as name:
        dsn = server.dsn(name)
        with psycopg.connect(dsn, autocommit=True) as session:
            publish(session, "order", {"total": 5}, key="alice", metadata={"trace": "abc"})
            publish(session, "visit", [1, 2])
            publish(session, "visit", None)
            publish(session, "order", "text", key="bob")
            publish(session, "payment", 12.5)
            session.execute("select trunkline.broker_tick()")
            deliver(session, "billing", [1, 4], subscription=7)
        yield dsn


def deliver(session: Session, group: str, positions: list[int], *, subscription: int) -> None:
    """Leave what the matcher leaves when a subscription wants these events."""
    session.execute("select trunkline.broker_group(%s, 1)", [group])
    session.execute(
        "insert into trunkline.delivery"
        " (slot, group_id, lane, first, n, lowest, positions, subscriptions, at)"
        " select trunkline._ring_current('delivery'), g.group_id, 0, 1, %(n)s, 1, %(positions)s,"
        " array_fill(%(subscription)s::bigint, array[%(n)s]), now()"
        " from trunkline.broker_group g where g.group_name = %(group)s",
        {
            "n": len(positions),
            "positions": positions,
            "subscription": subscription,
            "group": group,
        },
    )
    session.execute(
        "select trunkline._cursor_write(k.cursor_id, 5, jsonb_build_object('deliveries', %s::int))"
        " from trunkline.cursor_key k where k.resource = 'broker:matcher'",
        [len(positions)],
    )


def publish(session: Session, topic: str, payload: Any, **more: Any) -> None:
    columns = {"topic": topic, "payload": Jsonb(payload), **more}
    if "metadata" in columns:
        columns["metadata"] = Jsonb(columns["metadata"])
    session.execute(
        f"insert into trunkline.event ({', '.join(columns)})"
        f" values ({', '.join(['%s'] * len(columns))})",
        list(columns.values()),
    )


def reader(dsn: str, **options: Any) -> EventsReader:
    source = EventsSource({"dsn": dsn, **options})
    return source.reader(source.schema())


def stream_reader(dsn: str, **options: Any) -> EventsStreamReader:
    source = EventsSource({"dsn": dsn, **options})
    return source.streamReader(source.schema())


def read(made: EventsReader) -> list[dict[str, Any]]:
    """What the tasks of a batch read, without Spark."""
    parts = made.partitions()
    return [row for part in parts for batch in made.read(part) for row in batch.to_pylist()]


def bounds(parts: Any) -> list[tuple[int, int]]:
    assert all(isinstance(part, EventsPartition) for part in parts)
    return [(part.part.first, part.part.last) for part in parts]


def test_a_batch_has_every_event_in_order_with_payload_and_metadata_as_json(
    shared_dsn: str,
) -> None:
    rows = read(reader(shared_dsn))
    assert [row["position"] for row in rows] == [1, 2, 3, 4, 5]
    assert [row["topic"] for row in rows] == ["order", "visit", "visit", "order", "payment"]
    payloads = [json.loads(row["payload"]) for row in rows]
    assert payloads == [{"total": 5}, [1, 2], None, "text", 12.5]
    assert json.loads(rows[0]["metadata"]) == {"trace": "abc"}
    assert [row["key"] for row in rows[:2]] == ["alice", None]
    assert len({row["event_id"] for row in rows}) == 5


def test_topics_positions_and_columns_are_chosen(shared_dsn: str) -> None:
    chosen = {"subscribe": "order, payment", "columns": "position,topic"}
    assert read(reader(shared_dsn, startingOffsets="2", endingOffsets="5", **chosen)) == [
        {"position": 4, "topic": "order"}
    ]
    assert bounds(reader(shared_dsn, minPartitions="2").partitions()) == [(1, 2), (3, 5)]
    assert reader(shared_dsn, startingOffsets="latest").partitions() == []


def test_the_deliveries_of_a_group_come_with_their_number_and_subscription(
    shared_dsn: str,
) -> None:
    rows = read(reader(shared_dsn, group="billing"))
    assert sorted(row["position"] for row in rows) == [1, 4]
    assert [row["delivery"] for row in rows] == [1, 2]
    assert {row["topic"] for row in rows} == {"order"}
    assert {row["subscription"] for row in rows} == {7}
    rest = read(reader(shared_dsn, group="billing", startingOffsets="2"))
    assert [row["delivery"] for row in rest] == [2]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscribe": " , "}, "subscribe is empty"),
        ({"columns": "delivery"}, "there is no column delivery"),
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        ({"endingOffsets": "-2"}, "endingOffsets cannot be earliest"),
        ({"startingOffsets": "soon"}, "neither earliest, latest nor a position"),
        ({"startingOffsets": ""}, "option startingOffsets: string should have"),
        ({"endingOffsets": ""}, "option endingOffsets: string should have"),
        ({"startingOffsets": "99"}, "the last position is 5"),
        ({"startingOffsets": "3", "endingOffsets": "2"}, "after its end"),
        ({"maxEventsPerTrigger": "5"}, "not for a batch"),
        ({"groupId": "lake"}, "groupId is not for a batch"),
        ({"groupId": "lake", "group": "billing"}, "contradict each other"),
        ({"groupId": "lake", "startingOffsets": "3"}, "earliest or latest"),
        ({"topics": "order"}, "there is no option topics"),
    ],
)
def test_a_batch_that_makes_no_sense_is_refused(
    shared_dsn: str, options: dict[str, str], words: str
) -> None:
    with pytest.raises(Invalid, match=words):
        reader(shared_dsn, **options).partitions()


def test_a_group_that_is_not_there_is_named(shared_dsn: str) -> None:
    with pytest.raises(NotFound, match='there is no group "nobody"'):
        reader(shared_dsn, group="nobody").partitions()


def test_a_stream_goes_on_from_its_checkpoint_in_parts(shared_dsn: str) -> None:
    made = stream_reader(shared_dsn, startingOffsets="earliest")
    start = made.initialOffset()
    made.prepareForTriggerAvailableNow()
    first = made.latestOffset(start, ReadMaxRows(2))
    rest = made.latestOffset(first, ReadAllAvailable())
    assert bounds(made.partitions(start, first)) == [(1, 2)]
    assert bounds(made.partitions(first, rest)) == [(3, 5)]
    assert made.latestOffset(rest, ReadAllAvailable()) == rest
    assert made.partitions(rest, rest) == []
    again = stream_reader(shared_dsn, startingOffsets="latest", minPartitions="1")
    assert bounds(again.partitions(start, first)) == [(1, 2)]


def test_a_position_of_another_life_group_or_source_is_refused(shared_dsn: str) -> None:
    made = stream_reader(shared_dsn)
    start = made.initialOffset()
    other_life = {**start, "incarnation": start["incarnation"] + 1}
    with pytest.raises(PositionTrimmed, match="noted in life"):
        made.latestOffset(other_life, ReadAllAvailable())
    with pytest.raises(PositionTrimmed, match="ends at"):
        made.latestOffset({**start, "next": start["next"] + 1}, ReadAllAvailable())
    with pytest.raises(Invalid, match="of option group billing, not of none"):
        made.latestOffset({**start, "group": "billing"}, ReadAllAvailable())
    with pytest.raises(Invalid, match="position of another source"):
        made.latestOffset({"version": 1, "position": 4}, ReadAllAvailable())


def test_events_that_have_left_stop_a_reader_unless_it_may_go_on(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as session:
        for number in range(3):
            publish(session, "order", number)
        session.execute("select trunkline.broker_tick()")
        session.execute("truncate trunkline.event")
        publish(session, "order", 3)
    with pytest.raises(PositionTrimmed, match=r"have left.*failOnDataLoss"):
        read(reader(dsn, startingOffsets="1"))
    assert [row["payload"] for row in read(reader(dsn, startingOffsets="4"))] == ["3"]
    assert read(reader(dsn, startingOffsets="1", endingOffsets="4", failOnDataLoss="false")) == []


# A stream with a group of its own


@pytest.fixture
def session(dsn: str) -> Iterator[Session]:
    with psycopg.connect(dsn, autocommit=True) as opened:
        yield opened


def waiting(session: Session, group: str = "lake") -> int:
    return sum(row["waiting"] for row in called(session, "broker_lag", group_name=group))


def payloads(made: EventsStreamReader, start: Any, end: Any) -> list[Any]:
    rows = [
        row
        for part in made.partitions(start, end)
        for batch in made.read(part)
        for row in batch.to_pylist()
    ]
    return [json.loads(row["payload"]) for row in rows]


def test_what_a_stream_has_not_read_is_kept_for_its_group_and_shows_as_its_lag(
    dsn: str, session: Session
) -> None:
    publish(session, "order", 1)
    match(session)
    made = stream_reader(dsn, groupId="lake", subscribe="order", startingOffsets="earliest")
    start = made.initialOffset()
    for name, value in (("maintain.settle", "0"), ("broker.retention", "0")):
        call(session, "config_set", name=name, value=value)
    session.execute("update trunkline.config set value = '1ms' where name ~ '^ring.*rotate_every'")
    publish(session, "visit", "not wanted")
    publish(session, "order", 2)
    match(session)
    for _ in range(3):
        session.execute("call trunkline.maintain()")

    first = made.latestOffset(start, ReadAllAvailable())
    assert payloads(made, start, first) == [1, 2]
    assert waiting(session) == 2

    publish(session, "order", 3)
    match(session)
    again = stream_reader(dsn, groupId="lake", subscribe="order")
    assert payloads(again, start, first) == [1, 2]
    rest = again.latestOffset(first, ReadAllAvailable())
    assert waiting(session) == 1
    assert payloads(again, first, rest) == [3]
    again.prepareForTriggerAvailableNow()
    assert again.latestOffset(rest, ReadAllAvailable()) == rest
    for _ in range(3):
        session.execute("call trunkline.maintain()")
    assert ask(session, "select count(*) from trunkline.event") == 0


def test_a_stream_that_goes_on_with_other_topics_misses_none_of_them(
    dsn: str, session: Session
) -> None:
    made = stream_reader(dsn, groupId="lake", subscribe="order")
    start = made.initialOffset()
    publish(session, "order", 1)
    match(session)
    publish(session, "visit", 2)
    more = stream_reader(dsn, groupId="lake", subscribe="order,visit")
    more.latestOffset(start, ReadAllAvailable())
    publish(session, "order", 3)
    match(session)
    assert payloads(more, start, more.latestOffset(start, ReadAllAvailable())) == [1, 2, 3]
    assert ask(session, "select count(*) from trunkline.broker_subscription") == 1


def test_a_stream_that_goes_on_with_other_topics_misses_nothing_of_a_history_it_has_begun(
    dsn: str, session: Session
) -> None:
    for number in range(3):
        publish(session, "order", number)
    match(session)
    made = stream_reader(dsn, groupId="lake", subscribe="order", startingOffsets="earliest")
    start = made.initialOffset()
    more = stream_reader(dsn, groupId="lake", subscribe="order,visit")
    more.latestOffset(start, ReadAllAvailable())
    match(session)
    assert payloads(more, start, more.latestOffset(start, ReadAllAvailable())) == [0, 1, 2]
    more.stop()


def test_a_group_of_others_one_that_is_gone_and_one_that_was_made_anew_are_refused(
    dsn: str, session: Session
) -> None:
    subscribe(session, "billing", handler="bill")
    with pytest.raises(Conflict, match="not that of a stream"):
        stream_reader(dsn, groupId="billing").initialOffset()
    start = stream_reader(dsn, groupId="lake").initialOffset()
    publish(session, "order", 1)
    match(session)
    call(session, "broker_group_delete", group_name="lake")
    with pytest.raises(NotFound, match="Start with a new checkpoint"):
        stream_reader(dsn, groupId="lake").latestOffset(start, ReadAllAvailable())
    stream_reader(dsn, groupId="lake").initialOffset()
    with pytest.raises(PositionTrimmed, match="goes on with delivery 1"):
        stream_reader(dsn, groupId="lake").latestOffset(start, ReadAllAvailable())
    assert stream_reader(dsn, groupId="lake", failOnDataLoss="false").partitions(start, start) == []


def test_a_run_to_the_present_end_says_that_nobody_delivers(
    dsn: str, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_group, "_PATIENCE", 0.1)
    made = stream_reader(dsn, groupId="lake")
    start = made.initialOffset()
    publish(session, "order", 1)
    made.prepareForTriggerAvailableNow()
    with pytest.raises(Unavailable, match=r"up to position 1 .* were up to 0.*trunkline up"):
        made.latestOffset(start, ReadAllAvailable())


@pytest.mark.spark
def test_spark_reads_events_and_a_stream_follows_them(
    spark: SparkSession, dsn: str, tmp_path: Path
) -> None:
    with psycopg.connect(dsn, autocommit=True) as session:
        publish(session, "order", {"total": 5}, key="alice")
        publish(session, "visit", 1)
        session.execute("select trunkline.broker_tick()")
        batch = spark.read.format("trunkline.events").option("dsn", dsn).load()
        assert sorted(row.topic for row in batch.collect()) == ["order", "visit"]
        seen: list[Any] = []
        stream = (
            spark.readStream.format("trunkline.events")
            .options(dsn=dsn, subscribe="order", startingOffsets="earliest", columns="payload,at")
            .load()
        )
        drained(stream, tmp_path, seen)
        publish(session, "order", {"total": 6}, key="bob")
        drained(stream, tmp_path, seen)
    assert [json.loads(row.payload) for row in seen] == [{"total": 5}, {"total": 6}]


@pytest.mark.spark
def test_a_stream_of_spark_reads_as_its_group_and_moves_it(
    spark: SparkSession, dsn: str, session: Session, tmp_path: Path
) -> None:
    subscribe(session, "lake", {"in": {"topic": ["order"]}}, handler="spark", lanes=1)
    publish(session, "order", 1)
    publish(session, "order", 2)
    match(session)
    seen: list[Any] = []
    stream = (
        spark.readStream.format("trunkline.events")
        .options(dsn=dsn, subscribe="order", groupId="lake", startingOffsets="earliest")
        .options(columns="payload,delivery", maxEventsPerTrigger="1")
        .load()
    )
    drained(stream, tmp_path, seen)
    assert [(row.payload, row.delivery) for row in seen] == [("1", 1), ("2", 2)]
    assert waiting(session) == 0


def drained(frame: DataFrame, checkpoint: Path, into: list[Any]) -> None:
    """Run a stream until it has read what is there now; rows end up in a list."""
    query = (
        frame.writeStream.foreachBatch(lambda rows, _batch: into.extend(rows.collect()))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
