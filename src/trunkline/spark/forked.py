"""Garbage in the Python processes that Spark forks.

They collect garbage after every answer and look through everything that they have imported, which
takes longer than most answers. What a full collection leaves is not garbage: when modules have come
since the last time, all of it is kept for good and not looked through again. Only then, because of
what is kept nothing is ever collected that becomes a cycle of garbage later.
"""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_DAEMONS = {"pyspark.daemon", "trunkline.spark.daemon"}


class Modules:
    """Keeps the modules of a process; called by Python before and after each collection."""

    def __init__(self) -> None:
        self._known = 0

    def __call__(self, phase: str, about: Mapping[str, int]) -> None:
        full = phase == "stop" and about["generation"] == 2  # the oldest
        if full and len(sys.modules) > self._known:
            self._known = len(sys.modules)
            gc.freeze()


def keep_modules() -> None:
    """Do so in this process, if it is one of Spark's."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None and spec.name in _DAEMONS:
        gc.callbacks.append(Modules())
