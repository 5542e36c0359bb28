"""Spark's measurements run, and both sides of each see the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from unittest.mock import MagicMock

import psycopg
import pytest
from bench.picture import draw
from pyspark.sql import SparkSession as Session

from trunkline.log.bench.report import table
from trunkline.spark.bench import CELLS, run
from trunkline.spark.bench.baseline import Jdbc, Tuples, find_baseline
from trunkline.spark.bench.memory import Peak, watch_memory
from trunkline.testing import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

QUICK = ("write",)  # the others by name: -m soak


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "cell",
    [cell if cell in QUICK else pytest.param(cell, marks=pytest.mark.soak) for cell in CELLS],
)
def test_every_cell_runs_and_leaves_nothing_behind(dsn: str, cell: str, tmp_path: Path) -> None:
    result = run(dsn, quick=True, only=cell)
    assert result["cells"]
    assert all(row["cell"] == cell for row in result["cells"])
    assert all(row["result"] > 0 for row in result["cells"])
    assert table(result).row_count == len(result["cells"])
    json.dumps(result)
    if cell == "scale":
        draw(result, tmp_path / "curves.png")
        assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    with psycopg.connect(dsn) as connection:
        left = connection.execute(
            "select (select count(*) from trunkline.log_topic),"
            " (select count(*) from trunkline.tube),"
            " (select count(*) from trunkline.spark_ledger),"
            " (select count(*) from pg_namespace where nspname = 'bench_spark')"
        ).fetchone()
    assert left == (0, 0, 0, 0)
    assert Session.getActiveSession() is not None  # one that was there stays


def test_jdbc_is_the_baseline_where_its_driver_and_a_port_are(spark: SparkSession) -> None:
    loaded = MagicMock()
    conf = {"spark.driver.extraClassPath": "/jars/postgresql.jar"}
    loaded.sparkContext.getConf.return_value = conf
    tcp = "postgresql://somebody:secret@127.0.0.1:5433/shop"
    found = find_baseline(loaded, tcp)
    assert isinstance(found, Jdbc)
    assert found.url.startswith("jdbc:postgresql://127.0.0.1:5433/shop")
    assert found.account == {"user": "somebody", "password": "secret"}
    assert isinstance(find_baseline(loaded, "host=/sockets dbname=shop"), Tuples)
    assert isinstance(find_baseline(spark, tcp), Tuples)


def test_the_highest_memory_is_kept() -> None:
    peak = Peak()
    with watch_memory(peak):
        taken = bytearray(64 << 20)
        taken[:: 1 << 12] = b"x" * (len(taken) >> 12)
        wait_until(lambda: peak.driver > len(taken))
    assert "driver" in str(peak)
