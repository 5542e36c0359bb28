"""`watch_memory`: the most memory that driver, JVM and Python workers took while something ran."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_EVERY = 0.1  # seconds
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Peak:
    """Resident bytes: the driver's Python, its JVM, all Python workers together."""

    driver: int = 0
    jvm: int = 0
    workers: int = 0

    def __str__(self) -> str:
        parts = (("driver", self.driver), ("JVM", self.jvm), ("Python workers", self.workers))
        return "peak RSS: " + ", ".join(f"{name} {size >> 20} MB" for name, size in parts)

    def raise_to(self, other: Peak) -> None:
        """The higher of both, part by part."""
        self.driver = max(self.driver, other.driver)
        self.jvm = max(self.jvm, other.jvm)
        self.workers = max(self.workers, other.workers)


@contextmanager
def watch_memory(peak: Peak) -> Iterator[None]:
    """Raise a peak to what is seen, again and again, while the block runs (Linux only)."""
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(_EVERY):
            peak.raise_to(_now())

    thread = threading.Thread(target=watch, name="memory", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _now() -> Peak:
    now = Peak(driver=_resident(os.getpid()))
    for pid, name in _descendants(os.getpid()):
        if name == "java":
            now.jvm += _resident(pid)
        elif name.startswith("python"):
            now.workers += _resident(pid)
    return now


def _descendants(root: int) -> list[tuple[int, str]]:
    children: dict[int, list[tuple[int, str]]] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            head, _, rest = place.read_text().rpartition(") ")
            number, _, name = head.partition(" (")
            children.setdefault(int(rest.split()[1]), []).append((int(number), name))
    found: list[tuple[int, str]] = []
    roots = [root]
    while roots:
        for pid, name in children.get(roots.pop(), []):
            found.append((pid, name))
            roots.append(pid)
    return found


def _resident(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    return 0
