"""``archive`` in a real Spark: all arrives once, whatever dies, and is read back the same."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import pytest
from deltalake import DeltaTable
from tests.fixtures.asking import Session, ask, call, column
from tests.log.archiving import drop_archived
from tests.log.steps import append, create, seal, segments

import trunkline
from trunkline.core.errors import Conflict, Invalid, NotFound
from trunkline.log import calls
from trunkline.spark.jobs import archive as job
from trunkline.spark.jobs.archive import archive
from trunkline.spark.jobs.archive_delta import delta_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from trunkline.platform import SyncPlatform

TOPIC = "orders"


@pytest.fixture
def maker(dsn: str) -> Iterator[Session]:
    with closing(psycopg.connect(dsn, autocommit=True)) as session:
        yield session


@pytest.fixture
def tl(dsn: str) -> Iterator[SyncPlatform]:
    with trunkline.connect_sync(dsn) as platform:
        yield platform


@pytest.fixture
def orders(maker: Session, tl: SyncPlatform) -> None:
    """Two partitions: 3 sealed segments of 20 messages each, and 5 messages that are not sealed."""
    create(maker, partitions=2, archive=True)
    for partition in (0, 1):
        for number in range(3):
            for part in range(4):
                append(
                    maker,
                    *(b"%d/%d/%d" % (number, part, n) for n in range(5)),
                    partition=partition,
                    keys=[b"k%d" % n for n in range(5)],
                    headers=[{"part": part}, None, None, None, None],
                )
            seal(maker, partition=partition)
        tl.log.append(TOPIC, [b"hot"] * 5, partition=partition, codec="zstd")


def digest(tl: SyncPlatform) -> dict[int, tuple[int, str]]:
    """Count and digest of every partition, as a reader sees it."""
    found = {}
    for partition in (0, 1):
        messages = list(tl.log.read(TOPIC, partition))
        assert [message.offset for message in messages] == list(range(1, len(messages) + 1))
        text = repr([(m.offset, m.at.timestamp(), m.key, m.value, m.headers) for m in messages])
        found[partition] = (len(messages), hashlib.sha256(text.encode()).hexdigest())
    return found


def manifest(session: Session) -> list[tuple[int, int, int]]:
    return session.execute(
        "select partition, first_offset, last_offset from trunkline.log_archive order by 1, 2"
    ).fetchall()


ALL = [(p, first, first + 19) for p in (0, 1) for first in (1, 21, 41)]


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_what_was_archived_reads_the_same_by_clients_and_by_spark(
    spark: SparkSession, dsn: str, tl: SyncPlatform, maker: Session, tmp_path: Path, kind: str
) -> None:
    before = digest(tl)
    said: list[tuple[int, int | None, str]] = []
    (done,) = archive(
        spark,
        location=str(tmp_path),
        format=kind,
        dsn=dsn,
        progress=lambda *step: said.append(step),
    )
    assert (done.topic, done.segments, done.messages) == (TOPIC, 6, 120)
    assert said[0] == (0, 120, TOPIC)
    assert said[-1] == (120, 120, TOPIC)
    assert manifest(maker) == ALL
    assert archive(spark, location=str(tmp_path), format=kind, dsn=dsn) == []
    drop_archived(maker)
    assert segments(maker) == [(61, None)]
    assert digest(tl) == before == {0: (65, before[0][1]), 1: (65, before[1][1])}
    frame = (
        spark.read.format("trunkline.log")
        .options(dsn=dsn, subscribe=TOPIC, includeHeaders="true", minPartitions="5")
        .load()
    )
    rows = sorted(frame.collect(), key=lambda row: (row["partition"], row["offset"]))
    assert [row["offset"] for row in rows] == [*range(1, 66)] * 2
    assert bytes(rows[0]["value"]) == b"0/0/0"
    assert json.loads(rows[0]["headers"]) == {"part": 0}
    if kind == "delta":
        table = DeltaTable(done.location)
        assert table.to_pyarrow_table().num_rows == 120
        only = table.to_pyarrow_dataset().get_fragments(filter=None)
        assert len(list(only)) == 6
        stats = {
            (row["min.partition"], row["min.offset"], row["max.offset"]) for row in _adds(table)
        }
        assert stats == {(p, first, last) for p, first, last in ALL}
        lake = spark.read.parquet(*table.file_uris())
        assert lake.selectExpr("count(*)", "count(distinct partition, offset)").first() == (
            120,
            120,
        )


def _adds(table: DeltaTable) -> list[dict[str, Any]]:
    import pyarrow as pa

    rows: list[dict[str, Any]] = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return rows


@pytest.mark.usefixtures("orders")
def test_a_stream_goes_through_the_archive_into_what_is_hot(
    spark: SparkSession, dsn: str, maker: Session, tmp_path: Path
) -> None:
    archive(spark, [TOPIC], location=str(tmp_path / "lake"), dsn=dsn)
    drop_archived(maker)
    found: list[Any] = []
    for _ in range(2):
        query = (
            spark.readStream.format("trunkline.log")
            .options(
                dsn=dsn, subscribe=TOPIC, startingOffsets="earliest", maxOffsetsPerTrigger="50"
            )
            .load()
            .writeStream.foreachBatch(lambda rows, _batch: found.extend(rows.collect()))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(60)
        append(maker, b"more")
    places = sorted((row["partition"], row["offset"]) for row in found)
    assert places == [(0, n) for n in range(1, 67)] + [(1, n) for n in range(1, 66)]


class Died(Exception):
    """Stands for the end of the driver: nothing after it is run."""


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(
    ("kind", "step"),
    [
        ("delta", "before delta"),
        ("delta", "before the manifest"),
        ("delta", "in the manifest"),
        ("parquet", "in the manifest"),
    ],
)
def test_a_run_that_died_is_finished_by_the_next(
    spark: SparkSession,
    dsn: str,
    tl: SyncPlatform,
    maker: Session,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    step: str,
) -> None:
    before = digest(tl)
    with monkeypatch.context() as patched:
        kill_at(step, patched)
        with pytest.raises(Died):
            archive(spark, location=str(tmp_path), format=kind, dsn=dsn)
    left = len(list((tmp_path / TOPIC).rglob("*.parquet")))
    assert left == 4  # a wave on two cores
    done = len(manifest(maker))
    assert done == (2 if step == "in the manifest" else 0)
    (again,) = archive(spark, location=str(tmp_path), format=kind, dsn=dsn)
    assert again.segments == 6 - done
    assert manifest(maker) == ALL
    drop_archived(maker)
    assert digest(tl) == before
    if kind == "delta":
        table = DeltaTable(again.location)
        assert table.to_pyarrow_table().num_rows == 120
        assert delta_files(again.location) == noted(maker)
    # what the dead run left is removed once it is old enough, and nothing else
    assert len(list((tmp_path / TOPIC).rglob("*.parquet"))) == left + 6 - done
    kept = clean(spark, dsn, tmp_path, kind)
    assert {str(file.relative_to(tmp_path / TOPIC)) for file in kept} == noted(maker)
    assert digest(tl) == before


def kill_at(step: str, patched: pytest.MonkeyPatch) -> None:
    def die(*_args: Any, **_more: Any) -> Any:
        raise Died

    if step == "before delta":
        patched.setattr(job.TopicArchive, "commit", die)
    else:
        rest = iter([False] * (0 if step == "before the manifest" else 2))
        whole = calls.archive_add
        patched.setattr(
            calls,
            "archive_add",
            lambda *args, **more: die() if next(rest, True) else whole(*args, **more),
        )


def noted(session: Session) -> set[str]:
    return set(column(session, "select files -> 0 ->> 'path' from trunkline.log_archive"))


def clean(spark: SparkSession, dsn: str, folder: Path, kind: str) -> list[Path]:
    """Let a run find every file old."""
    for file in (folder / TOPIC).rglob("*.parquet"):
        os.utime(file, (1, 1))
    archive(spark, [TOPIC], location=str(folder), format=kind, dsn=dsn, grace=timedelta(hours=1))
    return list((folder / TOPIC).rglob("*.parquet"))


@pytest.mark.usefixtures("orders")
def test_the_second_of_two_runs_is_told_who_has_it(
    spark: SparkSession, dsn: str, maker: Session, tmp_path: Path
) -> None:
    process = uuid4()
    maker.execute("select trunkline.lease_renew(%s, 'night shift@host:7')", [process])
    maker.execute("select trunkline.owner_take('archive:orders', %s)", [process])
    with pytest.raises(Conflict, match="night shift@host:7"):
        archive(spark, location=str(tmp_path), dsn=dsn)
    assert manifest(maker) == []
    maker.execute("select trunkline.lease_end(%s)", [process])
    assert [done.segments for done in archive(spark, location=str(tmp_path), dsn=dsn)] == [6]


@pytest.mark.usefixtures("orders")
def test_a_run_that_outlived_its_lease_changes_nothing(
    spark: SparkSession,
    dsn: str,
    maker: Session,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It wakes up after another run has done its work, before and after it looked at the table."""
    commit = job.TopicArchive.commit

    def late(self: job.TopicArchive, copies: Any) -> None:
        monkeypatch.setattr(job.TopicArchive, "commit", commit)
        maker.execute("update trunkline.lease set expires = clock_timestamp()")
        archive(spark, location=str(tmp_path), dsn=dsn)
        commit(self, copies)

    monkeypatch.setattr(job.TopicArchive, "commit", late)
    with pytest.raises(Conflict):
        archive(spark, location=str(tmp_path), dsn=dsn)
    assert manifest(maker) == ALL
    location = f"{tmp_path}/{TOPIC}"
    assert DeltaTable(location).to_pyarrow_table().num_rows == 120
    assert delta_files(location) == noted(maker)


@pytest.mark.usefixtures("orders")
def test_a_dry_run_says_what_would_be_done_and_does_nothing(
    spark: SparkSession, dsn: str, maker: Session, tmp_path: Path
) -> None:
    (would,) = archive(spark, location=str(tmp_path), dsn=dsn, dry_run=True)
    assert (would.topic, would.segments, would.messages) == (TOPIC, 6, 120)
    assert manifest(maker) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("orders")
def test_one_damaged_segment_keeps_only_what_follows_it(
    spark: SparkSession, dsn: str, maker: Session, tmp_path: Path
) -> None:
    number = ask(
        maker,
        "select segment_id from trunkline.log_archivable('orders')"
        " where partition = 0 and first_offset = 21",
    )
    maker.execute(
        f"update trunkline.log_segment_{number} set value_ends = substr(value_ends, 2)"
        " where base_offset = 26"
    )
    with pytest.raises(Invalid, match="offsets 21 to 40 of orders/0"):
        archive(spark, location=str(tmp_path), dsn=dsn)
    assert [row[0] for row in manifest(maker)].count(0) == 1
    assert (1, 1, 20) in manifest(maker)


@pytest.mark.usefixtures("orders")
def test_a_folder_of_another_topic_of_the_same_name_is_left_alone(
    spark: SparkSession, dsn: str, maker: Session, tmp_path: Path
) -> None:
    archive(spark, location=str(tmp_path), dsn=dsn)
    files = sorted((tmp_path / TOPIC).rglob("*"))
    call(maker, "log_delete", topic=TOPIC)
    create(maker, archive=True)
    append(maker, b"anew")
    seal(maker)
    with pytest.raises(Conflict, match="another topic"):
        archive(spark, location=str(tmp_path), dsn=dsn)
    assert sorted((tmp_path / TOPIC).rglob("*")) == files
    assert [done.messages for done in archive(spark, location=f"{tmp_path}/b", dsn=dsn)] == [1]


def test_what_cannot_be_archived_is_refused(
    spark: SparkSession, dsn: str, maker: Session, tmp_path: Path
) -> None:
    create(maker)
    for topics, error, options in (
        (["nowhere"], NotFound, {}),
        ([TOPIC], Invalid, {}),
        (None, Invalid, {"format": "csv"}),
        (None, Invalid, {"location": ""}),
        (None, Invalid, {"location": "s3://me:secret@bucket/topics"}),
    ):
        given: dict[str, Any] = {"location": str(tmp_path), "dsn": dsn} | options
        with pytest.raises(error):
            archive(spark, topics, **given)
    assert archive(spark, location=str(tmp_path), dsn=dsn) == []
    assert list(tmp_path.iterdir()) == []
