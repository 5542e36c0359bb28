"""Cell `sync`: changed rows into a Delta table against Spark's plain copy of the same table."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from psycopg import sql

from trunkline.log.bench.measure import Contender, Target, compare_all
from trunkline.spark.bench.ground import PARTITIONS, SCHEMA, schema, spark_session, turn
from trunkline.spark.bench.memory import Peak, watch_memory
from trunkline.spark.jobs import sync as job
from trunkline.tube import calls

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from pyspark.sql import SparkSession

    from trunkline.log.bench.lab import Lab
    from trunkline.log.bench.measure import Row

_TABLE = f"{SCHEMA}.orders"
_CREATE = """
create table {} (id bigint primary key, customer int, status text, total numeric(12, 2), note text)
"""
_INSERT = """
insert into {} select g, g %% 1000, 'open', g * 1.5, 'a note of some length ' || g
from generate_series(1, %s) g"""


async def sync(lab: Lab) -> AsyncGenerator[Row]:
    """Every row is changed before a turn: into a Delta table that is new, and one that has them."""
    n = 20_000 if lab.quick else 1_000_000
    numbers = count()
    with orders(lab, n) as tube, spark_session() as spark, TemporaryDirectory() as place:
        peaks = {"new": Peak(), "same": Peak()}

        def into(name: str, path: str) -> None:
            with watch_memory(peaks[name]):
                done = job.sync(spark, tube, f"delta:{path}", dsn=lab.dsn, once=True)
            assert done.keys == n, done

        rows = await compare_all(
            lab,
            "sync",
            {
                f"{n} changed rows into a new Delta table vs plain copy": Contender(
                    turn(
                        n,
                        lambda: into("new", f"{place}/{next(numbers)}"),
                        before=lambda: change(lab),
                    ),
                    Target(at_least=0.3),
                ),
                f"{n} changed rows into the Delta table that has them vs plain copy": Contender(
                    turn(n, lambda: into("same", f"{place}/same"), before=lambda: change(lab)),
                    Target(at_least=0.3),
                ),
            },
            baseline=turn(n, lambda: copy(spark, lab, f"{place}/copy")),
        )
        for row, peak in zip(rows, peaks.values(), strict=True):
            yield replace(row, note=str(peak))


@contextmanager
def orders(lab: Lab, n: int) -> Iterator[str]:
    """A table of ``n`` rows that is attached to a tube; the tube's name."""
    tube = f"{lab.prefix}.tube"
    with schema(lab):
        table = sql.Identifier(SCHEMA, "orders")
        lab.watcher.execute(sql.SQL(_CREATE).format(table))
        lab.watcher.execute(sql.SQL(_INSERT).format(table), [n])
        lab.db.run(calls.ensure(tube))
        lab.db.run(calls.attach(tube, _TABLE))
        try:
            yield tube
        finally:
            lab.db.run(calls.drop(tube, force=True))


def change(lab: Lab) -> None:
    """Change every row, and leave the table as upkeep would."""
    table = sql.Identifier(SCHEMA, "orders")
    lab.watcher.execute(sql.SQL("update {} set total = total + 1").format(table))
    lab.watcher.execute(sql.SQL("vacuum (analyze) {}").format(table))
    lab.maintain()


def copy(spark: SparkSession, lab: Lab, path: str) -> None:
    """The whole table to Parquet, by as many tasks."""
    spark.read.format("trunkline.table").options(
        dsn=lab.dsn, dbtable=_TABLE, minPartitions=str(PARTITIONS)
    ).load().write.mode("overwrite").parquet(path)
