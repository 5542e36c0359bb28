"""The jobs of a tube against a lake in a bucket: started by `test_s3`, as a user would."""

from __future__ import annotations

import sys

import trunkline
from trunkline.spark import audit, backfill, session, sync

LAKE = "delta:s3://lake/orders"


def main(dsn: str) -> None:
    spark = session("s3", master="local[2]")
    backfill(spark, "lake", LAKE, dsn=dsn)
    with trunkline.connect_sync(dsn) as tl, tl.db.connection() as connection:
        connection.execute("delete from orders where id <= 10")
        connection.execute("update orders set note = 'new' where id = 11")
    print(sync(spark, "lake", LAKE, dsn=dsn, once=True).keys)
    (report,) = audit(spark, "lake", LAKE, dsn=dsn, patience=0)
    print(report.rows, report.target_rows, report.equal)
    rows = spark.read.format("trunkline.delta").load("s3://lake/orders")
    print(rows.where("note = 'new'").count())
    spark.stop()


main(sys.argv[1])
