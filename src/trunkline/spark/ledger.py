"""The ledger of batches: a batch of an application is written once, even if it is repeated.

The ledger row is inserted in the transaction of the rows, so either both exist or neither. If the
answer of a commit is lost, the commit is repeated: the ledger shows whether it took effect.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from trunkline.core import telemetry
from trunkline.core.backoff import Backoff
from trunkline.core.errors import Conflict, Unavailable
from trunkline.core.execution import execute, translated
from trunkline.core.words import counted
from trunkline.spark import calls
from trunkline.spark.connection import db

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import psycopg

T = TypeVar("T")

OTHER_ROWS = (
    "If the checkpoint was lost or replaced, use another appId and set startingOffsets to where the"
    " first query ended. In foreachBatch, give every write of a batch an appId of its own."
)
PATIENCE = 30.0  # seconds that a driver waits for a server that left

logger = telemetry.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Batch:
    """What is known again: the ``number``-th batch of an application."""

    app: str | None
    """None: a write that is never repeated; it leaves no row in the ledger."""
    number: int
    digest: str | None = None
    """Of its rows; see `row_digest`."""
    query: str | None = None
    """The streaming query that wrote it, and the run of the query."""
    run: str | None = None


def check_repeat(batch: Batch, rows: int, noted: Mapping[str, Any], *, newest: bool) -> None:
    """`Conflict` unless a batch that is noted already is the one that is written now.

    It is if its rows are the same. Rows that differ are only accepted from another run of the same
    query for the newest batch of the application: such a batch has the same source offsets, and
    some queries compute something else from them. ``spark_commit`` in SQL does the same.
    """
    same = batch.digest is None or noted.get("digest", batch.digest) == batch.digest
    if same and int(noted["rows"]) == rows:
        return
    again = batch.query is not None and noted.get("query") == batch.query
    if newest and again and noted.get("run") != batch.run:
        return
    before = counted(int(noted["rows"]), "row")
    raise Conflict(
        f'batch {batch.number} of "{batch.app}" was written before with other rows: {before} then,'
        f" {rows} now. Nothing was written.",
        hint=OTHER_ROWS,
    )


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
            note = calls.commit(batch, rows, target)
            if not execute(connection, note):
                logger.info(
                    "skipped: the batch was written before",
                    app=batch.app,
                    batch=batch.number,
                    target=target,
                )
                return None
        return effect(connection)
