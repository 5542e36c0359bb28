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
from trunkline.core.words import counted

_CHUNK = 1 << 16
_AHEAD = 16  # chunks that are read before they are sent
_LONGEST = 1 << 30  # bytes of a line: no value of Postgres is longer


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
    from trunkline.core.errors import BadRequest

    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes | OSError] = asyncio.Queue(_AHEAD)

    def feed() -> None:
        chunk: bytes | OSError = b"."
        while chunk and not isinstance(chunk, OSError):
            try:
                chunk = os.read(source.descriptor, _CHUNK)
            except OSError as error:
                chunk = error
            try:
                asyncio.run_coroutine_threadsafe(chunks.put(chunk), loop).result()
            except (RuntimeError, CancelledError):
                return  # the loop has gone

    threading.Thread(target=feed, name="lines", daemon=True).start()
    rest = Rest()
    with _progress(source) as advance:
        while chunk := await chunks.get():
            if isinstance(chunk, OSError):
                raise BadRequest(f"the input cannot be read: {chunk.strerror}.")
            whole = rest.lines(chunk)
            yield whole
            advance(len(chunk), len(whole))
    if last := rest.last():
        yield [last]


class Rest:
    """What came of a line that has not ended yet."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._bytes = 0

    def lines(self, chunk: bytes) -> list[bytes]:
        """The lines that end in this chunk; what follows the last of them is kept."""
        from trunkline.core.errors import TooLarge

        *whole, rest = chunk.split(b"\n")
        if whole:
            whole[0] = self.last() + whole[0]
            self._parts.clear()
            self._bytes = 0
        self._parts.append(rest)
        self._bytes += len(rest)
        if self._bytes > _LONGEST:
            raise TooLarge(
                f"a line has at most {_LONGEST >> 20} MiB, and this one goes on.",
                hint="Is it text? Messages are separated by line feeds.",
            )
        return whole

    def last(self) -> bytes:
        """What came without an end."""
        return b"".join(self._parts)


@contextmanager
def opened(file: Path | None) -> Iterator[Source]:
    from trunkline.core.errors import BadRequest

    if file is None and sys.stdin is None:
        raise BadRequest("standard input is closed.", hint="Give lines there.")
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
            progress.update(task, advance=read, n=counted(total, "line"))

        yield advance
