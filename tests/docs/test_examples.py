"""Every example runs and prints what it should."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from trunkline.core.binaries import find_binaries

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

PRINTED = {
    "quickstart.py": """\
2 1 b'bob' b'paid 20'
3 1 b'alice' b'paid 10'
behind by 0
""",
    "exactly_once.py": """\
after the failure: {}
after the restart: {'alice': 17, 'bob': 6}
after a third run: {'alice': 17, 'bob': 6}
""",
    "shared_workers.py": """\
19 jobs are done
b'job 13' failed 2 times: unlucky number
""",
    "compacted_settings.py": """\
as written:
  1 b'theme' = b'light'
  2 b'size' = b'12'
  3 b'theme' = b'dark'
  4 b'beta' = None
  5 b'size' = b'14'
compacted, 2 messages left:
  3 b'theme' = b'dark'
  4 b'beta' = None
  5 b'size' = b'14'
and on it goes:
  3 b'theme' = b'dark'
  4 b'beta' = None
  5 b'size' = b'14'
  6 b'theme' = b'light'
""",
    "arrow_in_and_out.py": """\
stored as offsets 1 to 4
columns: offset, timestamp, key, value, headers
cellar 11.5
kitchen 22.0
""",
    "plain_sql.sql": """\
-- create a topic and append to it; the answer is partition, first and last offset
greetings|1
0|1|1
0|2|2
0|3|4
-- read: no group, nothing is remembered
2|fr|bonjour|{"polite": true}
3||hallo|
4||ciao|
-- an assigned group: say that this process lives, join, read after the position, commit
t
1|HELLO
2|BONJOUR
3|HALLO
translators|0|3|1
-- a shared group: claim a range for a minute, read it, acknowledge it
claimed 1 to 2, attempt 1
1|5
2|7
counters|2|2|0
-- leave in good order: what this process owned is free at once
1
""",
}


def run(example: str, dsn: str) -> str:
    path = EXAMPLES / example
    command: list[str | Path] = [sys.executable, path]
    if path.suffix == ".sql":
        psql = find_binaries().directory / "psql"
        command = [psql, dsn, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", path]
    done = subprocess.run(
        command,
        env=os.environ | {"TRUNKLINE_DSN": dsn},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return "".join(f"{line}\n" for line in done.stdout.splitlines() if line)


@pytest.mark.parametrize("example", PRINTED)
def test_an_example_prints_what_it_should(example: str, dsn: str) -> None:
    assert run(example, dsn) == PRINTED[example]
    if example in {"shared_workers.py", "plain_sql.sql"}:  # also the second time
        assert run(example, dsn) == PRINTED[example]


def test_every_example_is_run() -> None:
    elsewhere = {
        "tube_cache_and_mirror.py",  # tests/tube/test_example.py
        *("spark_join_stream.py", "spark_notebook.py", "spark_cluster.py", "spark_keys.py"),
    }
    found = {path.name for path in EXAMPLES.iterdir() if path.is_file()}
    assert found == set(PRINTED) | elsewhere


def test_the_quickstart_is_that_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    pasted = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
    assert pasted is not None
    assert (EXAMPLES / "quickstart.py").read_text("utf-8").endswith(f"\n\n{pasted[1]}")
