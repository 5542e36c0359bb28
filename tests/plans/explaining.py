"""The plans of what a session runs, function by function."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from tests.fixtures.asking import Session


def load_explaining(session: Session) -> None:
    """Make `Plans` possible, or skip the test where it is not."""
    try:
        session.execute("load 'auto_explain'")
    except psycopg.Error as error:
        pytest.skip(f"no auto_explain here: {error}")


class Plans:
    """The plans of everything that a session runs, told by auto_explain."""

    def __init__(self, session: Session):
        self.session = session
        self.found: list[dict[str, Any]] = []

    def __enter__(self) -> Plans:
        self.session.add_notice_handler(self._take)
        for setting in (
            "auto_explain.log_min_duration = 0",
            "auto_explain.log_nested_statements = on",
            "auto_explain.log_analyze = on",
            "auto_explain.log_format = json",
            "client_min_messages = log",
        ):
            self.session.execute(f"set {setting}")
        self.found.clear()
        return self

    def __exit__(self, *_error: object) -> None:
        self.session.execute("reset all")
        self.session.remove_notice_handler(self._take)

    def _take(self, notice: psycopg.errors.Diagnostic) -> None:
        text = notice.message_primary or ""
        if "plan:" in text:
            self.found.append(json.loads(text.split("plan:", 1)[1]))

    def scans(self, tables: re.Pattern[str]) -> list[tuple[str, str, float]]:
        """Table, kind and rows looked at, of every scan of such a table."""
        return [
            (node["Relation Name"], node["Node Type"], looked_at(node))
            for plan in self.found
            for node in nodes(plan["Plan"])
            if tables.match(node.get("Relation Name", "")) and node["Node Type"].endswith("Scan")
        ]


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def looked_at(node: dict[str, Any]) -> float:
    rows: float = node.get("Actual Rows", 0) + node.get("Rows Removed by Filter", 0)
    return rows * node.get("Actual Loops", 1)
