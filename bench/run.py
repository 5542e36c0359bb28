"""``python -m bench.run``: measure everything on a server of its own, print a table, keep JSON."""

from __future__ import annotations

import json
import shutil
import tempfile
from argparse import ArgumentParser, Namespace
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from bench import log
from trunkline.core import migrate
from trunkline.core.embedded import Server
from trunkline.log.bench.report import table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Autovacuum would run in the turn of whoever comes next; see METHODOLOGY.md.
SETTINGS = {
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
    "min_wal_size": "2GB",
    "checkpoint_timeout": "30min",
    "autovacuum": "off",
}


def main(words: Sequence[str] | None = None) -> None:
    """Measure as the command line says. Results never make it fail."""
    options = _options(words)
    console = Console(stderr=True)
    with _database(options.dsn) as dsn:
        migrate.install(dsn)
        result = log.run(
            dsn,
            quick=options.quick,
            full=options.full,
            only=options.only,
            runs=options.runs,
            progress=lambda text: console.print(text, highlight=False, style="dim"),
        )
    Console().print(table(result))
    if not result["durable"]:
        console.print("fsync or synchronous_commit is off: these figures mean nothing.")
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


def _options(words: Sequence[str] | None) -> Namespace:
    parser = ArgumentParser(prog="python -m bench.run", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="under a minute: does it work?")
    parser.add_argument(
        "--full", action="store_true", help="the long forms: 1e7 messages, 1e6 rounds"
    )
    parser.add_argument("--only", metavar="NAMES", help=f"of {', '.join(log.CELLS)}; with commas")
    parser.add_argument("--runs", type=int, metavar="N", help="turns per side, 7 unless told")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here as well")
    parser.add_argument("--dsn", help="measure on this server instead of one of its own")
    return parser.parse_args(words)


@contextmanager
def _database(dsn: str | None) -> Iterator[str]:
    if dsn is not None:
        yield dsn
        return
    home = Path(tempfile.mkdtemp(prefix="trunkline-bench-"))
    home.chmod(0o755)
    try:
        with Server(home, "bench", settings=SETTINGS).use() as target:
            yield target.dsn
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
