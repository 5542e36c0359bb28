"""The server's main process, as its pid file and the process table tell of it."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trunkline.core.binaries import run

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Postmaster:
    """A living main process. `status` is starting, ready, stopping or empty (very early).

    `listens` is the first address on which it takes TCP, or empty.
    """

    pid: int
    port: int
    sockets: str
    listens: str
    status: str

    @property
    def ready(self) -> bool:
        """Whether it takes connections."""
        return self.status in {"ready", "standby"}

    def send(self, what: signal.Signals) -> None:
        """Send a signal; nothing happens if the process is gone."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, what)

    def kill(self) -> None:
        """SIGKILL to it and its children, and to nothing else; returns when all are gone."""
        # It goes first: it must not see its children die and begin to recover.
        processes = [self.pid, *_children_of(self.pid)]
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        wait(lambda: not any(_command_of(process) for process in processes), seconds=10)


def postmaster_of(data: Path) -> Postmaster | None:
    """The main process of a data directory; another program that has got its pid is not it."""
    postmaster = _read(data)
    ours = postmaster is not None and f"-D {data}" in _command_of(postmaster.pid)
    return postmaster if ours else None


def defuse_pidfile(data: Path) -> None:
    """Make a stale pid file harmless; to be called only when the server does not run.

    Postgres refuses to start while the pid in the file lives, though another program has it now.
    It passes over the process that called pg_ctl, so the file gets our own pid. Removing the file
    would be wrong: by its seventh line Postgres finds out that children of a killed server live on.
    """
    file = data / "postmaster.pid"
    if _read(data) is None:
        file.unlink(missing_ok=True)
        return
    _, _, rest = file.read_text().partition("\n")
    # As root we write where another account may have put a link.
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW), "w") as opened:
        opened.write(f"{os.getpid()}\n{rest}")


def wait(condition: Callable[[], bool], *, seconds: float) -> bool:
    """Look until the condition holds or the time is over; tell which."""
    give_up = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.02)
    return True


def _read(data: Path) -> Postmaster | None:
    """What the pid file says; None when it is missing or makes no sense."""
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
        pid = int(lines[0])
    except (OSError, ValueError, IndexError):
        return None
    lines += [""] * 8
    if pid <= 0:
        return None
    _, _, _, port, sockets, listens, _, status, *_ = (line.strip() for line in lines)
    return Postmaster(pid, int(port) if port.isdigit() else 0, sockets, listens, status)


def _command_of(pid: int) -> str:
    """The command line of a process; empty when it is gone, or a zombie."""
    if not Path("/proc/self/cmdline").exists():
        return run(["ps", "-ww", "-o", "command=", "-p", str(pid)]).stdout.strip()
    with suppress(OSError):
        return os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")).strip()
    return ""


def _children_of(pid: int) -> list[int]:
    if Path("/proc/self/stat").exists():
        pairs = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                parent = stat.read_text().rpartition(")")[2].split()[1]
                pairs.append((stat.parent.name, parent))
    else:
        listing = run(["ps", "-A", "-o", "pid=,ppid="]).stdout
        pairs = [(line.split()[0], line.split()[1]) for line in listing.splitlines()]
    return [int(child) for child, parent in pairs if int(parent) == pid]
