"""Reports of audits as a page with a picture: every bucket a square, differing ones stand out."""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trunkline.spark.jobs.audit import Audit

_SIDE = 32
_SQUARE = 12
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; color: #1b1f24 }
h2 { margin-bottom: .2rem } .equal { color: #1a7f37 } .differs { color: #c62828 }
table { border-collapse: collapse } td, th { padding: .15rem .8rem .15rem 0; text-align: left }
code { background: #f3f4f6; padding: 0 .25rem } figure { margin: 1rem 0 }
figcaption { color: #57606a; font-size: .9em }
@media (prefers-color-scheme: dark) {
  body { background: #0d1117; color: #e6edf3 } code { background: #21262d }
  .equal { color: #3fb950 } .differs { color: #ff7b72 } figcaption { color: #8b949e } }
"""


def page(found: Sequence[Audit]) -> str:
    """One page for all tables; needs nothing but itself."""
    parts = "".join(map(_table, found))
    data = json.dumps([report.to_json() for report in found], indent=2)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Audit</title>'
        f"<style>{_STYLE}</style><h1>Audit</h1>{parts}"
        f"<details><summary>As JSON</summary><pre>{html.escape(data)}</pre></details></html>\n"
    )


def _table(report: Audit) -> str:
    kind = "equal" if report.equal else "differs"
    rows = {
        "Rows in the table": report.rows,
        "Rows downstream": report.target_rows,
        "Missing downstream": report.missing,
        "Only downstream": report.extra,
        "Different": report.different,
        "Repaired": report.repaired,
    }
    cells = "".join(f"<tr><th>{name}</th><td>{value:,}</td></tr>" for name, value in rows.items())
    keys = ", ".join(f"<code>{html.escape(key)}</code>" for key in report.sample)
    return (
        f"<h2>{html.escape(report.relation)} against {html.escape(report.target)}</h2>"
        f'<p class="{kind}">{html.escape(report.verdict())}</p>'
        f"<figure>{_picture(report)}<figcaption>{report.buckets} buckets of keys, "
        f"{len(report.differing_buckets)} of them differ.</figcaption></figure>"
        f"<table>{cells}</table>" + (f"<p>Keys that differ: {keys}</p>" if keys else "")
    )


def _picture(report: Audit) -> str:
    differing = set(report.differing_buckets)
    squares = []
    for bucket in range(report.buckets):
        y, x = divmod(bucket, _SIDE)
        colour = "#c62828" if bucket in differing else "#2da44e"
        squares.append(
            f'<rect x="{x * _SQUARE}" y="{y * _SQUARE}" width="{_SQUARE - 1}" '
            f'height="{_SQUARE - 1}" fill="{colour}"><title>bucket {bucket}</title></rect>'
        )
    width = _SIDE * _SQUARE
    height = -(-report.buckets // _SIDE) * _SQUARE
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{len(differing)} of {report.buckets} buckets differ">'
        f"{''.join(squares)}</svg>"
    )
