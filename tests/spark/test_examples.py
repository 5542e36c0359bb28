"""The examples of Spark run and print what they should; they share a JVM, one after the other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

EXAMPLES = Path(__file__).parents[2] / "examples"
TOGETHER = "import runpy, sys\nfor path in sys.argv[1:]: runpy.run_path(path, run_name='__main__')"
PRINTED = {
    "spark_cluster.py": """\
running on spark
6214 keys, 4286 rows in the copy, 0 differ
""",
    "spark_join_stream.py": """\
after the first run: {'apple': 17, 'pear': 5}
after the power cut: {'apple': 17, 'melon': 2, 'pear': 9}
""",
    "spark_notebook.py": """\
300 readings
   room   n  warmest
  attic 100    22.99
 cellar 100    17.98
kitchen 100    12.97
Row(min(offset)=11, max(offset)=20, count(1)=10)
""",
}


def test_on_a_cluster_and_here_the_examples_print_what_they_should(
    dsn: str, hasty_java: dict[str, str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TOGETHER, *(EXAMPLES / name for name in PRINTED)],
        env=os.environ | hasty_java | {"TRUNKLINE_DSN": dsn},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(PRINTED.values())
