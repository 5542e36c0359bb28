"""The curves of the cell ``scale`` as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def draw(result: Mapping[str, Any], file: Path) -> None:
    """Rows per second over rows, a line for every job and number of cores (needs matplotlib)."""
    from matplotlib.figure import Figure

    found = [row["details"] for row in result["cells"] if row["cell"] == "scale"]
    jobs = list(dict.fromkeys(one["what"] for one in found))
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    places = figure.subplots(1, max(1, len(jobs)), squeeze=False)[0]
    for axes, job in zip(places, jobs, strict=False):
        for one in found:
            if one["what"] == job:
                rows, rates = zip(*one["rows_and_rows_per_second"], strict=True)
                label = f"{one['cores']} core{'s' if one['cores'] > 1 else ''}"
                axes.plot([n / 1e6 for n in rows], [r / 1e3 for r in rates], "o-", label=label)
        axes.set(title=job, xlabel="million rows", ylabel="thousand rows per second", xscale="log")
        sizes = sorted({n / 1e6 for one in found for n, _ in one["rows_and_rows_per_second"]})
        axes.set_xticks(sizes, [f"{n:g}" for n in sizes])
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(file, dpi=120)
