"""Programs that are started to be killed."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def running(program: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A program of this folder that has said ``ready``; killed at the end of the block."""
    path = Path(__file__).with_name(program)
    with subprocess.Popen(
        [sys.executable, str(path), *words], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()
