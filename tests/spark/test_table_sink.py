"""The sink ``trunkline.table`` in a real Spark: append, upsert, delete, overwrite, and once."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pytest
from psycopg.conninfo import make_conninfo
from pyspark.sql import types as t
from pyspark.sql.types import StructField, StructType
from tests.fixtures.asking import ask

from trunkline.core.errors import Invalid, PositionTrimmed, TrunklineError
from trunkline.spark.table_sink import table_stream_writer, table_writer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

Session = psycopg.Connection[Any]

LEFT_OVER = "select count(*) from pg_class where relname ~ '^spark_staging_[0-9]+$'"
ORDERS = "create table orders (id bigint primary key, name text, amount numeric(10, 2))"
SCHEMA = "id int, name string, amount decimal(10,2)"


@pytest.fixture
def session(dsn: str) -> Iterator[Session]:
    with psycopg.connect(dsn, autocommit=True) as opened:
        opened.execute(ORDERS)
        yield opened


def write(frame: DataFrame, dsn: str, mode: str = "append", **options: Any) -> None:
    given = {"dsn": dsn, "dbtable": "orders"} | options
    frame.write.format("trunkline.table").options(**given).mode(mode).save()


def refusal(frame: DataFrame, dsn: str, mode: str = "append", **options: Any) -> str:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - Spark's own, of several kinds
        write(frame, dsn, mode, **options)
    return str(caught.value)


def rows(session: Session, query: str = "table orders order by 1") -> list[tuple[Any, ...]]:
    return session.execute(query.encode()).fetchall()


def test_rows_are_appended_and_cast_to_the_types_of_the_table(
    spark: SparkSession, dsn: str, session: Session
) -> None:
    session.execute("create type mood as enum ('sad', 'happy')")
    session.execute(
        'create table "Every Type" (a smallint, b int, c bigint, d real, e double precision,'
        " f boolean, g varchar(10), h bytea, i date, j timestamptz, k timestamp, l numeric(8, 3),"
        " m jsonb, n uuid, o mood, p int[], q text[], r interval, s inet,"
        ' "select" int default 7, made int generated always as (b + 1) stored)'
    )
    now = dt.datetime(2026, 1, 2, 3, 4, 5, 678901)  # noqa: DTZ001
    schema = (
        "a byte, b int, c bigint, d float, e double, f boolean, g string, h binary, i date,"
        " j timestamp, k timestamp_ntz, l decimal(20,6), m string, n string, o string,"
        " p array<int>, q array<string>, r interval day to second, s string"
    )
    uuid = "6cbcfac7-57fc-4f31-81f4-2f1274260e30"
    values = (
        *(1, 2, 3, 1.5, 2.5, True, "g", b"\x00h", dt.date(2026, 1, 2), now, now),
        *(Decimal("12.3456"), '{"x": 1}', uuid, "sad", [1, None], ["x"]),
        *(dt.timedelta(days=1, seconds=2), "10.0.0.1"),
    )
    nulls = (None,) * len(values)
    frame = spark.createDataFrame([values, nulls], schema)
    write(frame, dsn, dbtable='"Every Type"')
    session.execute("set timezone = 'UTC'")
    found = rows(session, 'select * from "Every Type" order by a')
    assert found[0] == (
        *(1, 2, 3, 1.5, 2.5, True, "g", b"\x00h", dt.date(2026, 1, 2)),
        *(now.replace(tzinfo=dt.UTC), now, Decimal("12.346"), {"x": 1}),
        *(found[0][13], "sad", [1, None], ["x"], dt.timedelta(days=1, seconds=2)),
        *(found[0][18], 7, 3),
    )
    assert (str(found[0][13]), str(found[0][18])) == (uuid, "10.0.0.1")
    assert found[1] == (*nulls, 7, None)
    assert ask(session, LEFT_OVER) == 0


def test_a_text_that_is_too_long_is_refused_and_not_cut(
    spark: SparkSession, dsn: str, session: Session
) -> None:
    session.execute("create table short (a varchar(3))")
    frame = spark.createDataFrame([("abcd",)], "a string")
    assert "value too long for type character varying(3)" in refusal(frame, dsn, dbtable="short")


def test_keys_replace_what_is_there_and_a_flag_deletes(
    spark: SparkSession, dsn: str, session: Session
) -> None:
    session.execute("insert into orders values (1, 'old', 1), (2, 'old', 2), (3, 'old', 3)")
    frame = spark.createDataFrame(
        [(1, "new", False), (2, None, True), (4, "new", None), (9, None, True)],
        "id int, name string, gone boolean",
    )
    write(frame, dsn, keys="id", deleteFlag="gone")
    assert rows(session) == [
        (1, "new", Decimal(1)),
        (3, "old", Decimal(3)),
        (4, "new", None),
    ]


def test_a_key_that_comes_twice_is_refused_unless_an_order_tells_which_is_last(
    spark: SparkSession, dsn: str, session: Session
) -> None:
    frame = spark.createDataFrame(
        [(1, "a", 1), (1, "c", 3), (1, "b", 2), (2, "x", 1)], "id int, name string, version int"
    ).repartition(2)
    plain = frame.drop("version")
    message = refusal(plain, dsn, keys="id")
    assert "two rows for table public.orders in one batch have the key id = 1" in message
    assert "orderBy" in message
    write(frame, dsn, keys="id", orderBy="version")
    assert rows(session) == [(1, "c", None), (2, "x", None)]
    draw = spark.createDataFrame([(1, "a", 9), (1, "b", 9)], "id int, name string, version int")
    assert "have the key id = 1 with the same version" in refusal(
        draw, dsn, keys="id", orderBy="version"
    )


def test_the_last_row_of_a_key_may_be_its_deletion(
    spark: SparkSession, dsn: str, session: Session
) -> None:
    frame = spark.createDataFrame(
        [(1, 1, False), (1, 2, True), (2, 1, True), (2, 2, False)], "id int, v int, gone boolean"
    )
    session.execute("insert into orders values (1), (2)")
    write(frame, dsn, keys="id", deleteFlag="gone", orderBy="v")
    assert rows(session, "select id from orders") == [(2,)]


def test_overwriting_replaces_all_rows_at_once(
    spark: SparkSession, dsn: str, session: Session
) -> None:
    session.execute("insert into orders values (1, 'old', 1)")
    write(spark.createDataFrame([(2, "new", None)], SCHEMA), dsn, "overwrite")
    assert rows(session) == [(2, "new", None)]
    write(spark.createDataFrame([], SCHEMA), dsn, "overwrite")
    assert rows(session) == []


def schema(**columns: Any) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        (
            schema(id=t.IntegerType(), naem=t.StringType()),
            {},
            "the table has no column naem. Rows: id int, naem string."
            " Table public.orders: id bigint, name text, amount numeric(10,2).",
        ),
        (schema(name=t.StringType()), {}, "the rows have no column id, which the table needs"),
        (
            schema(id=t.ArrayType(t.IntegerType())),
            {},
            "do not fit table public.orders: cannot cast type integer[] to bigint.",
        ),
        (
            schema(id=t.IntegerType(), name=schema(a=t.IntegerType())),
            {},
            'column "name" is struct<a:int>, which no column of a table can be',
        ),
        (schema(id=t.IntegerType()), {"keys": "name"}, "the rows have no column name"),
        (
            schema(id=t.IntegerType(), name=t.StringType()),
            {"keys": "name"},
            "table public.orders has no unique index on (name)",
        ),
        (
            schema(id=t.IntegerType()),
            {"dbtable": "nowhere"},
            'there is no table or view "nowhere"',
        ),
        (
            schema(id=t.IntegerType()),
            {"deleteFlag": "gone"},
            "option deleteFlag needs the option keys",
        ),
        (
            schema(id=t.IntegerType(), gone=t.IntegerType()),
            {"keys": "id", "deleteFlag": "gone"},
            "option deleteFlag names a boolean column",
        ),
        (schema(id=t.IntegerType()), {"key": "id"}, "there is no option key. Options are:"),
        (schema(id=t.IntegerType()), {"batchId": "1"}, "batchId numbers the batches of an appId"),
    ],
)
def test_what_does_not_fit_is_refused_before_any_task_runs(
    dsn: str, session: Session, columns: StructType, options: dict[str, str], said: str
) -> None:
    assert rows(session) == []
    with pytest.raises(TrunklineError) as caught:
        table_writer({"dsn": dsn, "dbtable": "orders"} | options, columns, overwrite=False)
    assert said in str(caught.value)


def test_overwriting_and_keys_contradict_each_other(dsn: str, session: Session) -> None:
    assert rows(session) == []
    options = {"dsn": dsn, "dbtable": "orders", "keys": "id"}
    with pytest.raises(Invalid, match="contradict"):
        table_writer(options, schema(id=t.IntegerType()), overwrite=True)


def test_a_stream_numbers_its_batches_itself(dsn: str, session: Session) -> None:
    assert rows(session) == []
    options = {"dsn": dsn, "dbtable": "orders", "batchId": "7", "appId": "x"}
    with pytest.raises(Invalid, match="batchId is for batch writes"):
        table_stream_writer(options, schema(id=t.IntegerType()), overwrite=False)


@pytest.mark.parametrize("lost", ["truncate", "drop table"])
def test_rows_that_a_task_staged_and_that_left_since_are_missed(
    dsn: str, session: Session, lost: str
) -> None:
    columns = schema(id=t.LongType())
    sink = table_writer({"dsn": dsn, "dbtable": "orders"}, columns, overwrite=False)
    first, second = (sink.write(iter([pa.record_batch({"id": [n]})])) for n in (1, 2))
    session.execute(f"{lost} trunkline.spark_staging_{second.number}".encode())
    with pytest.raises(PositionTrimmed, match="a task staged 1 row, 0 are there"):
        sink.commit([first, second])
    assert rows(session) == []


def test_rows_that_a_trigger_leaves_out_are_not_missed(dsn: str, session: Session) -> None:
    session.execute(
        "create function even() returns trigger language plpgsql as"
        " $$ begin return case when new.id % 2 = 0 then new end; end $$"
    )
    session.execute(
        "create trigger even before insert on orders for each row execute function even()"
    )
    columns = schema(id=t.LongType())
    sink = table_writer({"dsn": dsn, "dbtable": "orders"}, columns, overwrite=False)
    sink.commit([sink.write(iter([pa.record_batch({"id": [1, 2, 3]})]))])
    assert rows(session, "select id from orders") == [(2,)]


def test_a_refusal_reaches_the_user_of_spark_in_one_sentence(
    spark: SparkSession, dsn: str, session: Session
) -> None:
    assert rows(session) == []
    frame = spark.createDataFrame([], "id int, naem string")
    assert "the table has no column naem. Rows: id int, naem string." in refusal(frame, dsn)


def test_a_value_that_the_table_refuses_writes_nothing_of_the_batch(
    spark: SparkSession, dsn: str, session: Session
) -> None:
    session.execute("alter table orders add check (amount > 0)")
    frame = spark.createDataFrame(
        [(1, "a", Decimal(1)), (2, "b", Decimal(-1))], SCHEMA
    ).repartition(2)
    assert 'violates check constraint "orders_amount_check"' in refusal(frame, dsn)
    assert rows(session) == []
    assert ask(session, LEFT_OVER) == 0


def test_a_password_is_in_no_error(spark: SparkSession, dsn: str, session: Session) -> None:
    assert rows(session) == []
    secret = make_conninfo(dsn, password="s3cr3t-word", dbname="nowhere")
    frame = spark.createDataFrame([], SCHEMA)
    assert "s3cr3t-word" not in refusal(frame, secret)
    # as a URL, and in a task: the server takes any password, then the table refuses the row
    session.execute("alter table orders add check (amount > 0)")
    secret = make_conninfo(dsn, password="s3cr3t-word")
    bad = spark.createDataFrame([(1, "a", Decimal(-1))], SCHEMA)
    message = refusal(bad, secret)
    assert "orders_amount_check" in message
    assert "s3cr3t-word" not in message


def test_a_stream_upserts_and_a_complete_one_overwrites(
    spark: SparkSession, dsn: str, session: Session, tmp_path: Path
) -> None:
    session.execute("create table totals (bucket bigint, n bigint)")
    source = tmp_path / "in"
    spark.range(1000).selectExpr("id % 10 as id", "id as amount").write.parquet(str(source))
    stream = spark.readStream.schema("id bigint, amount bigint").parquet(str(source))

    def run(frame: DataFrame, name: str, mode: str, **options: str) -> None:
        query = (
            frame.writeStream.format("trunkline.table")
            .options(dsn=dsn, checkpointLocation=str(tmp_path / name), **options)
            .outputMode(mode)
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(60)

    run(stream, "upsert", "append", dbtable="orders", keys="id", orderBy="amount")
    assert rows(session, "select id, amount from orders order by 1") == [
        (number, Decimal(990 + number)) for number in range(10)
    ]
    counted = stream.groupBy((stream.id % 2).alias("bucket")).count()
    run(counted.withColumnRenamed("count", "n"), "complete", "complete", dbtable="totals")
    assert rows(session, "table totals order by 1") == [(0, 500), (1, 500)]
