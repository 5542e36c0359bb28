"""What an audit takes for equal, and what a sync leaves downstream, whatever tables look like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake import Field as DeltaField
from deltalake.schema import PrimitiveType

import trunkline
from trunkline.core.errors import Invalid
from trunkline.spark import audit, backfill, sync

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from trunkline.platform import SyncPlatform

SETUP = """
create schema app;
create table app.things (
  id int primary key, a text, b text, total numeric(12, 2), tags text[], numbers int[]);
insert into app.things select i, 'a' || i % 3, 'b', i * 1.5, array['x', 'y'], array[1, 2]
from generate_series(1, 30) i;
"""


@pytest.fixture
def tl(dsn: str) -> Iterator[SyncPlatform]:
    run(dsn, SETUP)
    with trunkline.connect_sync(dsn) as platform:
        platform.tube.ensure("lake")
        platform.tube.attach("lake", "app.things")
        yield platform


def run(dsn: str, statement: str) -> Any:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else None


@pytest.mark.usefixtures("tl")
def test_a_null_or_an_element_elsewhere_is_a_difference(spark: SparkSession, dsn: str) -> None:
    run(dsn, "create table app.copy (like app.things including all)")
    run(
        dsn,
        "update app.things set a = 'x', b = null where id = 1;"
        "update app.things set tags = '{}' where id = 2;"
        "update app.things set tags = array['x'] where id = 3;"
        "update app.things set tags = array['x'], numbers = array[1] where id = 4",
    )
    backfill(spark, "lake", "table:app.copy", dsn=dsn)
    (report,) = audit(spark, "lake", "table:app.copy", dsn=dsn, patience=0)
    assert (report.equal, report.rows) == (True, 30)
    run(
        dsn,
        "update app.copy set a = null, b = 'x' where id = 1;"
        "update app.copy set tags = null where id = 2;"
        "update app.copy set tags = array['x', null] where id = 3;"
        "update app.copy set tags = array['x', null], numbers = array[1, null] where id = 4",
    )
    (report,) = audit(spark, "lake", "table:app.copy", dsn=dsn, patience=0)
    assert (report.different, report.sample) == (4, ["1", "2", "3", "4"])


@pytest.mark.usefixtures("tl")
def test_rows_that_are_downstream_twice_are_not_equal(
    spark: SparkSession, dsn: str, tmp_path: Path
) -> None:
    path = str(tmp_path / "things")
    backfill(spark, "lake", f"delta:{path}", dsn=dsn)
    rows = DeltaTable(path).to_pyarrow_table().sort_by("id").slice(0, 2)
    write_deltalake(path, rows, mode="append")
    (report,) = audit(spark, "lake", f"delta:{path}", dsn=dsn, patience=0)
    assert (report.equal, report.extra, report.sample) == (False, 2, ["1", "2"])
    assert (report.rows, report.target_rows) == (30, 32)


@pytest.mark.usefixtures("tl")
def test_the_same_values_in_other_types_are_equal_and_others_are_not(
    spark: SparkSession, dsn: str
) -> None:
    run(
        dsn,
        "create table app.copy (id numeric primary key, a varchar(40), b text,"
        " total numeric(20, 4), tags text[], numbers bigint[])",
    )
    backfill(spark, "lake", "table:app.copy", dsn=dsn)
    (report,) = audit(spark, "lake", "table:app.copy", dsn=dsn, patience=0)
    assert (report.equal, report.rows, report.target_rows) == (True, 30, 30)
    run(dsn, "update app.copy set total = total + 0.0001 where id = 7")
    run(dsn, "update app.things set total = null where id = 8")
    sync(spark, "lake", "table:app.copy", dsn=dsn, once=True)
    run(dsn, "update app.copy set total = 0.0001 where id = 8")
    (report,) = audit(spark, "lake", "table:app.copy", dsn=dsn, patience=0)
    assert (report.different, report.sample) == (2, ["7", "8"])


@pytest.mark.usefixtures("tl")
def test_a_column_that_is_not_downstream_is_named(spark: SparkSession, dsn: str) -> None:
    run(dsn, "create table app.copy (id int primary key, a text)")
    with pytest.raises(Invalid, match=r"table:app.copy has no column b, total, tags, numbers"):
        audit(spark, "lake", "table:app.copy", dsn=dsn, patience=0)


def test_a_partitioned_delta_table_is_followed_cleaned_and_audited(
    spark: SparkSession, dsn: str, tl: SyncPlatform, tmp_path: Path
) -> None:
    path = str(tmp_path / "things")
    backfill(spark, "lake", f"delta:{path}", dsn=dsn)
    rows = DeltaTable(path).to_pyarrow_table()
    parted = str(tmp_path / "by a")
    write_deltalake(parted, rows, partition_by=["a"])
    run(dsn, "update app.things set b = 'new' where id < 5")
    run(dsn, "update app.things set a = null where id = 6")
    run(dsn, "alter table app.things disable trigger user")
    run(dsn, "delete from app.things where id > 20")
    run(dsn, "alter table app.things enable trigger user")
    assert backfill(spark, "lake", f"delta:{parted}", dsn=dsn).collected == 1
    (report,) = audit(spark, "lake", f"delta:{parted}", dsn=dsn, patience=0)
    assert (report.equal, report.rows, report.target_rows) == (True, 20, 20), report
    assert DeltaTable(parted).metadata().partition_columns == ["a"]
    assert tl


ODD = '''
create table app."Odd things" (
  "the ""key""" int, "a.b" text, "b`t" text, primary key ("the ""key""", "a.b"));
insert into app."Odd things" select i, 'it''s "' || i, null from generate_series(1, 9) i
'''


def test_a_delta_table_may_get_a_column_and_names_may_be_odd(
    spark: SparkSession, dsn: str, tl: SyncPlatform, tmp_path: Path
) -> None:
    run(dsn, ODD)
    tl.tube.ensure("odd")
    tl.tube.attach("odd", 'app."Odd things"')
    to = f"delta:{tmp_path}/odd things"
    backfill(spark, "odd", to, dsn=dsn)
    added = DeltaField("Späteres", PrimitiveType("string"))
    DeltaTable(str(tmp_path / "odd things")).alter.add_columns(added)
    run(dsn, 'alter table app."Odd things" add column "Späteres" text')
    (report,) = audit(spark, "odd", to, dsn=dsn, patience=0)
    assert (report.equal, report.rows) == (True, 9)
    run(dsn, 'truncate app."Odd things"')
    run(dsn, 'insert into app."Odd things" select 3, x, x, x from unnest(array[1, 2]) x')
    (report,) = audit(spark, "odd", to, dsn=dsn, patience=0)
    assert (report.equal, report.rows, report.target_rows) == (True, 2, 2)


@pytest.mark.usefixtures("tl")
def test_what_is_gone_leaves_a_table_that_computes_columns_of_its_own(
    spark: SparkSession, dsn: str
) -> None:
    run(
        dsn,
        "create table app.copy (like app.things including all,"
        " twice numeric generated always as (total * 2) stored, note text default 'mine');"
        "insert into app.copy (id) values (99)",
    )
    assert backfill(spark, "lake", "table:app.copy", dsn=dsn).collected == 1
    assert run(dsn, "select count(*), max(id), max(twice) from app.copy") == [(30, 30, 90)]
