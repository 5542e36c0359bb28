"""The code of the pages runs, and prints what the pages say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from trunkline.core.binaries import find_binaries
from trunkline.core.settings import PLACES

ROOT = Path(__file__).parents[2]
RUNNER = Path(__file__).with_name("page.py")
CODE = re.compile(r"^```(python|sql|sh)\b", re.MULTILINE)
GENERATED = re.compile(r"<!-- generated: .*?<!-- end -->", re.DOTALL)
PAGES = [
    str(page.relative_to(ROOT))
    for page in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")))
    if CODE.search(GENERATED.sub("", page.read_text("utf-8")))
]
STARTS_SPARK = "docs/tutorial/spark.md"


def run(*command: str | Path, cwd: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env=environment(**extra),
        capture_output=True,
        text=True,
        timeout=280,
    )


def environment(**extra: str) -> dict[str, str]:
    """That of a person who has this virtual environment active, and no database of their own."""
    foreign = {"DATABASE_URL", *PLACES}
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in foreign and not name.startswith("TRUNKLINE_")
    }
    folders = [str(Path(sys.executable).parent), str(find_binaries().directory), kept["PATH"]]
    return kept | {"PATH": os.pathsep.join(folders)} | extra


def first_example() -> tuple[str, str]:
    """The Python example at the top of the README, and what it prints."""
    readme = (ROOT / "README.md").read_text("utf-8")
    found = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", readme, re.DOTALL)
    assert found is not None
    return found[1], found[2]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.spark) if page == STARTS_SPARK else page
        for page in PAGES
    ],
)
def test_the_code_of_a_page_runs_and_prints_what_the_page_says(
    page: str, dsn: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    java = request.getfixturevalue("hasty_java") if page == STARTS_SPARK else {}
    done = run(RUNNER, ROOT / page, cwd=tmp_path, TRUNKLINE_DSN=dsn, **java)
    assert done.returncode == 0, done.stderr


def test_the_first_example_works_when_pasted_without_a_database(home: Path, tmp_path: Path) -> None:
    code, output = first_example()
    done = run("-c", code, cwd=tmp_path, TRUNKLINE_HOME=str(home))
    assert done.stderr == ""
    assert done.stdout == output
