"""What the cells stand on: a session, topics and tables with the same content, turns."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psycopg import sql

from trunkline.log import calls
from trunkline.log.batches import pack
from trunkline.log.bench.measure import Slice
from trunkline.log.bench.messages import make_keys, make_messages
from trunkline.spark.session import session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from trunkline.log.bench.lab import Lab
    from trunkline.log.bench.measure import Side

SCHEMA = "bench_spark"
PARTITIONS = 2
BATCH = 1_000  # messages of a record batch
_SAMPLE = 10 * BATCH
_JARS = ("/usr/share/java/postgresql.jar", "/usr/share/java/postgresql-jdbc.jar")
_ROWS = """
insert into {table}
select s.key, s.value, {topic}, b.number %% {partitions},
       (b.number / {partitions})::bigint * {batch} + m.number + 1, clock_timestamp()
  from generate_series(0, %s / {batch} - 1) b (number)
  cross join generate_series(0, {batch} - 1) m (number)
  join {sample} s on s.place = (b.number * {batch} + m.number) %% {places}
 order by 4, 5"""


@contextmanager
def spark_session(master: str | None = None) -> Iterator[SparkSession]:
    """The session of this process; one that was made here ends here."""
    from pyspark.sql import SparkSession

    known = SparkSession.getActiveSession()
    if known is not None:
        yield known
        return
    conf = {"spark.driver.memory": "2g"}
    if jar := find_jar():
        conf["spark.driver.extraClassPath"] = str(jar)
    made = session("bench", master, **conf)
    try:
        yield made
    finally:
        made.stop()


def find_jar() -> Path | None:
    """Postgres' JDBC driver: ``TRUNKLINE_JDBC``, or where Debian and Fedora put it."""
    places = [os.environ.get("TRUNKLINE_JDBC"), *_JARS]
    return next((Path(place) for place in places if place and Path(place).is_file()), None)


@contextmanager
def schema(lab: Lab) -> Iterator[None]:
    """A schema for tables, which leaves with them."""
    name = sql.Identifier(SCHEMA)
    lab.watcher.execute(sql.SQL("drop schema if exists {} cascade").format(name))
    lab.watcher.execute(sql.SQL("create schema {}").format(name))
    try:
        yield
    finally:
        lab.watcher.execute(sql.SQL("drop schema {} cascade").format(name))


def fill_topic(lab: Lab, n: int, *, size: int) -> str:
    """A topic of ``n`` messages with keys, in record batches of a thousand."""
    topic = lab.create("spark", partitions=PARTITIONS)
    messages, keys = make_messages(_SAMPLE, size=size), make_keys(_SAMPLE)
    batches = [
        pack(messages[place : place + BATCH], keys=keys[place : place + BATCH])
        for place in range(0, _SAMPLE, BATCH)
    ]
    for number in range(n // BATCH):
        batch = batches[number % len(batches)]
        lab.db.run(calls.append_batch(topic, number % PARTITIONS, batch))
    return topic


def fill_table(lab: Lab, topic: str, n: int, *, size: int) -> str:
    """A table with the messages that `fill_topic` puts into a topic, a row each."""
    table, sample = sql.Identifier(SCHEMA, "messages"), sql.Identifier(SCHEMA, "sample")
    lab.watcher.execute(sql.SQL("drop table if exists {}, {}").format(table, sample))
    lab.watcher.execute(
        sql.SQL(
            'create table {} (key bytea, value bytea, topic text, partition int, "offset" bigint,'
            ' timestamp timestamptz, primary key (partition, "offset"))'
        ).format(table)
    )
    lab.watcher.execute(
        sql.SQL("create table {} (place int primary key, key bytea, value bytea)").format(sample)
    )
    with (
        lab.watcher.cursor() as cursor,
        cursor.copy(sql.SQL("copy {} from stdin").format(sample)) as copy,
    ):
        pairs = zip(make_keys(_SAMPLE), make_messages(_SAMPLE, size=size), strict=True)
        for place, (key, value) in enumerate(pairs):
            copy.write_row((place, key, value))
    lab.watcher.execute(
        sql.SQL(_ROWS).format(
            table=table,
            sample=sample,
            topic=topic,
            partitions=PARTITIONS,
            batch=BATCH,
            places=_SAMPLE,
        ),
        [n],
    )
    lab.watcher.execute(sql.SQL("vacuum (analyze) {}").format(table))
    return f"{SCHEMA}.messages"


def read_topic(spark: SparkSession, lab: Lab, topic: str, columns: str | None = None) -> DataFrame:
    """All of a topic, as a batch."""
    reader = spark.read.format("trunkline.log").option("dsn", lab.dsn).option("subscribe", topic)
    if columns is not None:
        reader = reader.option("columns", columns)
    return reader.load()


def turn(n: int, action: Callable[[], Any], *, before: Callable[[], Any] | None = None) -> Side:
    """A side whose turn is one job over ``n`` rows; what comes ``before`` is not timed."""

    async def side(_seconds: float) -> Slice:
        if before is not None:
            before()
        begin = time.perf_counter()
        action()
        took = time.perf_counter() - begin
        return Slice(n, took, [took])

    return side
