"""What Spark itself adds to a stream, and a declarative pipeline into our sinks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable
from tests.fixtures.programs import environment

import trunkline
from trunkline.spark.delta_sink import DeltaSinkOptions
from trunkline.spark.events_sink import EventsSinkOptions
from trunkline.spark.iceberg_sink import IcebergSinkOptions
from trunkline.spark.kv_sink import KvSinkOptions
from trunkline.spark.log_sink import LogSinkOptions
from trunkline.spark.table_sink import TableSinkOptions
from trunkline.spark.tube_sink import TubeSinkOptions

if TYPE_CHECKING:
    from trunkline.spark.sink import SinkOptions

PAGE = Path(__file__).parents[2] / "docs/how-to/declare-a-pipeline.md"
FILE = re.compile(r"^```\w+ (?P<name>\S+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
SINKS: list[tuple[type[SinkOptions], dict[str, str]]] = [
    (LogSinkOptions, {}),
    (EventsSinkOptions, {}),
    (KvSinkOptions, {}),
    (TableSinkOptions, {"dbtable": "t"}),
    (TubeSinkOptions, {"tube": "lake", "shard": "0"}),
    (DeltaSinkOptions, {"path": "/lake"}),
    (IcebergSinkOptions, {"table": "lake.t", "warehouse": "/lake"}),
]


@pytest.mark.parametrize(("kind", "needed"), SINKS, ids=lambda each: getattr(each, "__name__", ""))
def test_what_spark_adds_to_the_options_of_a_stream_is_accepted(
    kind: type[SinkOptions], needed: dict[str, str]
) -> None:
    added = {"queryName": "orders", "checkpointLocation": "/checkpoints"}
    assert kind.parse({**needed, **added}) == kind.parse(needed)


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("java")
def test_a_declared_pipeline_writes_to_our_sinks(
    dsn: str, hasty: dict[str, str], tmp_path: Path
) -> None:
    pytest.importorskip("grpc")
    pytest.importorskip("yaml")
    for file in FILE.finditer(PAGE.read_text()):
        place = tmp_path / file["name"]
        place.parent.mkdir(exist_ok=True)
        place.write_text(file["text"].replace("/var/lib/etl", str(tmp_path)))
    with trunkline.connect_sync(dsn) as tl:
        for topic in ("orders", "large-orders"):
            tl.log.create(topic)
        tl.log.append("orders", [b'{"id": 1, "amount": 5}', b'{"id": 2, "amount": 5000}'])
        ran = run_pipeline(tmp_path, environment(TRUNKLINE_DSN=dsn, **hasty))
        assert ran.returncode == 0, ran.stdout + ran.stderr
        [large] = tl.log.read("large-orders", 0)
    assert large.value == b"2"
    rows = DeltaTable(str(tmp_path / "lake/orders")).to_pyarrow_table().to_pylist()
    assert sorted(row["id"] for row in rows) == [1, 2]


def run_pipeline(place: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    from trunkline.spark.java import find_java

    programs = Path(sys.executable).parent
    return subprocess.run(
        [programs / "spark-pipelines", "run"],
        cwd=place,
        env=env
        | {
            "JAVA_HOME": str(find_java()),
            "PYSPARK_PYTHON": sys.executable,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
