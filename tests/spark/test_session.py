"""The session, and what its workers are started from."""

from __future__ import annotations

import subprocess
import sys

THREADS = """
import os
from trunkline.spark import daemon
daemon.load()
print(len(os.listdir("/proc/self/task")))
"""


def test_what_workers_are_forked_from_has_one_thread() -> None:
    done = subprocess.run(
        [sys.executable, "-c", THREADS], capture_output=True, text=True, check=True
    )
    assert done.stdout == "1\n"
