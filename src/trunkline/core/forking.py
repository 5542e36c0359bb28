"""A forked process has the sockets of its parent, who still uses them, and none of its threads."""

from __future__ import annotations

import os

from trunkline.core.errors import BadRequest


def is_forked(process: int) -> bool:
    """Whether what a process opened is looked at by a child of it."""
    return process != os.getpid()


def refuse_forked(process: int) -> None:
    """A child that uses what its parent opened would wait for ever, or disturb the parent."""
    if is_forked(process):
        raise BadRequest(
            "this process was forked from the one that connected.",
            hint="Connect after the fork: each process needs connections of its own.",
        )
