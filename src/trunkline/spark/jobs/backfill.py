"""`backfill`: bring a whole table downstream, through the tube that keeps it in step afterwards.

The keys of the table go into the tube chunk by chunk, behind live changes; the rows behind them are
read and written in parallel by the same rounds that `sync` does. Where somebody works the tube
already, the chunks are left to them, and the job only waits.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from trunkline.core.errors import Conflict
from trunkline.spark import connection, tube_rows
from trunkline.spark.jobs.job import silent
from trunkline.spark.jobs.sync import Sync, Synced
from trunkline.spark.jobs.targets import pairs
from trunkline.tube import calls

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from trunkline.spark.jobs.job import Progress
    from trunkline.spark.jobs.targets import Function, Target
    from trunkline.tube.models import Backfill

_STEPS = 40  # chunks between two rounds
_CHUNK = 10_000
_PAUSE = 0.1


def backfill(
    spark: SparkSession,
    tube: str,
    to: str | Function | Target,
    *,
    relation: str | None = None,
    dsn: str | None = None,
    target_dsn: str | None = None,
    parallelism: int | None = None,
    progress: Progress = silent,
    stop: threading.Event | None = None,
) -> Synced:
    """Emit every row of the tube's tables (or one) anew and bring it to the target.

    Killed, it goes on where it was. Returns when all is delivered, garbage included.
    """
    dsn = connection.locate(dsn)
    halt = stop or threading.Event()
    with connection.plain_errors():
        db = connection.db(dsn)
        pairs(tube, to, relation=None, dsn=dsn, target_dsn=target_dsn)
        name = None if relation is None else tube_rows.attached(dsn, tube, relation).relation
        db.run(calls.backfill_schedule(tube, relation=name, chunk=_CHUNK))
        try:
            job = Sync(spark, tube, to, None, dsn, target_dsn, parallelism)
        except Conflict:
            return _watch(dsn, tube, progress, halt)
        try:
            done = Synced()
            while not halt.is_set():
                _emit(dsn, tube)
                done = job.run(once=True, progress=silent, stop=halt)
                rows = _active(dsn, tube)
                _tell(progress, rows, done)
                if not rows:
                    return job.run(once=True, progress=silent, stop=halt)
            return done
        finally:
            job.close()


def planned(dsn: str, tube: str, relation: str | None) -> list[dict[str, Any]]:
    """What a backfill would bring down, by table; the number of rows is the planner's guess."""
    tables = tube_rows.tables(dsn, tube)
    if relation is not None:
        tables = [tube_rows.attached(dsn, tube, relation)]
    return [
        {
            "relation": table.relation,
            "keys": ", ".join(table.key_columns),
            "rows": table.estimate,
        }
        for table in tables
    ]


def _emit(dsn: str, tube: str) -> None:
    """Put the next chunks into the tube."""
    db = connection.db(dsn)
    for row in _active(dsn, tube):
        for _ in range(_STEPS):
            if not db.run(calls.backfill_step(row.backfill)):
                time.sleep(_PAUSE)
                break


def _watch(dsn: str, tube: str, progress: Progress, halt: threading.Event) -> Synced:
    """Somebody else works the tube: emit the chunks, and wait until they are delivered."""
    db = connection.db(dsn)
    done, busy = Synced(), True
    while busy and not halt.is_set():
        _emit(dsn, tube)
        rows = _active(dsn, tube)
        _tell(progress, rows, done)
        db.run(calls.flush())
        waits = any(row.backfill_entries for row in db.run(calls.stats(tube)))
        busy = bool(rows or waits)
        halt.wait(_PAUSE)
    return done


def _active(dsn: str, tube: str) -> list[Backfill]:
    return [row for row in connection.db(dsn).run(calls.backfill_status(tube)) if row.active]


def _tell(progress: Progress, rows: list[Backfill], done: Synced) -> None:
    emitted = sum(row.keys_done for row in rows)
    total = sum(row.keys_estimate for row in rows) or None
    waits = next((row.waits_for for row in rows if row.waits_for), None)
    progress(emitted or done.keys, total, f"waits for {waits}" if waits else "keys")
