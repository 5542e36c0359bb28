"""A stream of page views meets a table of products and ends in a table: every view once.

Each run reads what came since the last one and ends (AvailableNow). The second run is that of a
driver that comes back after a power cut: the rows of the first were committed, its checkpoint did
not get to know. Spark does that batch again, the sink finds it in its ledger and writes nothing;
then comes what is new.
"""

import json
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import trunkline
from trunkline.spark import session

TABLES = """
drop table if exists example_product, example_view;
create table example_product (id bigint primary key, name text);
insert into example_product values (1, 'apple'), (2, 'pear'), (3, 'melon');
create table example_view (product text, seconds int, viewed_at timestamptz);
"""


def prepare(tl: trunkline.SyncPlatform) -> None:
    with tl.transaction() as connection:
        connection.execute(TABLES)
    with suppress(trunkline.NotFound):
        tl.log.delete("views")
    tl.log.create("views", partitions=2)


def look(tl: trunkline.SyncPlatform, views: Iterable[tuple[int, int]]) -> None:
    for product, seconds in views:
        value = json.dumps({"product": product, "seconds": seconds})
        tl.log.append("views", [value], keys=[str(product)])


def joined(spark: SparkSession) -> DataFrame:
    products = spark.read.format("trunkline.table").option("dbtable", "example_product").load()
    views = (
        spark.readStream.format("trunkline.log")
        .option("subscribe", "views")
        .option("startingOffsets", "earliest")
        .option("columns", "value,timestamp")
        .load()
    )
    parsed = f.from_json(f.col("value").cast("string"), "product bigint, seconds int")
    return (
        views.select(parsed.alias("view"), f.col("timestamp").alias("viewed_at"))
        .join(products, f.col("view.product") == products.id)
        .select(products.name.alias("product"), "view.seconds", "viewed_at")
    )


def run(spark: SparkSession, checkpoint: Path) -> None:
    query = (
        joined(spark)
        .writeStream.format("trunkline.table")
        .option("dbtable", "example_view")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def forget_last_commit(checkpoint: Path) -> None:
    commits = checkpoint / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    for path in (commits / str(last), commits / f".{last}.crc"):
        path.unlink(missing_ok=True)


def seconds_by_product(tl: trunkline.SyncPlatform) -> dict[str, int]:
    with tl.transaction() as connection:
        rows = connection.execute("select product, sum(seconds) from example_view group by 1")
        return dict(sorted(rows.fetchall()))


with trunkline.connect_sync() as tl, tempfile.TemporaryDirectory() as scratch:
    prepare(tl)
    spark = session("views")
    checkpoint = Path(scratch)
    look(tl, [(1, 10), (2, 5), (1, 7)])
    run(spark, checkpoint)
    print("after the first run:", seconds_by_product(tl))
    forget_last_commit(checkpoint)
    look(tl, [(3, 2), (2, 4)])
    run(spark, checkpoint)
    print("after the power cut:", seconds_by_product(tl))
