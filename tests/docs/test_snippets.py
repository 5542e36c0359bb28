"""The code of the pages runs, and prints what the pages say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fixtures.programs import environment

ROOT = Path(__file__).parents[2]
RUNNER = Path(__file__).with_name("page.py")
CODE = re.compile(r"^```(python|sql|sh)\b", re.MULTILINE)
GENERATED = re.compile(r"<!-- generated: .*?<!-- end -->", re.DOTALL)
# A newcomer pastes them one after the other, into one database.
FIRST = ["README.md", *(f"docs/tutorial/{name}.md" for name in ("log", "broker", "tube", "kv"))]
PAGES = [
    name
    for page in sorted(ROOT.glob("docs/**/*.md"))
    if CODE.search(GENERATED.sub("", page.read_text("utf-8")))
    and (name := str(page.relative_to(ROOT))) not in FIRST
    and name != "docs/tutorial/spark.md"  # tests/spark/test_examples.py
]


def run(*command: str | Path, cwd: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env=environment(**extra),
        capture_output=True,
        text=True,
        timeout=280,
    )


def first_example() -> tuple[str, str]:
    """The Python example at the top of the README, and what it prints."""
    readme = (ROOT / "README.md").read_text("utf-8")
    found = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", readme, re.DOTALL)
    assert found is not None
    return found[1], found[2]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("pages", [FIRST, *([page] for page in PAGES)], ids=" ".join)
def test_the_code_of_a_page_runs_and_prints_what_the_page_says(
    pages: list[str], dsn: str, tmp_path: Path
) -> None:
    for page in pages:
        done = run(RUNNER, ROOT / page, cwd=tmp_path, TRUNKLINE_DSN=dsn)
        assert done.returncode == 0, done.stderr


def test_the_first_example_works_when_pasted_without_a_database(home: Path, tmp_path: Path) -> None:
    code, output = first_example()
    done = run("-c", code, cwd=tmp_path, TRUNKLINE_HOME=str(home))
    assert done.stderr == ""
    assert done.stdout == output
