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

IN_ONE_PROCESS = {
    "outbox_and_handler.py": """\
invoiced: [1, 2, 3, 5]
order 3 was tried 2 times
dead letter 4 after 3 tries: ValueError: nobody pays less than nothing
""",
    "signed_webhooks.py": """\
try 1 was answered with 500
try 2 was answered with 200
try 1 was answered with 200
try 1 was answered with 200
taken: [{'order': 1}, {'order': 2}, {'order': 3}]
forged: 401
""",
    "live_page.py": """\
shown first: ['no water', 'no heat', 'no rest']
created 4
created 5
left 1
left 5
updated 2
deleted 3
entered 1
shown at last: ['no water', 'no heat!', 'no light']
""",
    "two_zones.py": """\
put in the east, read in the west: {'name': 'Ann'}
cut off, east: east was first {'views': 3}
cut off, west: west was last {'likes': 1, 'views': 4}
together again: {'motto': 'west was last', 'page:1': {'likes': 1, 'views': 7}}
""",
    "over_http.py": """\
sent twice, answered alike: True
stored: [('1', 'paid 10'), ('2', 'paid 20')]
the stream tells of orders [1, 2]
the stream tells of orders [3, 4]
the first is answered with 200 and the late one with 412
the cart: {'items': 2}
TL422 retention: it takes a duration, got "soon". For example: 30s, 15 minutes, 12h, 7d, 1h 30m.
""",
}
RUNNER = """
import runpy, sys
for example in sys.argv[1:]:
    runpy.run_path(example, run_name="__main__")
"""


def run(example: str, dsn: str) -> str:
    path = EXAMPLES / example
    if path.suffix == ".sql":
        psql = find_binaries().directory / "psql"
        return output_of([psql, dsn, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", path], dsn)
    return output_of([sys.executable, path], dsn)


def output_of(command: list[str | Path], dsn: str) -> str:
    done = subprocess.run(
        command,
        env=os.environ | {"TRUNKLINE_DSN": dsn},
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    return "".join(f"{line}\n" for line in done.stdout.splitlines() if line)


@pytest.mark.parametrize("example", PRINTED)
def test_an_example_prints_what_it_should(example: str, dsn: str) -> None:
    assert run(example, dsn) == PRINTED[example]
    if example in {"shared_workers.py", "plain_sql.sql"}:  # also the second time
        assert run(example, dsn) == PRINTED[example]


def test_what_runs_services_prints_what_it_should(dsn: str) -> None:
    """In one process, which imports but once what all of them need."""
    examples = [EXAMPLES / name for name in IN_ONE_PROCESS]
    printed = output_of([sys.executable, "-c", RUNNER, *examples], dsn)
    assert printed == "".join(IN_ONE_PROCESS.values())


def test_every_example_is_run() -> None:
    elsewhere = {
        "live_page.html",  # served by live_page.py
        "tube_cache_and_mirror.py",  # tests/tube/test_example.py
        *("spark_join_stream.py", "spark_notebook.py", "spark_cluster.py", "spark_keys.py"),
    }
    found = {path.name for path in EXAMPLES.iterdir() if path.is_file()}
    assert found == set(PRINTED) | set(IN_ONE_PROCESS) | elsewhere


def test_the_quickstart_is_that_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    pasted = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
    assert pasted is not None
    assert (EXAMPLES / "quickstart.py").read_text("utf-8").endswith(f"\n\n{pasted[1]}")
