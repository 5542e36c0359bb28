"""Spark's part of the demonstration, in a process of its own: it keeps a Delta table in step.

The database comes in the environment; tube and path are arguments. It says on standard output, one
JSON object per line, when it is up and what it has synced. When standard input is closed, it brings
down what waits, audits, says what it found, and ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from trunkline.core.extras import insist_on
from trunkline.core.telemetry import redact
from trunkline.spark.java import find_java

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_AUDITED_WITHIN = 120.0  # seconds
_HASTY = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def main() -> None:
    """Sync until standard input is closed, then audit."""
    from trunkline.spark import audit, session, sync

    tube, path = sys.argv[1:]
    stop = threading.Event()
    threading.Thread(target=_wait_for_the_end, args=[stop], daemon=True).start()
    spark = session("trunkline demo", "local[2]", **_HASTY)
    _say(up=True)
    target = f"delta:{path}"
    sync(spark, tube, target, progress=lambda done, _total, _what: _say(synced=done), stop=stop)
    sync(spark, tube, target, once=True)
    (report,) = audit(spark, tube, target)
    _say(audit=report.to_json())
    spark.stop()


def _wait_for_the_end(stop: threading.Event) -> None:
    os.read(0, 1)  # nobody writes: it returns when the other end is closed
    stop.set()


def _say(**what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


class Lake:
    """The process, as the demonstration sees it."""

    def __init__(self, dsn: str, tube: str, path: Path):
        self.synced = 0
        self.up = asyncio.Event()
        self.report: dict[str, Any] | None = None
        self._dsn = dsn
        self._arguments = (tube, str(path))
        self._process: asyncio.subprocess.Process | None = None
        self._hearing: asyncio.Task[None] | None = None
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()

    async def start(self, say: Callable[[str], None]) -> None:
        """Start it; `Invalid` or `Unavailable` says what to install."""
        insist_on("spark", "the lake")
        find_java()
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            __name__,
            *self._arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=self._stderr,
            start_new_session=True,  # ctrl-C is for us
            env={**os.environ, "TRUNKLINE_DSN": self._dsn},
        )
        self._hearing = asyncio.create_task(self._hear(say))

    async def joined(self) -> None:
        """Wait until Spark is up, or has ended before that."""
        assert self._hearing is not None
        up = asyncio.create_task(self.up.wait())
        await asyncio.wait({up, self._hearing}, return_when=asyncio.FIRST_COMPLETED)
        up.cancel()

    async def finish(self) -> None:
        """Let it bring down what waits and audit; `report` is what it found, if it found."""
        if self._process is None or self._hearing is None:
            return
        if self._process.stdin is not None:
            self._process.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_AUDITED_WITHIN):
                await self._hearing

    async def close(self) -> None:
        """End it, wherever it is."""
        if self._hearing is not None:
            self._hearing.cancel()
            await asyncio.wait({self._hearing})
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        self._stderr.close()

    async def _hear(self, say: Callable[[str], None]) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            said = json.loads(line)
            self.synced = said.get("synced", self.synced)
            self.report = said.get("audit", self.report)
            if said.get("up"):
                self.up.set()
                say("Spark is up: the orders flow into a Delta table")
        if self.report is None:
            say(f"Spark ended without an audit: {self._last_words()}")

    def _last_words(self) -> str:
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").split("\n")
        return next((redact(line) for line in reversed(lines) if line.strip()), "it said nothing")


if __name__ == "__main__":
    main()
