"""The examples of Spark run and print what they should; those that can share a JVM."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

EXAMPLES = Path(__file__).parents[2] / "examples"
TOGETHER = "import runpy, sys\nfor path in sys.argv[1:]: runpy.run_path(path, run_name='__main__')"


def run(*words: str | Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *words],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_stream_of_views_is_written_once_and_a_notebook_reads_a_topic(
    dsn: str, hasty_java: dict[str, str]
) -> None:
    examples = (EXAMPLES / "spark_join_stream.py", EXAMPLES / "spark_notebook.py")
    assert (
        run("-c", TOGETHER, *examples, TRUNKLINE_DSN=dsn, **hasty_java)
        == """\
after the first run: {'apple': 17, 'pear': 5}
after the power cut: {'apple': 17, 'melon': 2, 'pear': 9}
300 readings
   room   n  warmest
  attic 100    22.99
 cellar 100    17.98
kitchen 100    12.97
Row(min(offset)=11, max(offset)=20, count(1)=10)
"""
    )


def test_sync_runs_on_a_cluster_of_processes(dsn: str, hasty_java: dict[str, str]) -> None:
    assert (
        run(EXAMPLES / "spark_cluster.py", TRUNKLINE_DSN=dsn, **hasty_java)
        == """\
running on spark
6214 keys, 4286 rows in the copy, 0 differ
"""
    )
