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
PAGES = [
    "README.md",
    "docs/tutorial/log.md",
    "docs/how-to/exactly-once.md",
    "docs/how-to/from-any-language.md",
    "docs/how-to/retention-and-compaction.md",
    "docs/how-to/run-in-production.md",
    "docs/how-to/share-work-between-readers.md",
    "docs/reference/config.md",
    "docs/reference/errors.md",
    "docs/reference/record-batch.md",
]
CODE = re.compile(r"^```(python|sql|sh)\b", re.MULTILINE)
GENERATED = re.compile(r"<!-- generated: .*?<!-- end -->", re.DOTALL)


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


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs_and_prints_what_the_page_says(
    page: str, dsn: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, RUNNER, ROOT / page],
        cwd=tmp_path,
        env=environment(TRUNKLINE_DSN=dsn),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr


def test_every_page_with_code_is_run() -> None:
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
    with_code = {
        str(page.relative_to(ROOT))
        for page in pages
        if CODE.search(GENERATED.sub("", page.read_text("utf-8")))
    }
    assert with_code == set(PAGES)


def test_the_first_example_works_when_pasted_without_a_database(home: Path, tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    found = re.search(
        r"```python\n(?P<code>.*?)```\n\n```text\n(?P<output>.*?)```", readme, re.DOTALL
    )
    assert found is not None
    code = tmp_path / "pasted.py"
    code.write_text(found["code"])
    done = subprocess.run(
        [sys.executable, code],
        cwd=tmp_path,
        env=environment(TRUNKLINE_HOME=str(home)),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.stderr == ""
    assert done.stdout == found["output"]
