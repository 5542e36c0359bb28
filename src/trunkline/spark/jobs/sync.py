"""`sync`: keep a downstream in step with the tables of a tube.

A round takes what waits in every lane, as ranges of positions; Spark's tasks read the rows behind
the keys (one query each), the target takes them in one commit, and only then the ranges are
acknowledged. While the server is away a round is tried again, as long as the lease lasts. What is
written is the state of a row and not a change to it, so a round that is done
again after a crash changes nothing; rounds are numbered in the ledger of the target, so a driver
that was held up and lost its lanes cannot write over its successor. After a backfill or TRUNCATE,
rows that are only downstream are removed.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trunkline.core import telemetry
from trunkline.core.backoff import Backoff
from trunkline.core.errors import Conflict, LeaseLost, Unavailable
from trunkline.core.words import counted
from trunkline.spark import calls as spark_calls
from trunkline.spark import connection, tube_rows
from trunkline.spark.arrivals import Arrivals
from trunkline.spark.columns import quoted, spark_name
from trunkline.spark.jobs.changes import Changes
from trunkline.spark.jobs.job import plain_failures, silent, slots
from trunkline.spark.jobs.targets import Applied, pairs
from trunkline.spark.tube_lanes import Lanes
from trunkline.spark.tube_rows import DELETED, Slice, Span
from trunkline.tube import calls

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from trunkline.core.db import Db
    from trunkline.spark.attached import Attached
    from trunkline.spark.jobs.job import Progress
    from trunkline.spark.jobs.targets import Function, Target

logger = telemetry.get_logger(__name__)

_ROUND_BYTES = 256 << 20  # rows that one round takes at most, about: what tasks and a merge hold
_ROUND_KEYS = 1_000_000  # and keys
_WIDE = 640  # bytes of a row of which nobody knows
_ENTRY_KEYS = 250  # that an entry of a large statement has
_PATIENCE = 0.5  # seconds that an idle sync waits for a wake-up


@dataclass
class Synced:
    """What a sync did."""

    rounds: int = 0
    keys: int = 0
    collected: int = 0
    """Times that rows without an origin were looked for."""


@dataclass
class Round:
    """What waits: ranges by lane, keys by table, tables to look for garbage in."""

    spans: list[Span] = field(default_factory=list)
    keys: Counter[str] = field(default_factory=Counter)
    collect: set[str] = field(default_factory=set)
    marks: dict[tuple[int, int], int] = field(default_factory=dict)

    def keep(self, tables: Container[str]) -> None:
        """Leave out tables that are detached, and those without keys."""
        self.keys = Counter({name: n for name, n in self.keys.items() if n and name in tables})
        self.collect = {name for name in self.collect if name in tables}


def sync(
    spark: SparkSession,
    tube: str,
    to: str | Function | Target,
    *,
    relation: str | None = None,
    dsn: str | None = None,
    target_dsn: str | None = None,
    once: bool = False,
    parallelism: int | None = None,
    progress: Progress = silent,
    stop: threading.Event | None = None,
) -> Synced:
    """Bring every change of a tube to its target; until ``stop`` is set, or (``once``) caught up.

    ``to`` is ``delta:PATH``, ``table:NAME`` or a function ``(rows, batch)``. Errors: `NotFound`,
    `Conflict` when somebody else works the tube, `LeaseLost` when somebody took it over.
    """
    dsn = connection.locate(dsn)
    with connection.plain_errors():
        job = Sync(spark, tube, to, relation, dsn, target_dsn, parallelism)
        try:
            return job.run(once=once, progress=progress, stop=stop or threading.Event())
        finally:
            job.close()


def waiting(dsn: str, tube: str) -> list[dict[str, Any]]:
    """What a sync would do now, by table: keys that wait, and whether garbage is looked for."""
    db = connection.db(connection.locate(dsn))
    head = db.run(calls.flush())
    keys: Counter[str] = Counter()
    controls: dict[str, set[str]] = {}
    for row in db.run(calls.stats(tube)):
        for priority, up_to in enumerate((row.live_up_to, row.backfill_up_to)):
            everything = calls.outline(
                tube, row.lane, priority, up_to + 1, head, max_entries=2**31 - 1
            )
            for entry in db.run(everything) if up_to < head else ():
                name = entry.relation or ""
                keys[name] += entry.keys
                found = controls.setdefault(name, set())
                if entry.control is not None:
                    found.add(entry.control)
    return [
        {"relation": name, "keys": n, "controls": sorted(controls[name])}
        for name, n in sorted(keys.items())
    ]


class Sync:
    """The driver of a sync: one round after the other."""

    def __init__(
        self,
        spark: SparkSession,
        tube: str,
        to: str | Function | Target,
        relation: str | None,
        dsn: str,
        target_dsn: str | None,
        parallelism: int | None,
    ):
        self._spark = spark
        self._tube = tube
        self._dsn = dsn
        self._db: Db = connection.db(dsn)
        self._tasks = parallelism or slots(spark)
        self._tables: dict[str, Attached] = {}
        self._targets: dict[str, Target] = {}
        found = pairs(tube, to, relation=relation, dsn=dsn, target_dsn=target_dsn)
        tube_rows.refuse_others(
            dsn,
            tube,
            [table.relation for table, _ in found],
            hint="Sync all of them, with {relation} in the target, or give each its own tube.",
        )
        for table, target in found:
            self._tables[table.relation], self._targets[table.relation] = table, target
        self._most_keys = most_keys(
            self._db.run(spark_calls.row_bytes(relation)) for relation in self._tables
        )
        self._done = Synced()
        self._lanes = Lanes(dsn, tube, name="spark sync")
        self._incarnation = self._db.run(calls.reach()).incarnation
        self._arrivals = Arrivals(dsn, ["tube:"])

    def close(self) -> None:
        """Give the lanes back."""
        self._lanes.leave()
        self._arrivals.close()

    def run(self, *, once: bool, progress: Progress, stop: threading.Event) -> Synced:
        """Do rounds until told to stop, or until what was there at the start is done."""
        final = self._db.run(calls.flush()) if once else None
        waits = Backoff(longest=2.0)
        while not stop.is_set():
            try:
                with plain_failures():
                    caught_up = self._step(final, progress)
            except Unavailable as error:
                self._lanes.check()
                logger.warning("the server is away", tube=self._tube, error=str(error))
                stop.wait(waits.next())
                continue
            waits = Backoff(longest=2.0)
            if caught_up and final is not None:
                break
            if caught_up:
                self._arrivals.wait(_PATIENCE)
        return self._done

    def _step(self, final: int | None, progress: Progress) -> bool:
        """One round, if something waits; whether everything up to ``final`` (or now) is done."""
        head = self._head() if final is None else final
        work = self._look(head)
        if self._db.run(calls.reach()).incarnation != self._incarnation:
            raise LeaseLost(
                "the server was restored or failed over: positions may have been given out again.",
                hint="Start it again.",
            )
        if work.spans:
            self._refresh()
            work.keep(self._tables)
        if work.keys or work.collect:
            keys = sum(work.keys.values())
            some = counted(keys, "key")
            progress(self._done.keys, None, f"{self._tube}: {some} to {self._names()}")
            self._round(work)
            self._done.rounds += 1
            self._done.keys += keys
            progress(self._done.keys, None, f"{self._tube}: written to {self._names()}")
        self._lanes.acknowledge_each(work.marks, worked=bool(work.keys or work.collect))
        return all(mark >= head for mark in work.marks.values())

    def _names(self) -> str:
        return ", ".join(target.name for target in self._targets.values())

    def _head(self) -> int:
        self._db.run(calls.tick())
        return self._db.run(calls.head())

    def _look(self, head: int) -> Round:
        """What the next round is about: so many entries that its keys stay within bounds."""
        work = Round()
        # Backfill first: mostly nothing waits there, and what one leaves of its share others get.
        marks = sorted(self._lanes.marks().items(), key=lambda mark: -mark[0][1])
        left = self._most_keys // _ENTRY_KEYS
        for place, ((lane, priority), up_to) in enumerate(marks):
            most = max(100, left // (len(marks) - place))
            work.marks[lane, priority] = up_to
            if up_to >= head:
                continue
            entries = self._db.run(
                calls.outline(self._tube, lane, priority, up_to + 1, head, max_entries=most)
            )
            last = entries[-1].up_to if len(entries) == most else head
            work.marks[lane, priority] = last
            left -= len(entries)
            if entries:
                work.spans.append(Span(lane, priority, up_to + 1, last))
            for entry in entries:
                if entry.relation is None:
                    continue  # touched by hand without a table
                work.keys[entry.relation] += entry.keys
                if entry.control in ("truncate", "backfill_end"):
                    work.collect.add(entry.relation)
        return work

    def _refresh(self) -> None:
        """See the tables as they are now, after what is to be done was looked at.

        What is written to a table that came since would be taken for done, and rows of other keys
        do not fit a target: `Conflict`. Conditions may change, and a table may be detached.
        """
        present = {table.relation: table for table in tube_rows.tables(self._dsn, self._tube)}
        for relation, table in present.items():
            before = self._tables.get(relation)
            if before is None or before.key_columns != table.key_columns:
                raise Conflict(
                    f'table {relation} was attached to tube "{self._tube}", renamed or given'
                    " another key while the sync ran.",
                    hint="Start it again: nothing of it was taken for done.",
                )
        self._tables = present

    def _round(self, work: Round) -> None:
        for relation, keys in work.keys.items():
            changes = Changes(
                self._spark,
                self._dsn,
                self._tube,
                self._tables[relation],
                tuple(work.spans),
                keys,
                self._tasks,
            )
            self._lanes.check()
            self._targets[relation].take(changes, *self._next(relation))
        for relation in work.collect:
            self._collect(relation)

    def _next(self, relation: str) -> tuple[str, int]:
        """The application and the number of the batch that comes next."""
        target = self._targets[relation]
        app = f"sync {self._tube} {relation} {target.name}"
        return app, target.next_batch(app)

    def _columns(self, relation: str) -> list[str]:
        """What a round brings of a table, and so what its target takes."""
        everything = Slice(self._dsn, self._tube, self._tables[relation].relation, "columns")
        return [name for name in tube_rows.schema_of(everything).names if name != DELETED]

    def _collect(self, relation: str) -> None:
        """Delete downstream what the table does not have; only we write there, so that is safe."""
        table, target = self._tables[relation], self._targets[relation]
        present = target.read(self._spark)
        if present is None:
            if isinstance(target, Applied):
                logger.warning(
                    "rows that are gone stay: a function cannot be asked what it holds",
                    tube=self._tube,
                    relation=relation,
                    target=target.name,
                )
            return
        keys = list(table.key_columns)
        listed = ", ".join(map(quoted, keys))
        origin = (
            self._spark.read.format("trunkline.table")
            .option("dsn", self._dsn)
            .option("query", f"select {listed} from {table.relation} r where {table.condition}")
            .load()
        )
        names = [name for name in self._columns(relation) if name in present.columns]
        gone = garbage(present.select(*map(spark_name, names)), origin, keys).persist()
        try:
            if gone.count():
                target.write(gone, keys, *self._next(relation))
        finally:
            gone.unpersist()
        self._done.collected += 1
        logger.info("collected", tube=self._tube, relation=relation, target=target.name)


def most_keys(widths: Iterable[int]) -> int:
    """How many keys a round takes, so that the rows behind them, of any table, can be held."""
    return min(_ROUND_KEYS, _ROUND_BYTES // max((width or _WIDE for width in widths), default=1))


def garbage(present: DataFrame, origin: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Rows of ``present`` whose key is not in ``origin``, marked as deleted."""
    from pyspark.sql import functions as f

    return present.join(origin, list(keys), "left_anti").withColumn(DELETED, f.lit(True))  # noqa: FBT003
