"""What Spark forks its Python workers from: a process that has our modules and Arrow's already.

A worker is started for every slot of every stage that reads or writes; each would import psycopg,
PyArrow, pandas (for ADBC) and us anew, which is most of its start. A fork does not take threads
along, so nothing that starts one may be loaded here: NumPy starts none where Spark gives a task one
core, PyArrow's allocator none where it is told so.

A worker collects garbage after every task. What was loaded here is none, and is not looked through
(`trunkline.spark.forked` says why).
"""

from __future__ import annotations

import gc
import os
from importlib import import_module

from pyspark import daemon

MODULES = (
    "pyspark.sql.datasource",
    "pyspark.sql.streaming.datasource",
    "trunkline.log.calls",
    "trunkline.spark.calls",
    "trunkline.spark.connection",
    "trunkline.spark.options",
    "trunkline.spark.positions",
    "trunkline.tube.calls",
)
ARROW = (
    "pyspark.worker",
    "adbc_driver_postgresql.dbapi",
    "trunkline.spark.log_rows",
    "trunkline.spark.log_source",
    "trunkline.spark.table_sink",
    "trunkline.spark.table_source",
    "trunkline.spark.tube_source",
)


def load() -> None:
    """Import what workers will ask for, for good."""
    os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")
    alone = os.environ.get("OMP_NUM_THREADS") == "1"
    for name in (*MODULES, *(ARROW if alone else ())):
        import_module(name)
    gc.freeze()


if __name__ == "__main__":
    load()
    daemon.manager()
