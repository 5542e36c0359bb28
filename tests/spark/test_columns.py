"""What Postgres' types become in Spark, and what is refused rather than bent."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import types as t

from trunkline.core.errors import Invalid, NotFound
from trunkline.spark.columns import PgType, decimal, read_as, select_list, staging_types
from trunkline.spark.connection import adbc

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def session(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(dsn, autocommit=True) as opened:
        yield opened


def fetched(dsn: str, relation: str, *columns: str) -> pa.Table:
    """A relation through the select list and the Arrow driver, as Spark would get it."""
    chosen = select_list(dsn, relation, columns or None)
    with adbc(dsn) as connection, connection.cursor() as cursor:
        cursor.execute(f"select {chosen.sql} from {relation}")
        batches = [chosen.conform(batch) for batch in cursor.fetch_record_batch()]
    return pa.Table.from_batches(batches, schema=chosen.arrow)


VALUES: list[tuple[str, str, t.DataType, Any]] = [
    ("boolean", "true", t.BooleanType(), True),
    ("smallint", "-3", t.ShortType(), -3),
    ("int", "4", t.IntegerType(), 4),
    ("bigint", "9007199254740993", t.LongType(), 9007199254740993),
    ("real", "1.5", t.FloatType(), 1.5),
    ("double precision", "2.5", t.DoubleType(), 2.5),
    ("text", "'é'", t.StringType(), "é"),
    ("varchar(9)", "'v'", t.StringType(), "v"),
    ("char(3)", "'a'", t.StringType(), "a"),
    ("bytea", "'\\x00ff'", t.BinaryType(), b"\x00\xff"),
    ("date", "'1969-07-20'", t.DateType(), dt.date(1969, 7, 20)),
    (
        "timestamptz",
        "'2026-01-02 03:04:05.678901+00'",
        t.TimestampType(),
        dt.datetime(2026, 1, 2, 3, 4, 5, 678901, dt.UTC),
    ),
    (
        "timestamp",
        "'2026-01-02 03:04:05'",
        t.TimestampNTZType(),
        dt.datetime(2026, 1, 2, 3, 4, 5),  # noqa: DTZ001
    ),
    ("numeric(10,2)", "12.3", t.DecimalType(10, 2), Decimal("12.30")),
    ("numeric", "12.345", t.DecimalType(38, 18), Decimal("12.345").quantize(Decimal("1e-18"))),
    ("numeric(50,2)", "1.5", t.StringType(), "1.50"),
    (
        "uuid",
        f"'{'0' * 8}-0000-0000-0000-{'0' * 12}'",
        t.StringType(),
        f"{'0' * 8}-0000-0000-0000-{'0' * 12}",
    ),
    ("jsonb", """'{"a": 1}'""", t.StringType(), '{"a": 1}'),
    ("interval", "'1 day'", t.StringType(), "1 day"),
    ("time", "'12:00'", t.StringType(), "12:00:00"),
    ("inet", "'10.0.0.1'", t.StringType(), "10.0.0.1/32"),
    ("mood", "'sad'", t.StringType(), "sad"),
    ("small", "5", t.IntegerType(), 5),
    ("pair", "row(1, 'x')", t.StringType(), '{"a": 1, "b": "x"}'),
    ("int4range", "'[1,2]'", t.StringType(), "[1,3)"),
    ("oid", "4000000000", t.LongType(), 4000000000),
    ("int[]", "'{1,null}'", t.ArrayType(t.IntegerType()), [1, None]),
    ("text[]", "'{a}'", t.ArrayType(t.StringType()), ["a"]),
    ("uuid[]", "'{}'", t.ArrayType(t.StringType()), []),
    ("numeric[]", "'{1.50}'", t.ArrayType(t.StringType()), ["1.50"]),
]


def test_every_type_comes_as_spark_expects_it_and_so_does_its_null(
    dsn: str, session: psycopg.Connection[Any]
) -> None:
    session.execute("create type mood as enum ('sad')")
    session.execute("create domain small as int check (value < 10)")
    session.execute("create type pair as (a int, b text)")
    named = [f'"Column {n}" {kind}' for n, (kind, *_) in enumerate(VALUES)]
    session.execute(f"create table t ({', '.join(named)})")
    session.execute(f"insert into t values ({', '.join(value for _, value, *_ in VALUES)})")
    session.execute("insert into t default values")
    fields = select_list(dsn, "t").schema.fields
    assert [field.dataType for field in fields] == [kind for *_, kind, _ in VALUES]
    first, second = fetched(dsn, "t").to_pylist()
    assert list(first.values()) == [value for *_, value in VALUES]
    assert set(second.values()) == {None}


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("timestamptz", "'infinity'", "infinite date or time"),
        ("timestamp", "'-infinity'", "infinite date or time"),
        ("date", "'infinity'", "infinite date or time"),
        ("date", "'-infinity'", "infinite date or time"),
        ("numeric", "'NaN'", "a number that is not a decimal128(38, 18)"),
        ("numeric", "1e-19", "a number that is not a decimal128(38, 18)"),
        ("numeric", "1e30", "a number that is not a decimal128(38, 18)"),
    ],
)
def test_what_spark_cannot_hold_is_refused(
    dsn: str, session: psycopg.Connection[Any], kind: str, value: str, said: str
) -> None:
    session.execute(f"create table t (x {kind})")
    session.execute(f"insert into t values ({value})")
    with pytest.raises(Invalid) as caught:
        fetched(dsn, "t")
    assert f'column "x" has {"an " if "infinite" in said else ""}{said}' in str(caught.value)


def test_columns_are_chosen_by_name_in_their_order(
    dsn: str, session: psycopg.Connection[Any]
) -> None:
    session.execute("create table t (a int, b text, c int)")
    assert select_list(dsn, "t", ["c", "a"]).schema.fieldNames() == ["c", "a"]
    with pytest.raises(Invalid, match=r"there is no column d. There are: a, b, c."):
        select_list(dsn, "t", ["d"])
    with pytest.raises(NotFound, match='there is no table or view "u"'):
        select_list(dsn, "u")


@pytest.mark.parametrize(
    ("precision", "scale", "expected"),
    [(10, 2, (10, 2)), (3, -2, (5, 0)), (2, 5, (5, 5)), (38, 0, (38, 0)), (39, 0, None)],
)
def test_a_decimal_holds_every_number_of_its_column(
    precision: int, scale: int, expected: tuple[int, int] | None
) -> None:
    found = decimal((precision << 16 | scale & 0x7FF) + 4)
    assert (found and (found.precision, found.scale)) == expected


def test_a_name_is_quoted_in_the_select_list() -> None:
    assert read_as('a"b', PgType("uuid"))[0] == '"a""b"::text as "a""b"'


def test_what_no_column_can_be_is_refused_on_the_way_in() -> None:
    fields = [t.StructField("a", t.ArrayType(t.LongType())), t.StructField("b", t.ByteType())]
    assert staging_types(t.StructType(fields)) == {"a": "int8[]", "b": "int2"}
    for kind in (t.MapType(t.StringType(), t.StringType()), t.NullType()):
        with pytest.raises(Invalid, match="which no column of a table can be"):
            staging_types(t.StructType([t.StructField("x", kind)]))


def test_a_long_lived_driver_sees_what_alter_table_did(
    dsn: str, session: psycopg.Connection[Any]
) -> None:
    session.execute("create table wide (id int)")
    for _ in range(7):
        assert select_list(dsn, "wide").schema.fieldNames() == ["id"]
    session.execute("alter table wide add column name text, alter column id type bigint")
    for _ in range(7):
        seen = select_list(dsn, "wide").schema
        assert seen == t.StructType().add("id", t.LongType()).add("name", t.StringType())
