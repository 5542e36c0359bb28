"""Cell `write`: rows into a table, exactly once, against an append that is not."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING
from uuid import uuid4

from psycopg import sql

from trunkline.log.bench.measure import Target, compare
from trunkline.spark.bench.baseline import find_baseline
from trunkline.spark.bench.ground import (
    SCHEMA,
    fill_topic,
    read_topic,
    schema,
    spark_session,
    turn,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from trunkline.log.bench.lab import Lab
    from trunkline.log.bench.measure import Row

_TABLE = f"{SCHEMA}.written"


async def write(lab: Lab) -> AsyncGenerator[Row]:
    """Rows that lie in Spark's memory, into a table without an index."""
    n = 20_000 if lab.quick else 500_000
    app, numbers = f"bench {uuid4()}", count()
    with schema(lab), spark_session() as spark:
        lab.watcher.execute(
            sql.SQL('create table {} (key bytea, value bytea, "offset" bigint)').format(
                sql.Identifier(SCHEMA, "written")
            )
        )
        theirs = find_baseline(spark, lab.dsn)
        rows = read_topic(spark, lab, fill_topic(lab, n, size=100), "key,value,offset").cache()
        assert rows.count() == n

        def once() -> None:
            rows.write.format("trunkline.table").mode("append").options(
                dsn=lab.dsn, dbtable=_TABLE, appId=app, batchId=str(next(numbers))
            ).save()

        def emptied() -> None:
            table = sql.Identifier(SCHEMA, "written")
            found = lab.watcher.execute(sql.SQL("select count(*) from {}").format(table)).fetchone()
            assert found in {(0,), (n,)}, found
            lab.watcher.execute(sql.SQL("truncate {}").format(table))

        row = await compare(
            lab,
            "write",
            f"{n} rows of 100 B into a table, exactly once",
            ours=turn(n, once, before=emptied),
            baseline=turn(n, lambda: theirs.append(rows, _TABLE), before=emptied),
            target=Target(at_least=1.0),
        )
        emptied()
        rows.unpersist()
        lab.watcher.execute("delete from trunkline.spark_ledger where app = %s", [app])
        yield replace(row, note=f"baseline: {theirs.name}, append")
