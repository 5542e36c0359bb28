"""The log measured against the plain design, in one run: ``trunkline log bench``, ``make bench``.

Each cell lets both designs take turns on one server and says by how much ours is faster, against
its target. What each side does and why is told in ``bench/METHODOLOGY.md``.
"""

from __future__ import annotations

import asyncio
import os
import platform
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from trunkline.core.errors import Invalid
from trunkline.log.bench.append import append, single
from trunkline.log.bench.callers import callers
from trunkline.log.bench.consume import consume
from trunkline.log.bench.idle import idle
from trunkline.log.bench.lab import open_lab
from trunkline.log.bench.latency import latency
from trunkline.log.bench.pinned import pinned
from trunkline.log.bench.shape import stored, topics
from trunkline.version import __version__

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from trunkline.log.bench.lab import Lab
    from trunkline.log.bench.measure import Row

    Cell = Callable[[Lab], AsyncGenerator[Row]]

CELLS: dict[str, Cell] = {
    "append": append,
    "consume": consume,
    "single": single,
    "callers": callers,
    "topics": topics,
    "stored": stored,
    "latency": latency,
    "idle": idle,
    "pinned": pinned,
}


def run(
    dsn: str,
    *,
    quick: bool = False,
    full: bool = False,
    only: str | None = None,
    runs: int | None = None,
    progress: Callable[[str], None] | None = None,
    cells: Mapping[str, Cell] = CELLS,
) -> dict[str, Any]:
    """Measure all cells, or those that ``only`` names (``"append,consume"``).

    The schema must be installed. Topics called ``bench.*`` and the schema ``bench_seed`` are made
    and removed again. ``quick`` shows that it works, ``full`` takes hours and gigabytes. Other
    capabilities pass ``cells`` of their own.
    """
    return asyncio.run(
        _run(
            dsn,
            chosen(cells, only),
            quick=quick,
            full=full,
            runs=runs or (3 if quick else 7),
            progress=progress or _silent,
        )
    )


def chosen(cells: Mapping[str, Cell], only: str | None) -> dict[str, Cell]:
    """The cells that ``only`` names, in its order; all of them without it."""
    names = list(cells) if only is None else [name.strip() for name in only.split(",")]
    if unknown := [name for name in names if name not in cells]:
        raise Invalid(f"there is no cell {unknown[0]!r}.", hint=f"There are: {', '.join(cells)}.")
    return {name: cells[name] for name in names}


async def _run(
    dsn: str,
    cells: Mapping[str, Cell],
    *,
    quick: bool,
    full: bool,
    runs: int,
    progress: Callable[[str], None],
) -> dict[str, Any]:
    begin = time.monotonic()
    rows: list[dict[str, Any]] = []
    async with open_lab(dsn, quick=quick, full=full, runs=runs) as lab:
        settings = lab.settings()
        for name, cell in cells.items():
            progress(name)
            async with aclosing(cell(lab)) as found:
                async for row in found:
                    rows.append(row.as_dict())
                    progress(f"{name}: {row.case}: {row.result:g} {row.unit} {row.verdict}")
            lab.clean()
    return {
        "trunkline": __version__,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "settings": settings,
        "durable": settings["fsync"] == "on" and settings["synchronous_commit"] != "off",
        "runs": runs,
        "seconds": round(time.monotonic() - begin, 1),
        "cells": rows,
    }


def _silent(_text: str) -> None:
    """Say nothing."""
