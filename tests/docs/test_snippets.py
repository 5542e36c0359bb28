"""The code of the pages runs, and prints what the pages say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.fixtures.postgres import new_database, temporary_home

from trunkline.core.binaries import find_binaries
from trunkline.core.settings import PLACES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.postgres import AnyServer

    Runs = dict[str, Future[subprocess.CompletedProcess[str]]]

ROOT = Path(__file__).parents[2]
RUNNER = Path(__file__).with_name("page.py")
PAGES = [
    "docs/tutorial/log.md",  # the longest first
    "README.md",
    "docs/how-to/exactly-once.md",
    "docs/how-to/from-any-language.md",
    "docs/how-to/retention-and-compaction.md",
    "docs/how-to/run-in-production.md",
    "docs/how-to/share-work-between-readers.md",
    "docs/reference/config.md",
    "docs/reference/errors.md",
    "docs/reference/record-batch.md",
]
FIRST = "the first example"
CODE = re.compile(r"^```(python|sql|sh)\b", re.MULTILINE)
GENERATED = re.compile(r"<!-- generated: .*?<!-- end -->", re.DOTALL)


@pytest.fixture(scope="module")
def runs(
    server: AnyServer, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Runs]:
    """All pages, a few at a time: they mostly wait. Each has a database and a directory."""

    def run(*command: str | Path, **extra: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path_factory.mktemp("page"),
            env=environment(**extra),
            capture_output=True,
            text=True,
            timeout=100,
        )

    def run_page(page: str) -> subprocess.CompletedProcess[str]:
        with new_database(server, template=template) as name:
            return run(RUNNER, ROOT / page, TRUNKLINE_DSN=server.dsn(name))

    def run_first() -> subprocess.CompletedProcess[str]:
        with temporary_home() as home:
            return run("-c", first_example()[0], TRUNKLINE_HOME=str(home))

    with ThreadPoolExecutor(3) as threads:
        yield {page: threads.submit(run_page, page) for page in PAGES} | {
            FIRST: threads.submit(run_first)
        }
        threads.shutdown(cancel_futures=True)


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


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs_and_prints_what_the_page_says(page: str, runs: Runs) -> None:
    done = runs[page].result()
    assert done.returncode == 0, done.stderr


def test_the_first_example_works_when_pasted_without_a_database(runs: Runs) -> None:
    done = runs[FIRST].result()
    assert done.stderr == ""
    assert done.stdout == first_example()[1]


def test_every_page_with_code_is_run() -> None:
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
    with_code = {
        str(page.relative_to(ROOT))
        for page in pages
        if CODE.search(GENERATED.sub("", page.read_text("utf-8")))
    }
    assert with_code == set(PAGES)
