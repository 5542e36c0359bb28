"""The results as a table for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

_COLUMNS = (
    ("cell", "left"),
    ("case", "left"),
    ("ours/s", "right"),
    ("base/s", "right"),
    ("ours p50/p99 ms", "right"),
    ("base p50/p99 ms", "right"),
    ("WAL B/msg", "right"),
    ("result", "right"),
    ("target", "right"),
    ("", "left"),
)


def table(result: Mapping[str, Any]) -> Table:
    """One line per case; notes are in the JSON."""
    found = Table(title=_title(result), box=None, pad_edge=False)
    for name, justify in _COLUMNS:
        found.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in result["cells"]:
        ours, base = row["ours"] or {}, row["baseline"] or {}
        found.add_row(
            row["cell"],
            row["case"],
            _rate(ours),
            _rate(base),
            _percentiles(ours),
            _percentiles(base),
            "/".join(_wal(side) for side in (ours, base) if _wal(side)),
            f"{row['result']:g} {row['unit']}",
            row["target"] or "",
            _verdict(row["verdict"]),
        )
    return found


def _title(result: Mapping[str, Any]) -> str:
    settings = ", ".join(f"{name}={value}" for name, value in result["settings"].items())
    return f"{settings}; medians of {result['runs']} runs; {result['seconds']:g} s"


def _rate(side: Mapping[str, Any]) -> str:
    return f"{side['rate']:,.0f}" if side else ""


def _percentiles(side: Mapping[str, Any]) -> str:
    return f"{side['p50_ms']:.2f}/{side['p99_ms']:.2f}" if side else ""


def _wal(side: Mapping[str, Any]) -> str:
    wal = side.get("wal_bytes_per_message")
    return "" if wal is None else f"{wal:.0f}"


def _verdict(verdict: str) -> str:
    colour = {"ok": "green", "below": "yellow"}.get(verdict)
    return f"[{colour}]{verdict}[/]" if colour else verdict
