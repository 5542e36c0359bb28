"""What Spark forks its Python workers from: a process that has our modules already.

A worker is started for every slot and for every kind of question to a source (its schema, its plan,
its commit); each would import psycopg, pydantic and us anew, which is most of its start. Nothing
that starts a thread may be loaded here, for a fork does not take threads along: PyArrow comes
after it.
"""

from __future__ import annotations

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


def load() -> None:
    """Import what workers will ask for."""
    for name in MODULES:
        import_module(name)


if __name__ == "__main__":
    load()
    daemon.manager()
