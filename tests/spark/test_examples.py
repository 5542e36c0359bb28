"""The tutorial and the examples of Spark, in one process: they share a JVM."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.fixtures.programs import environment

pytestmark = [pytest.mark.spark, pytest.mark.timeout(500), pytest.mark.usefixtures("java")]

ROOT = Path(__file__).parents[2]
RUNNER = ROOT / "tests/docs/page.py"
TUTORIAL = ROOT / "docs/tutorial/spark.md"
PRINTED = {
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
    "spark_keys.py": """\
a program reads {'by': 'night run', 'score': 42}
20 of 1000 keys have the best scores
999 keys in the copy, {'score': 100}
""",
}
ON_A_CLUSTER = {
    "spark_cluster.py": """\
running on spark
6214 keys, 4286 rows in the copy, 0 differ
""",
}


def test_the_tutorial_and_the_examples_here_and_on_a_cluster_print_what_they_should(
    dsn: str, hasty: dict[str, str], tmp_path: Path
) -> None:
    here, there = ([ROOT / "examples" / name for name in some] for some in (PRINTED, ON_A_CLUSTER))
    done = subprocess.run(
        [
            sys.executable,
            RUNNER,
            TUTORIAL,
            *here,
            Path(__file__).with_name("end_session.py"),
            *there,
        ],
        cwd=tmp_path,
        env=environment(TRUNKLINE_DSN=dsn, **hasty),
        capture_output=True,
        text=True,
        timeout=480,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join((PRINTED | ON_A_CLUSTER).values())
