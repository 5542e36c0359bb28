"""A batch of an application is written once, however often its write is tried.

The ledger row is inserted in the transaction of the rows, so one is there exactly when the others
are. A commit whose answer got lost is simply made again: the ledger knows whether it took effect.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from trunkline.core import telemetry
from trunkline.core.backoff import Backoff
from trunkline.core.errors import Unavailable
from trunkline.core.execution import execute, translated
from trunkline.spark import calls
from trunkline.spark.connection import db

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

T = TypeVar("T")

PATIENCE = 30.0  # seconds that a driver waits for a server that left

logger = telemetry.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Batch:
    """What is known again: the ``number``-th batch of an application."""

    app: str | None
    """None: a write of its own that nobody repeats; it leaves no row in the ledger."""
    number: int
    query: str | None = None


def write_once(
    dsn: str,
    batch: Batch,
    *,
    rows: int,
    target: str,
    effect: Callable[[psycopg.Connection[Any]], T],
) -> T | None:
    """Run ``effect`` and note the batch in one transaction.

    Returns what the effect returned, or None when the batch was noted before.
    """
    waits = Backoff(first=0.1, longest=2.0)
    give_up = time.monotonic() + PATIENCE
    while True:
        try:
            return _write(dsn, batch, rows, target, effect)
        except Unavailable as error:
            if batch.app is None:
                error.hint = (
                    "Whether the rows were written is not known; with the option appId"
                    " the write could be repeated."
                )
                raise
            if time.monotonic() > give_up:
                raise
        time.sleep(waits.next())


def _write(
    dsn: str,
    batch: Batch,
    rows: int,
    target: str,
    effect: Callable[[psycopg.Connection[Any]], T],
) -> T | None:
    with translated(), db(dsn).transaction() as connection:
        if batch.app is not None:
            note = calls.commit(batch.app, batch.number, rows, target, batch.query)
            if not execute(connection, note):
                logger.info(
                    "skipped: the batch was written before",
                    app=batch.app,
                    batch=batch.number,
                    target=target,
                )
                return None
        return effect(connection)
