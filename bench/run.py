"""``python -m bench.run``: measure on a server of its own, print a table, keep JSON."""

from __future__ import annotations

import gc
import json
import shutil
import socket
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from rich.console import Console

from bench.picture import draw
from trunkline.core import migrate
from trunkline.core.embedded import DATABASE, SUPERUSER, Server
from trunkline.core.tcp import Address
from trunkline.log.bench.report import curves, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CAPABILITIES = ("log", "broker", "live", "tube", "kv", "spark")

# Autovacuum would run in the turn of whoever comes next; see METHODOLOGY.md.
SETTINGS = {
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
    "min_wal_size": "2GB",
    "checkpoint_timeout": "30min",
    "autovacuum": "off",
}

_WAL_MEGABYTES = 1500
_PIPE_WIDTH = 150  # columns, where there is no terminal to ask


def main(words: Sequence[str] | None = None) -> None:
    """Measure as the command line says. Results never make it fail."""
    options = _options(words)
    talk = Console(stderr=True, highlight=False, style="dim")
    cells = import_module(f"bench.{options.capability}")  # Spark is not for everybody
    with _database(options.dsn, tcp=options.capability == "spark") as dsn:
        migrate.install(dsn)
        if options.dsn is None and not options.quick:
            _warm_up(dsn)
        gc.freeze()  # as `trunkline up` does
        result = cells.run(
            dsn,
            quick=options.quick,
            full=options.full,
            only=options.only,
            runs=options.runs,
            progress=talk.print,
        )
    Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH).print(table(result))
    for curve in curves(result):
        print(curve)
    if not result["durable"]:
        talk.print("fsync or synchronous_commit is off: these figures mean nothing.")
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")
    if options.picture:
        draw(result, options.picture)


def _options(words: Sequence[str] | None) -> Namespace:
    parser = ArgumentParser(prog="python -m bench.run", description=__doc__)
    parser.add_argument("capability", nargs="?", choices=CAPABILITIES, default="log")
    parser.add_argument("--quick", action="store_true", help="under a minute: does it work?")
    parser.add_argument(
        "--full", action="store_true", help="the long forms: 1e7 messages, 1e6 rounds"
    )
    parser.add_argument("--only", metavar="CELLS", help="of the capability; with commas")
    parser.add_argument(
        "--runs", type=int, metavar="N", help="turns per side, 7 (Spark: 3) unless told"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here as well")
    parser.add_argument(
        "--picture", type=Path, metavar="FILE", help="draw the curves of a full run of spark (PNG)"
    )
    parser.add_argument("--dsn", help="measure on this server instead of one of its own")
    return parser.parse_args(words)


@contextmanager
def _database(dsn: str | None, *, tcp: bool) -> Iterator[str]:
    """A server; with ``tcp`` both sides of a comparison use that, for JDBC knows nothing else."""
    if dsn is not None:
        yield dsn
        return
    home = Path(tempfile.mkdtemp(prefix="trunkline-bench-"))
    home.chmod(0o755)  # the server may run as another account
    try:
        listen = Address("127.0.0.1", _free_port()) if tcp else None
        with Server(home, "bench", settings=SETTINGS, listen=listen).use() as target:
            assert target.server is not None
            password = target.server.password() if listen else ""
            yield listen.dsn(DATABASE, SUPERUSER, password) if listen else target.dsn
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def _warm_up(dsn: str) -> None:
    """Bring the server to where it is after an hour: WAL files to use again, memory in use."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for _ in range(_WAL_MEGABYTES):
            connection.execute("select pg_logical_emit_message(false, '', repeat('x', 1048576))")
        connection.execute("create unlogged table bench_warm (filler text)")
        connection.execute("alter table bench_warm alter filler set storage plain")
        connection.execute(
            "insert into bench_warm select repeat('x', 8000)"
            " from generate_series(1, pg_size_bytes(current_setting('shared_buffers')) / 8192)"
        )
        connection.execute("drop table bench_warm")
        connection.execute("checkpoint")


if __name__ == "__main__":
    main()
