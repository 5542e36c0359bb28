"""Lines of standard input or of a file, as they come."""

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trunkline.cli.output import console

_CHUNK = 1 << 16
_AHEAD = 16  # chunks that are read before they are sent


@dataclass(frozen=True, slots=True)
class Source:
    """Where lines come from."""

    descriptor: int
    size: int | None
    typed: bool


async def lines(source: Source) -> AsyncIterator[list[bytes]]:
    """Whole lines as they come. A thread reads, so that typing and slow pipes hold up nobody.

    Not the loop's own threads: the end of the program would wait for the one that reads.
    """
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes] = asyncio.Queue(_AHEAD)

    def feed() -> None:
        chunk = b"."
        while chunk:
            try:
                chunk = os.read(source.descriptor, _CHUNK)
            except OSError:
                chunk = b""
            try:
                asyncio.run_coroutine_threadsafe(chunks.put(chunk), loop).result()
            except (RuntimeError, CancelledError):
                return  # the loop has gone

    threading.Thread(target=feed, name="lines", daemon=True).start()
    rest = b""
    with _progress(source) as advance:
        while chunk := await chunks.get():
            *whole, rest = (rest + chunk).split(b"\n")
            yield whole
            advance(len(chunk), len(whole))
    if rest:
        yield [rest]


@contextmanager
def opened(file: Path | None) -> Iterator[Source]:
    from trunkline.core.errors import BadRequest

    if file is None and sys.stdin is None:
        raise BadRequest("standard input is closed.", hint="Give lines there, or name a --file.")
    if file is None:
        yield Source(0, None, typed=sys.stdin.isatty())
        return
    try:
        source = file.open("rb", buffering=0)
    except OSError as error:
        raise BadRequest(f"{file} cannot be read: {error.strerror}.") from None
    with source:
        yield Source(source.fileno(), file.stat().st_size, typed=False)


@contextmanager
def _progress(source: Source) -> Iterator[Any]:
    """A bar on a terminal, for whom it is not hidden by what is being typed."""
    if source.typed or not sys.stderr.isatty():
        yield lambda _bytes, _lines: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TextColumn("{task.fields[n]}"))
    with Progress(*columns, console=console(talk=True), transient=True) as progress:
        task = progress.add_task("lines", total=source.size, n="")
        total = 0

        def advance(read: int, more: int) -> None:
            nonlocal total
            total += more
            progress.update(task, advance=read, n=f"{total} lines")

        yield advance
