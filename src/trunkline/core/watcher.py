"""The process that stops an embedded server whose last user was killed.

The last user that ends in good order stops the server itself. Of a killed user the kernel only
drops the locks, so one watcher per server looks every second whether a user is left. It inherits
the lock on ``watcher.lock``: while that is held, a watcher lives. The last user removes the file
when it stops the server, and a watcher whose file is gone ends. The rest of the package is imported
only when it is needed, so that a waiting watcher takes little memory.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

LOCK = "watcher.lock"
_LOOK_EVERY = 1.0  # seconds
_SOURCES = Path(__file__).parents[2]


def watch_over(directory: Path, lock: int) -> None:
    """Start the watcher of a server; it inherits ``lock`` and outlives this process.

    A shell starts it, so that it is no child of ours that we would have to wait for.
    """
    words = [sys.executable, "-m", __name__, str(directory), str(lock)]
    sources = (str(_SOURCES), os.environ.get("PYTHONPATH"))
    with suppress(OSError):  # without a watcher the next user stops the server
        subprocess.run(
            ["/bin/sh", "-c", '"$@" &', "sh", *words],
            cwd="/",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sources))},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[lock],
            start_new_session=True,  # signals of the terminal are not for the watcher
            check=False,
        )


def main() -> None:
    """Look until the server was stopped, by its last user or here."""
    directory, lock = Path(sys.argv[1]), int(sys.argv[2])
    while not _is_dismissed(directory, lock):
        if _is_deserted(directory):
            from trunkline.core.embedded import Server

            Server(directory.parent, directory.name).stop_unused()
        time.sleep(_LOOK_EVERY)


def _is_dismissed(directory: Path, lock: int) -> bool:
    """Whether the watcher's file was removed, or is that of another watcher."""
    try:
        return not os.path.samestat(os.fstat(lock), (directory / LOCK).stat())
    except OSError:
        return True


def _is_deserted(directory: Path) -> bool:
    """Whether no process uses the server; false while one joins or leaves."""
    try:
        with (directory / "start.lock").open() as start, (directory / "users.lock").open() as users:
            for file in (start, users):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
