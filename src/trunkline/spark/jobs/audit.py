"""`audit`: does the downstream equal the table?

Both sides are cut into buckets by their keys; a bucket has a count and a digest of its rows. Only
rows of buckets that differ are compared one by one. What differs may just be under way, so it is
looked at again until the tube has delivered what was waiting; with ``repair`` the keys that still
differ are touched, and the audit ends when they are equal.
"""

from __future__ import annotations

import threading
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from trunkline.core.errors import Conflict, Invalid
from trunkline.spark import connection, tube_rows
from trunkline.spark.columns import spark_name
from trunkline.spark.jobs.job import silent
from trunkline.spark.jobs.sync import Sync
from trunkline.spark.jobs.targets import pairs
from trunkline.tube import calls

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from trunkline.spark.attached import Attached
    from trunkline.spark.jobs.job import Progress
    from trunkline.spark.jobs.targets import Target

BUCKETS = 1024

_SAMPLE = 20
_MOST_KEYS = 100_000
_PAUSE = 0.5


@dataclass
class Audit:
    """What an audit of one table found."""

    relation: str
    target: str
    as_of: datetime
    rows: int = 0
    target_rows: int = 0
    buckets: int = BUCKETS
    differing_buckets: list[int] = field(default_factory=list)
    missing: int = 0
    """Rows that are not downstream."""
    extra: int = 0
    """Rows that are only downstream."""
    different: int = 0
    repaired: int = 0
    sample: list[str] = field(default_factory=list)
    """Some of the keys that differ."""

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not (self.missing or self.extra or self.different)

    def verdict(self) -> str:
        """In words."""
        at = self.as_of.isoformat(timespec="seconds")
        if self.equal:
            return f"equal as of {at}"
        return (
            f"not equal as of {at}: {self.missing} missing, {self.extra} extra, "
            f"{self.different} different"
        )

    def to_json(self) -> dict[str, Any]:
        """For reports."""
        return {
            **asdict(self),
            "as_of": self.as_of.isoformat(),
            "equal": self.equal,
            "verdict": self.verdict(),
        }


def audit(
    spark: SparkSession,
    tube: str,
    to: str | Target,
    *,
    relation: str | None = None,
    dsn: str | None = None,
    target_dsn: str | None = None,
    repair: bool = False,
    patience: float = 60.0,
    progress: Progress = silent,
) -> list[Audit]:
    """Compare the tables of a tube with their targets; one `Audit` per table.

    ``patience`` is for changes that are under way, in seconds; where nobody works the tube, the
    audit delivers them itself.
    """
    dsn = connection.locate(dsn)
    with connection.plain_errors():
        tables = pairs(tube, to, relation=relation, dsn=dsn, target_dsn=target_dsn, written=True)
        found = []
        for place, (table, target) in enumerate(tables):
            progress(place, len(tables), table.relation)
            found.append(
                _Comparison(spark, tube, table, target, dsn).run(repair=repair, patience=patience)
            )
        progress(len(tables), len(tables), "tables")
        return found


class _Comparison:
    """One table against its target."""

    def __init__(self, spark: SparkSession, tube: str, table: Attached, target: Target, dsn: str):
        self._spark = spark
        self._tube = tube
        self._table = table
        self._target = target
        self._dsn = dsn
        self._db = connection.db(dsn)
        query = f"select * from {table.relation} r where {table.condition}"
        reader = spark.read.format("trunkline.table").option("dsn", dsn)
        self._origin = reader.option("query", query).load()

    def run(self, *, repair: bool, patience: float) -> Audit:
        self._deliver()
        report, keys = self._compare(None)
        give_up = time.monotonic() + patience
        repaired: set[str] = set()
        while keys and time.monotonic() < give_up:
            if repair and not set(keys) <= repaired:
                self._touch(list(keys))
                repaired |= set(keys)
            waiting = self._deliver()
            again, left = self._compare(keys)
            self._settle(report, again)
            if set(left) == set(keys) and not repair and not waiting:
                break  # nothing is under way any more
            keys = left
            if keys:
                time.sleep(_PAUSE)
        report.repaired = len(repaired - set(keys))
        return report

    def _touch(self, keys: Sequence[str]) -> None:
        """Have the rows behind keys brought down; a sync finds them in whatever shard they are."""
        shard = 0 if self._table.moves else None
        self._db.run(calls.touch(self._tube, self._table.relation, keys, shard=shard))

    def _settle(self, report: Audit, again: Audit) -> None:
        report.missing, report.extra = again.missing, again.extra
        report.different, report.sample = again.different, again.sample
        report.differing_buckets = again.differing_buckets
        report.target_rows = report.rows - again.missing + again.extra
        report.as_of = again.as_of

    def _deliver(self) -> int:
        """Bring down what waits, unless somebody does; how many entries wait after that."""
        if len(tube_rows.tables(self._dsn, self._tube)) == 1:
            try:
                job = Sync(self._spark, self._tube, self._target, None, self._dsn, None, None)
            except Conflict:
                time.sleep(_PAUSE)
            else:
                try:
                    job.run(once=True, progress=silent, stop=threading.Event())
                finally:
                    job.close()
        self._db.run(calls.flush())
        rows = self._db.run(calls.stats(self._tube))
        return sum(row.live_entries + row.backfill_entries for row in rows)

    def _compare(self, keys: Sequence[str] | None) -> tuple[Audit, list[str]]:
        """The whole table by buckets, or only some keys; what differs, as keys of the tube."""
        from pyspark.sql import functions as f

        as_of = datetime.now(UTC)
        report = Audit(self._table.relation, self._target.name, as_of)
        ours, theirs = self._digested(self._origin), self._digested(self._present())
        if keys is not None:
            chosen = self._spark.createDataFrame([(key,) for key in keys], "__key string")
            ours = ours.join(f.broadcast(chosen), "__key", "left_semi")
            theirs = theirs.join(f.broadcast(chosen), "__key", "left_semi")
        counted = (
            _beside(ours, theirs, "__bucket")
            .select(
                "__bucket",
                f.coalesce("a.n", f.lit(0)).alias("n"),
                f.coalesce("b.n", f.lit(0)).alias("m"),
                (~f.col("a.digest").eqNullSafe(f.col("b.digest"))).alias("differs"),
            )
            .collect()
        )
        report.rows = sum(row.n for row in counted)
        report.target_rows = sum(row.m for row in counted)
        report.differing_buckets = sorted(row["__bucket"] for row in counted if row.differs)
        if not report.differing_buckets:
            return report, []
        here = f.col("__bucket").isin(report.differing_buckets)
        rows = (
            _beside(ours.where(here), theirs.where(here), "__key")
            .where(~f.col("a.digest").eqNullSafe(f.col("b.digest")))
            .select(
                "__key",
                f.when(f.col("b.n").isNull(), "missing")
                # none here, or more of one key than a table can have
                .when(f.col("b.n") > f.coalesce("a.n", f.lit(0)), "extra")
                .otherwise("different")
                .alias("kind"),
            )
            .limit(_MOST_KEYS + 1)
            .collect()
        )
        if len(rows) > _MOST_KEYS:
            raise Conflict(
                f"more than {_MOST_KEYS} rows differ.", hint="Bring all of them down: a backfill."
            )
        if not rows:  # what differed was under way, and has arrived
            report.differing_buckets, report.target_rows = [], report.rows
        for row in rows:
            setattr(report, row.kind, getattr(report, row.kind) + 1)
        differing = sorted(row["__key"] for row in rows)
        report.sample = differing[:_SAMPLE]
        return report, differing

    def _present(self) -> DataFrame:
        """What is downstream."""
        found = self._target.read(self._spark)
        if found is None:
            return self._origin.limit(0)
        if missing := [name for name in self._origin.columns if name not in found.columns]:
            raise Invalid(
                f"{self._target.name} has no column {', '.join(missing)},"
                f" which {self._table.relation} has.",
                hint="Add it downstream, then bring all rows down: a backfill.",
            )
        return found

    def _digested(self, rows: DataFrame) -> DataFrame:
        """Key, digest and bucket of every row, by the columns of the table and in their types."""
        from pyspark.sql import functions as f

        given = {field.name: field.dataType for field in rows.schema}
        values = {
            field.name: _converted(f.col(spark_name(field.name)), given[field.name], field.dataType)
            for field in sorted(self._origin.schema, key=lambda field: field.name)
        }
        parts = [
            part
            for name, value in values.items()
            # hashes pass over nulls: whether there is one is a value of its own
            for part in (f.col(spark_name(name)).isNull(), *_hashed(value, self._kind(name)))
        ]
        key = self._key(values)
        return rows.select(
            key.alias("__key"),
            f.xxhash64(*parts).alias("__digest"),
            f.pmod(f.xxhash64(key), f.lit(BUCKETS)).cast("int").alias("__bucket"),
        )

    def _kind(self, name: str) -> DataType:
        return self._origin.schema[name].dataType

    def _key(self, values: Mapping[str, Column]) -> Column:
        """The key as tubes write it: the text of one column, or a JSON array of several."""
        from pyspark.sql import functions as f

        texts = [_text(values[name], self._kind(name)) for name in self._table.key_columns]
        if len(texts) == 1:
            return texts[0]
        return f.to_json(f.array(*texts))


def _converted(column: Column, given: DataType, wanted: DataType) -> Column:
    """A value in the type of the table; null when it does not survive the way there and back."""
    from pyspark.sql import functions as f

    if given == wanted:
        return column
    value = column.try_cast(wanted)
    return f.when(value.try_cast(given).eqNullSafe(column), value)


def _hashed(column: Column, kind: DataType) -> list[Column]:
    """What is hashed of a value so that no other comes to the same."""
    from pyspark.sql import functions as f
    from pyspark.sql import types as t

    if not isinstance(kind, t.ArrayType):
        return [column]
    elements = f.transform(column, lambda one: f.struct(one.isNull(), one))
    return [f.size(column), elements]


def _text(column: Column, kind: DataType) -> Column:
    """A value as a text that the server reads as the same, whatever its time zone is."""
    from pyspark.sql import functions as f
    from pyspark.sql import types as t

    if isinstance(kind, t.TimestampType):
        column = f.to_utc_timestamp(column, f.current_timezone())
        return f.concat(column.cast("string"), f.lit("+00"))
    if isinstance(kind, t.BinaryType):
        return f.concat(f.lit("\\x"), f.lower(f.hex(column)))
    return column.cast("string")


def _beside(ours: DataFrame, theirs: DataFrame, by: str) -> DataFrame:
    """Count and digest of the rows of both sides, as ``a`` and ``b``."""
    return _summed(ours, by).alias("a").join(_summed(theirs, by).alias("b"), by, "full")


def _summed(rows: DataFrame, by: str) -> DataFrame:
    from pyspark.sql import functions as f

    return (
        rows.groupBy(by)
        .agg(
            f.count("*").alias("n"),
            f.expr("bit_xor(__digest)").alias("x"),
            f.sum(f.col("__digest").cast("decimal(38,0)")).alias("s"),
        )
        .select(by, "n", f.concat_ws(":", "n", "x", "s").alias("digest"))
    )
