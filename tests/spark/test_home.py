"""Where Spark's Python processes find PySpark."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trunkline.spark.home import compiled, compiled_home

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest
    from pyspark.sql import SparkSession


def test_a_worker_imports_what_is_compiled(spark: SparkSession) -> None:
    def caches(rows: Iterator[Any]) -> Iterator[Any]:
        import py4j
        import pyarrow as pa
        import pyspark

        for _ in rows:
            found = [str(module.__spec__.cached) for module in (pyspark, py4j)]
            yield pa.RecordBatch.from_pydict({"cache": found})

    found = spark.range(1, numPartitions=1).mapInArrow(caches, "cache string").collect()
    assert all(Path(row.cache).exists() for row in found), found
    assert str(compiled_home()) in found[0].cache


def test_a_home_is_given_to_what_starts_in_the_block(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    for _ in range(2):  # made, and found
        with compiled():
            home = Path(os.environ["SPARK_HOME"])
            assert (home / "bin" / "spark-submit").exists()
            assert any((home / "jars").glob("spark-core*.jar"))
        assert "SPARK_HOME" not in os.environ
    assert [home] == list((tmp_path / "trunkline").iterdir())


def test_a_home_that_is_named_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    with compiled():
        assert os.environ["SPARK_HOME"] == "/opt/spark"
    assert os.environ["SPARK_HOME"] == "/opt/spark"


def test_a_home_is_done_without_where_there_is_no_room_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    taken = tmp_path / "taken"
    taken.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(taken))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    with compiled():
        assert "SPARK_HOME" not in os.environ
