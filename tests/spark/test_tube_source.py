"""The stream of a tube, as far as it needs no JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from tests.fixtures.asking import call

import trunkline
from trunkline.core.errors import Conflict, Invalid, PositionTrimmed
from trunkline.spark.tube_source import TubeSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.fixtures.asking import Session

    from trunkline.spark.tube_source import TubeStreamReader


@pytest.fixture
def reader(dsn: str) -> Iterator[TubeStreamReader]:
    with trunkline.connect_sync(dsn) as platform:
        platform.tube.ensure("lake")
    source = TubeSource({"dsn": dsn, "tube": "lake"})
    made = source.streamReader(source.schema())
    yield made
    made.stop()


def test_a_position_of_another_life_of_the_server_is_refused(reader: TubeStreamReader) -> None:
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    other = {**start, "incarnation": start["incarnation"] + 1}
    with pytest.raises(PositionTrimmed, match="noted in life 2 of the server; this is life 1"):
        reader.latestOffset(other, ReadAllAvailable())


def test_a_position_beyond_the_head_of_a_restored_server_is_refused(
    reader: TubeStreamReader,
) -> None:
    start = reader.initialOffset()
    beyond = {**start, "position": start["position"] + 100}
    with pytest.raises(PositionTrimmed, match="and ends at") as refused:
        reader.latestOffset(beyond, ReadAllAvailable())
    assert "new checkpoint" in refused.value.hint
    assert "backfill" in refused.value.hint
    assert reader.latestOffset(start, ReadAllAvailable()) == start, "nothing was acknowledged"


def test_a_position_of_another_source_is_refused(reader: TubeStreamReader) -> None:
    with pytest.raises(Invalid, match="position of another source"):
        reader.latestOffset({"version": 1, "next": {}}, ReadAllAvailable())


def rows_of(source: TubeSource, start: Any = None) -> tuple[list[dict[str, Any]], Any]:
    """What a stream reads from its start (or a position) to the end, and where it ends."""
    made = source.streamReader(source.schema())
    try:
        begin = start or made.initialOffset()
        made.prepareForTriggerAvailableNow()
        end = made.latestOffset(begin, ReadAllAvailable())
        parts = made.partitions(begin, end)
        found = [row for part in parts for batch in made.read(part) for row in batch.to_pylist()]
        made.commit(end)
        return found, end
    finally:
        made.stop()


def stream_of(dsn: str, **options: str) -> TubeSource:
    return TubeSource({"dsn": dsn, "tube": "lake", **options})


@pytest.fixture
def session(dsn: str) -> Iterator[Session]:
    """A tube with a table of three rows."""
    with psycopg.connect(dsn, autocommit=True) as opened:
        opened.execute("create schema app create table orders (id int primary key, note text)")
        call(opened, "tube_ensure", tube="lake")
        call(opened, "tube_attach", tube="lake", relation="app.orders")
        opened.execute("insert into app.orders select i, 'n' from generate_series(1, 3) i")
        yield opened


ENRICH = ("none", "json", "columns")


@pytest.mark.parametrize("enrich", ENRICH)
def test_a_stream_of_one_table_refuses_a_tube_with_two(
    dsn: str, session: Session, enrich: str
) -> None:
    session.execute("create table app.other (id int primary key)")
    call(session, "tube_attach", tube="lake", relation="app.other")
    session.execute("insert into app.other values (7)")
    with pytest.raises(
        Invalid, match=r"has 1 more table, .* taken for done: app\.other"
    ) as refused:
        rows_of(stream_of(dsn, relation="app.orders", enrich=enrich))
    assert "a tube of its own" in refused.value.hint
    assert len(rows_of(stream_of(dsn))[0]) == 4, "nothing was acknowledged"


def test_a_table_attached_under_a_running_stream_stops_it_before_its_changes_are_lost(
    dsn: str, session: Session
) -> None:
    source = stream_of(dsn, relation="app.orders")
    made = source.streamReader(source.schema())
    begin = made.initialOffset()
    session.execute("create table app.other (id int primary key)")
    call(session, "tube_attach", tube="lake", relation="app.other")
    session.execute("insert into app.other values (7)")
    end = made.latestOffset(begin, ReadAllAvailable())
    with pytest.raises(Invalid, match="taken for done"):
        made.partitions(begin, end)
    made.stop()
    call(session, "tube_detach", tube="lake", relation="app.other")
    assert len(rows_of(source, begin)[0]) == 3


@pytest.mark.parametrize("enrich", ENRICH)
def test_a_stream_of_one_table_reads_what_was_captured_before_it_was_renamed(
    dsn: str, session: Session, enrich: str
) -> None:
    session.execute("alter table app.orders rename to purchases")
    assert len(rows_of(stream_of(dsn, relation="app.purchases", enrich=enrich))[0]) == 3


def test_truncate_stops_a_stream_of_rows_unless_it_is_ignored(dsn: str, session: Session) -> None:
    rows = {"relation": "app.orders", "enrich": "columns"}
    found, end = rows_of(stream_of(dsn, **rows))
    assert [row["id"] for row in found] == [1, 2, 3]
    session.execute("truncate app.orders")
    session.execute("insert into app.orders values (9)")
    with pytest.raises(Conflict, match=r"app\.orders was truncated at position \d+") as refused:
        rows_of(stream_of(dsn, **rows), end)
    assert "ignoreTruncate=true" in refused.value.hint
    found, _ = rows_of(stream_of(dsn, **rows, ignoreTruncate="true"), end)
    assert found == [{"id": 9, "note": None, "_deleted": False}]


@pytest.mark.parametrize("enrich", ["none", "json"])
def test_truncate_is_a_row_of_a_stream_of_keys(dsn: str, session: Session, enrich: str) -> None:
    _, end = rows_of(stream_of(dsn, relation="app.orders", enrich=enrich))
    session.execute("truncate app.orders")
    found, _ = rows_of(stream_of(dsn, relation="app.orders", enrich=enrich), end)
    assert [(row["key"], row["control"]) for row in found] == [(None, "truncate")]


def test_a_checkpoint_of_another_tube_is_refused(dsn: str, session: Session) -> None:
    call(session, "tube_ensure", tube="other")
    _, end = rows_of(stream_of(dsn))
    with pytest.raises(Invalid, match='the checkpoint is one of tube "lake"'):
        rows_of(TubeSource({"dsn": dsn, "tube": "other"}), end)
    former = {name: value for name, value in end.items() if name != "tube"}
    assert rows_of(stream_of(dsn), former) == ([], end)


def test_a_run_with_available_now_gives_its_lanes_back_at_its_end(
    dsn: str, session: Session
) -> None:
    assert session
    source = stream_of(dsn)
    made = source.streamReader(source.schema())
    begin = made.initialOffset()
    made.prepareForTriggerAvailableNow()
    end = made.latestOffset(begin, ReadAllAvailable())
    with pytest.raises(Conflict, match="is worked on by spark stream lake"):
        stream_of(dsn).streamReader(source.schema()).initialOffset()
    # Spark looks once more after the last batch, and calls neither commit nor stop for sure
    assert made.latestOffset(end, ReadAllAvailable()) == end
    assert made.latestOffset(end, ReadAllAvailable()) == end
    assert made.partitions(end, end) == []
    made.commit(end)
    assert rows_of(stream_of(dsn))[0] == [], "all was acknowledged"


def test_a_query_with_available_now_runs_again_at_once(
    spark: SparkSession, dsn: str, session: Session, tmp_path: Path
) -> None:
    seen: list[Any] = []
    for number in (4, 5):
        stream = spark.readStream.format("trunkline.tube").options(dsn=dsn, tube="lake").load()
        query = (
            stream.writeStream.foreachBatch(lambda rows, _: seen.extend(rows.collect()))
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        assert query.exception() is None
        session.execute("insert into app.orders values (%s)", [number])
    assert [row.key for row in seen] == ["1", "2", "3", "4"]
