"""Every page says what it guarantees, and names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(ROOT.glob("docs/**/*.md"))
NAMED = re.compile(r"\[`(?P<test>test_\w+)`\]\((?P<file>[^)\s]+\.py)\)")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=name)
def test_every_test_that_a_page_names_is_there(page: Path) -> None:
    text = page.read_text("utf-8")
    for found in NAMED.finditer(text):
        file = page.parent / found["file"]
        assert f"def {found['test']}(" in file.read_text("utf-8"), found[0]
    unlinked = set(re.findall(r"`(test_\w+)`", text)) - {
        each["test"] for each in NAMED.finditer(text)
    }
    assert not unlinked, f"{unlinked} lead nowhere"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_page_states_a_guarantee_near_its_top_and_names_the_proof(page: Path) -> None:
    top = "".join(page.read_text("utf-8").splitlines(keepends=True)[:20])
    assert "**Guarantee.**" in top
    assert NAMED.search(top)


def test_every_promise_of_the_readme_has_a_proof() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    promises = readme.partition("## Promises")[2].partition("\n## ")[0]
    rows = [line for line in promises.splitlines() if line.startswith("| **")]
    assert len(rows) >= 10
    for row in rows:
        assert NAMED.search(row), row
