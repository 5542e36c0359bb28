"""`backfill`: bring a whole table downstream, through the tube that keeps it in step afterwards.

The keys of the table go into the tube chunk by chunk, behind live changes; the rows behind them are
read and written in parallel by the same rounds that `sync` does. Where somebody works the tube
already, the chunks are left to them, and the job only waits; if they die, it takes over.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from trunkline.core.errors import Conflict
from trunkline.spark import connection, tube_rows
from trunkline.spark.jobs.job import is_living, silent
from trunkline.spark.jobs.sync import Sync, Synced
from trunkline.spark.jobs.targets import pairs
from trunkline.tube import backfill_calls, calls

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
        scheduled = db.run(backfill_calls.schedule(tube, relation=name, chunk=_CHUNK))
        total = sum(row.keys_estimate for row in _status(dsn, tube) if row.backfill in scheduled)

        def told(keys: int, _total: int | None, what: str) -> None:
            progress(keys, max(keys, total), what)

        while not halt.is_set():
            try:
                job = Sync(spark, tube, to, None, dsn, target_dsn, parallelism)
            except Conflict:
                if _watch(dsn, tube, progress, halt):
                    break
                continue
            try:
                return _deliver(job, dsn, tube, told, halt)
            finally:
                job.close()
        return Synced()


def _deliver(job: Sync, dsn: str, tube: str, progress: Progress, halt: threading.Event) -> Synced:
    done = Synced()
    while not halt.is_set():
        _emit(dsn, tube)
        done = job.run(once=True, progress=progress, stop=halt)
        rows = _active(dsn, tube)
        if waits := next((row.waits_for for row in rows if row.waits_for), None):
            progress(done.keys, None, f"waits for {waits}")
        if not rows:
            return job.run(once=True, progress=progress, stop=halt)
    return done


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
            if not db.run(backfill_calls.step(row.backfill)):
                time.sleep(_PAUSE)
                break


def _watch(dsn: str, tube: str, progress: Progress, halt: threading.Event) -> bool:
    """Somebody else works the tube: emit the chunks, and wait until they are delivered.

    False when nobody does any more.
    """
    db = connection.db(dsn)
    while not halt.is_set():
        _emit(dsn, tube)
        active = _active(dsn, tube)
        _tell(progress, active)
        db.run(calls.flush())
        lanes = db.run(calls.stats(tube))
        if not active and not any(lane.backfill_entries for lane in lanes):
            return True
        if not any(lane.process and is_living(db, lane.process) for lane in lanes):
            return False
        halt.wait(_PAUSE)
    return False


def _status(dsn: str, tube: str) -> list[Backfill]:
    return connection.db(dsn).run(backfill_calls.status(tube))


def _active(dsn: str, tube: str) -> list[Backfill]:
    return [row for row in _status(dsn, tube) if row.active]


def _tell(progress: Progress, rows: list[Backfill]) -> None:
    emitted = sum(row.keys_done for row in rows)
    total = sum(row.keys_estimate for row in rows)
    waits = next((row.waits_for for row in rows if row.waits_for), None)
    progress(emitted, total or None, f"waits for {waits}" if waits else "keys emitted")
