"""The source ``trunkline.table``: a table, a view or a query, whole or in pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from trunkline.core.errors import Invalid
from trunkline.spark.table_source import TableSource, TableSourceOptions, blocks, ranges

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture
def session(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(dsn, autocommit=True) as opened:
        yield opened


def pieces(dsn: str, **options: str) -> list[list[int]]:
    """The first column of what every task would read, without Spark."""
    source = TableSource({"dsn": dsn} | options)
    reader = source.reader(source.schema())
    return [
        [value for batch in reader.read(part) for value in batch.column(0).to_pylist()]
        for part in reader.partitions()
    ]


def test_a_table_is_read_by_spark(
    spark: SparkSession, dsn: str, session: psycopg.Connection[Any]
) -> None:
    session.execute("create table orders (id bigint primary key, amount numeric(8,2), tags text[])")
    session.execute(
        "insert into orders select n, n / 3.0, array['a', n::text] from generate_series(1, 5000) n"
    )
    given = {"dsn": dsn, "dbtable": "orders", "minPartitions": "3"}
    frame = spark.read.format("trunkline.table").options(**given).load()
    assert frame.rdd.getNumPartitions() == 3
    total = frame.selectExpr("count(*)", "sum(id)", "sum(amount)", "max(tags[1])").first()
    assert total is not None
    expected = session.execute(
        "select count(*), sum(id)::int8, sum(amount), max(tags[2]) from orders"
    ).fetchone()
    assert tuple(total) == expected


def test_ranges_of_the_key_have_every_row_once(dsn: str, session: psycopg.Connection[Any]) -> None:
    session.execute('create table "T" ("Id" int primary key)')
    session.execute('insert into "T" select n * n - 500 from generate_series(0, 99) n')
    found = pieces(dsn, dbtable='"T"', minPartitions="4")
    assert len(found) == 4
    assert sorted(value for piece in found for value in piece) == sorted(
        n * n - 500 for n in range(100)
    )


def test_a_table_without_such_a_key_is_cut_by_the_place_of_its_rows(
    dsn: str, session: psycopg.Connection[Any]
) -> None:
    session.execute("create table t as select n, repeat('x', 500) from generate_series(1, 500) n")
    found = pieces(dsn, dbtable="t", minPartitions="3")
    assert [bool(piece) for piece in found[:2]] == [True, True]
    assert sorted(value for piece in found for value in piece) == list(range(1, 501))


def test_a_query_and_a_view_are_read_in_one_piece(
    dsn: str, session: psycopg.Connection[Any]
) -> None:
    session.execute("create table t as select generate_series(1, 3) as n")
    session.execute("create view v as select n + 1 as m from t")
    assert pieces(dsn, query="select n * 10 as x from t where n > 1;") == [[20, 30]]
    assert pieces(dsn, dbtable="v") == [[2, 3, 4]]
    with pytest.raises(Invalid, match=r"public.v cannot be cut"):
        pieces(dsn, dbtable="v", minPartitions="2")


def test_an_empty_table_is_read(dsn: str, session: psycopg.Connection[Any]) -> None:
    session.execute("create table t (id int primary key)")
    session.execute("create table u (x text)")
    assert pieces(dsn, dbtable="t", minPartitions="5") == [[]]
    assert pieces(dsn, dbtable="u", minPartitions="5") == [[]]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "name either dbtable or query"),
        ({"dbtable": "t", "query": "select 1"}, "name either dbtable or query"),
        ({"query": "select 1", "minPartitions": "2"}, "a query cannot be cut"),
        ({"dbtable": "t", "minPartitions": "0"}, "greater than or equal to 1"),
        ({"table": "t"}, "there is no option table. Options are: dsn, dbtable"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(Invalid) as caught:
        TableSourceOptions.parse(options)
    assert said in str(caught.value)


def test_a_schema_that_the_table_does_not_have_is_refused(
    dsn: str, session: psycopg.Connection[Any]
) -> None:
    session.execute("create table t (a int, b int)")
    source = TableSource({"dsn": dsn, "dbtable": "t"})
    other = TableSource({"dsn": dsn, "dbtable": "t", "columns": "b"}).schema()
    with pytest.raises(Invalid, match="gives a int, b int, the schema asked for is b int"):
        source.reader(other)


def test_conditions_are_open_at_both_ends_and_meet() -> None:
    assert ranges('"id"', 1, 10, 2) == ['"id" < 6', '"id" >= 6']
    assert ranges('"id"', 1, 3, 9) == ['"id" < 2', '"id" >= 2 and "id" < 3', '"id" >= 3']
    assert ranges('"id"', 5, 5, 3) == ["true"]
    assert blocks(10, 2) == ["ctid < '(5,0)'::tid", "ctid >= '(5,0)'::tid"]
    assert blocks(0, 4) == ["true"]
