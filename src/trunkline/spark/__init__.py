"""Spark: topics, tubes and tables as sources and sinks, and the jobs that run on it.

Importing this needs neither Spark nor Java; the jobs are imported when they are asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from trunkline.spark.forked import keep_modules
from trunkline.spark.session import FAST, register, session

if TYPE_CHECKING:
    from trunkline.spark.jobs.archive import archive
    from trunkline.spark.jobs.audit import audit
    from trunkline.spark.jobs.audit_topic import audit_topic
    from trunkline.spark.jobs.backfill import backfill
    from trunkline.spark.jobs.replay import replay
    from trunkline.spark.jobs.sync import sync

_PLACES = {
    "archive": "jobs.archive",
    "audit": "jobs.audit",
    "audit_topic": "jobs.audit_topic",
    "backfill": "jobs.backfill",
    "replay": "jobs.replay",
    "sync": "jobs.sync",
}

__all__ = [
    "FAST",
    "archive",
    "audit",
    "audit_topic",
    "backfill",
    "register",
    "replay",
    "session",
    "sync",
]

keep_modules()


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
