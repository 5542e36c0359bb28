"""The plans of what a session runs, function by function."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.fixtures.asking import column

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


class Hot:
    """Calls by name, whose texts name what is there when they are asked for."""

    tables: re.Pattern[str]
    most = 100  # rows that a call may look at in a slot

    def __init__(self, session: Session):
        self.session = session

    def calls(self) -> dict[str, str]:
        """Functions with their arguments, in the order in which they are called."""
        raise NotImplementedError

    def run(self) -> None:
        """Call everything once."""
        for name in self.calls():
            self.session.execute(self._text(name))

    def greedy(self) -> list[str]:
        """Call everything; who looks at more rows than it may, and how."""
        found = []
        for name in self.calls():
            text = self._text(name)
            with Plans(self.session) as plans:
                self.session.execute(text)
            found += [
                f"{name}: {kind} looks at {rows:.0f} rows of {table}"
                for table, kind, rows in plans.scans(self.tables)
                if rows > self.most
            ]
        return found

    def _text(self, name: str) -> str:
        return f"select * from trunkline.{self.calls()[name]}"


KNOWN = ("nothing", "plans of before", "few rows", "all")
"""What a session and the planner may know of tables that fill."""


def fill_knowing(hot: Hot, known: str, fill: str) -> None:
    """Fill the tables after, or before, they were looked at."""
    if known == "plans of before":
        for _ in range(8):  # until plans are kept
            hot.run()
    elif known == "few rows":
        analyse(hot.session)
    hot.session.execute(fill)
    if known == "all":
        analyse(hot.session)


def analyse(session: Session) -> None:
    """Let the planner know what is in the schema."""
    for name in column(
        session,
        "select oid::regclass::text from pg_class where relkind = 'r'"
        " and relnamespace = 'trunkline'::regnamespace",
    ):
        session.execute(f"analyze {name}")


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def looked_at(node: dict[str, Any]) -> float:
    rows: float = node.get("Actual Rows", 0) + node.get("Rows Removed by Filter", 0)
    return rows * node.get("Actual Loops", 1)
