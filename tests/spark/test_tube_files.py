"""What tasks of a sync read, and the files they write."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

import trunkline
from trunkline.spark import connection, tube_rows
from trunkline.spark.delta import STAGING, DeltaTarget
from trunkline.spark.tube_files import write_slices
from trunkline.spark.tube_rows import Slice, Span
from trunkline.tube import calls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from trunkline.spark.parquet_files import File


@pytest.fixture
def touched(dsn: str) -> Slice:
    """Two thousand changed rows, and three thousand that stayed as they were."""
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute("create table item (id bigint primary key, name text)")
        session.execute("insert into item select i, 'old' from generate_series(1, 5000) i")
        session.execute("analyze item")
        with trunkline.connect_sync(dsn) as platform:
            platform.tube.ensure("lake")
            platform.tube.attach("lake", "item")
        session.execute("update item set name = 'new' where id <= 2000")
        session.execute("delete from item where id <= 10")
    return Slice(dsn, "lake", "public.item", "columns")


def spans(asked: Slice) -> list[Span]:
    return [Span(0, 0, 1, connection.db(asked.dsn).run(calls.flush()))]


def rows(asked: Slice) -> list[dict[str, Any]]:
    return [row for batch in tube_rows.read_slice(asked) for row in batch.to_pylist()]


def test_slices_have_every_key_once(touched: Slice) -> None:
    found = [row for part in touched.divide(spans(touched), 3) for row in rows(part)]
    assert sorted(row["id"] for row in found) == list(range(1, 2001))
    assert {row["id"] for row in found if row["_deleted"]} == set(range(1, 11))
    assert {row["name"] for row in found if not row["_deleted"]} == {"new"}


def test_a_lane_or_more_is_a_task() -> None:
    asked = Slice("", "lake", None, "none")
    two = [Span(0, 0, 1, 9), Span(1, 0, 1, 9), Span(1, 1, 3, 9)]
    assert asked.divide([], 4) == []
    assert [len(part.spans) for part in asked.divide(two, 1)] == [1, 2]
    assert [(part.bucket, part.buckets) for part in asked.divide(two, 3)] == [
        (0, 2),
        (1, 2),
        (0, 2),
        (1, 2),
    ]


@pytest.mark.parametrize(("parts", "large"), [(1, True), (2, False)])
def test_a_good_part_of_a_table_is_scanned_and_not_looked_up(
    touched: Slice, monkeypatch: pytest.MonkeyPatch, parts: int, large: bool
) -> None:
    asked = touched.divide(spans(touched), parts)[0]
    assert tube_rows.is_large(asked) is large
    as_decided = rows(asked)
    monkeypatch.setattr(tube_rows, "is_large", lambda _asked: not large)
    assert sorted(map(str, rows(asked))) == sorted(map(str, as_decided))


def test_files_of_an_attempt_that_failed_are_not_named(
    spark: SparkSession, touched: Slice, tmp_path: Path
) -> None:
    class Shaky(DeltaTarget):
        def write_files(self, batches: Iterator[Any], *, mode: Any) -> list[File]:
            files = super().write_files(batches, mode=mode)
            failed = Path(self.path, "failed")
            if not failed.exists():
                failed.touch()
                raise OSError("the disk is full")
            return files

    schema = to_arrow_schema(tube_rows.schema_of(touched), timezone="UTC")
    slices = touched.divide(spans(touched), 2)
    files = write_slices(spark, slices, Shaky(str(tmp_path), schema))
    assert sum(file.rows for file in files) == 2000
    assert len(files) == 2
    assert len(list((tmp_path / STAGING).iterdir())) == 3
