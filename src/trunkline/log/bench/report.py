"""The results as a table for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

_NUMBERS = ("ours /s", "base /s", "ours ms", "base ms", "WAL B", "result", "target")


def table(result: Mapping[str, Any]) -> Table:
    """One line per case: rates, p50/p99, WAL per message of both sides. Notes are in the JSON."""
    found = Table(title=_title(result), box=None, pad_edge=False, title_justify="left")
    found.add_column("cell", no_wrap=True)
    found.add_column("case")
    for name in _NUMBERS:
        found.add_column(name, justify="right", no_wrap=True)
    found.add_column("", no_wrap=True)
    for row in result["cells"]:
        ours, base = row["ours"] or {}, row["baseline"] or {}
        found.add_row(
            row["cell"],
            row["case"],
            _rate(ours),
            _rate(base),
            _percentiles(ours),
            _percentiles(base),
            "/".join(filter(None, (_wal(ours), _wal(base)))),
            f"{row['result']:g} {row['unit']}",
            row["target"] or "",
            _verdict(row["verdict"]),
        )
    return found


def curves(result: Mapping[str, Any]) -> list[str]:
    """How the p50 of a call went, in milliseconds, for those cells that watch it."""
    return [
        f"{row['cell']}: {row['case']}\n  " + " ".join(f"{point:g}" for point in curve)
        for row in result["cells"]
        if (curve := row["details"].get("curve_ms"))
    ]


def _title(result: Mapping[str, Any]) -> str:
    settings = ", ".join(f"{name} {value}" for name, value in result["settings"].items())
    return (
        f"{settings}; {result['cores']} cores; medians of {result['runs']} runs;"
        f" {result['seconds']:g} s; ms are p50/p99 of a call"
    )


def _rate(side: Mapping[str, Any]) -> str:
    if not side:
        return ""
    rate = side["rate"]
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if rate >= size:
            return f"{rate / size:.3g}{unit}"
    return f"{rate:.0f}"


def _percentiles(side: Mapping[str, Any]) -> str:
    return f"{side['p50_ms']:.3g}/{side['p99_ms']:.3g}" if side else ""


def _wal(side: Mapping[str, Any]) -> str:
    wal = side.get("wal_bytes_per_message")
    return "" if wal is None else f"{wal:.0f}"


def _verdict(verdict: str) -> str:
    colour = {"ok": "green", "below": "yellow"}.get(verdict)
    return f"[{colour}]{verdict}[/]" if colour else verdict
