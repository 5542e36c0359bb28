"""Where a sync goes: a Delta table, a table of a Postgres, or a function of yours."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trunkline.core.errors import Invalid, NotFound
from trunkline.core.execution import translated
from trunkline.spark import calls, connection, ledger, tube_rows
from trunkline.spark.columns import relation_name
from trunkline.spark.lake_path import insist_on_absolute
from trunkline.spark.session import append
from trunkline.spark.tube_rows import DELETED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from trunkline.spark.attached import Attached
    from trunkline.spark.jobs.changes import Changes

Function = Callable[["DataFrame", int], None]


class Target(ABC):
    """Makes rows true downstream, and can be read back."""

    name: str
    """What it is called in the ledger, in progress and in reports."""

    @abstractmethod
    def write(self, rows: DataFrame, keys: Sequence[str], app: str, batch: int) -> None:
        """Upsert the rows by their keys, delete those that are marked; a batch counts once."""

    def take(self, changes: Changes, app: str, batch: int) -> None:
        """The same with what a round of a sync brings."""
        self.write(changes.rows(), changes.table.key_columns, app, batch)

    @abstractmethod
    def next_batch(self, app: str) -> int:
        """The number of an application's next batch: one more than the last that took effect."""

    @abstractmethod
    def find(self, *, written: bool = False) -> None:
        """`NotFound` when it is not there; what the first write makes need not be, unless it
        must have been ``written`` to before."""

    @abstractmethod
    def read(self, spark: SparkSession) -> DataFrame | None:
        """All rows that are there; None when there is no table yet."""


@dataclass(frozen=True)
class DeltaTable(Target):
    """A Delta table in a directory or bucket."""

    path: str

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"delta:{self.path}"

    def write(self, rows: DataFrame, keys: Sequence[str], app: str, batch: int) -> None:
        options = {"path": self.path, **_common(keys, app, batch)}
        append(rows, "trunkline.delta", options)

    def take(self, changes: Changes, app: str, batch: int) -> None:
        """Without a frame, where no two tasks bring the same row."""
        if changes.come_twice:
            super().take(changes, app, batch)
            return
        from trunkline.spark.delta_sink import DeltaSinkOptions, Written, plan
        from trunkline.spark.tube_files import write_slices

        keys = tuple(changes.table.key_columns)
        options = DeltaSinkOptions(path=self.path, keys=keys, delete_flag=DELETED)
        target = plan(options, changes.schema(), overwrite=False)
        files = write_slices(changes.spark, changes.slices(), target.table)
        target.commit([Written(files)], ledger.Batch(app, batch))

    def next_batch(self, app: str) -> int:
        from deltalake import DeltaTable as Stored

        if not Stored.is_deltatable(self.path):
            return 0
        last = Stored(self.path).transaction_version(app)
        return 0 if last is None else last + 1

    def find(self, *, written: bool = False) -> None:
        from deltalake import DeltaTable as Stored

        if written and not Stored.is_deltatable(self.path):
            raise NotFound(
                f"there is no Delta table in {self.path}.",
                hint="Is the path right? If nothing was written yet: trunkline spark backfill",
            )

    def read(self, spark: SparkSession) -> DataFrame | None:
        from deltalake import DeltaTable as Stored

        if not Stored.is_deltatable(self.path):
            return None
        return spark.read.format("trunkline.delta").load(self.path)


@dataclass(frozen=True)
class PostgresTable(Target):
    """A table of this or another Postgres, which is there already, with a key."""

    table: str
    dsn: str = field(repr=False)

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"table:{self.table}"

    def write(self, rows: DataFrame, keys: Sequence[str], app: str, batch: int) -> None:
        options = {"dbtable": self.table, "dsn": self.dsn, **_common(keys, app, batch)}
        append(rows, "trunkline.table", options)

    def next_batch(self, app: str) -> int:
        return connection.db(self.dsn).run(calls.next_batch(app))

    def find(self, *, written: bool = False) -> None:
        with translated(), connection.db(self.dsn).connection() as asked:
            relation_name(asked, self.table)

    def read(self, spark: SparkSession) -> DataFrame | None:
        options = {"dbtable": self.table, "dsn": self.dsn}
        return spark.read.format("trunkline.table").options(**options).load()


@dataclass(frozen=True)
class Applied(Target):
    """A function that is given the rows of each batch, as ``foreachBatch`` gives them."""

    function: Function
    dsn: str = field(repr=False)

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"function:{getattr(self.function, '__name__', 'function')}"

    def write(self, rows: DataFrame, keys: Sequence[str], app: str, batch: int) -> None:
        self.function(rows, batch)
        ledger.write_once(
            self.dsn, ledger.Batch(app, batch), rows=0, target=self.name, effect=lambda _: None
        )

    def next_batch(self, app: str) -> int:
        return connection.db(self.dsn).run(calls.next_batch(app))

    def find(self, *, written: bool = False) -> None:
        if written:
            raise Invalid("a function cannot be read back: audit delta:PATH or table:NAME.")

    def read(self, spark: SparkSession) -> DataFrame | None:
        return None


def pairs(
    tube: str,
    to: str | Function | Target,
    *,
    relation: str | None,
    dsn: str,
    target_dsn: str | None,
    written: bool = False,
) -> list[tuple[Attached, Target]]:
    """The tables of a tube (or one) and where each goes; all of it is there, or `NotFound`."""
    tables = tube_rows.tables(dsn, tube)
    if relation is not None:
        tables = [tube_rows.attached(dsn, tube, relation)]
    place = dsn if target_dsn is None else connection.locate(target_dsn)
    found = []
    for table in tables:
        target = target_of(to, place, relation=table.relation, several=len(tables) > 1)
        target.find(written=written)
        found.append((table, target))
    return found


def target_of(to: str | Function | Target, dsn: str, *, relation: str, several: bool) -> Target:
    """``delta:PATH``, ``table:NAME``, or a function; ``{relation}`` in a name is the table's."""
    if isinstance(to, Target):
        return to
    if callable(to):
        return Applied(to, dsn)
    if several and "{relation}" not in to:
        raise Invalid(
            f'the tube has several tables, and all would go to "{to}".',
            hint="Name one with relation, or write {relation} where its name belongs.",
        )
    kind, separator, place = to.replace("{relation}", relation).partition(":")
    if not separator or not place:
        raise Invalid(f'a target is delta:PATH or table:NAME, got "{to}".')
    if kind == "delta":
        return DeltaTable(insist_on_absolute(place))
    if kind == "table":
        return PostgresTable(place, dsn)
    raise Invalid(f'a target is delta:PATH or table:NAME, got "{to}".')


def _common(keys: Sequence[str], app: str, batch: int) -> Mapping[str, Any]:
    return {
        "keys": ",".join(keys),
        "deleteFlag": DELETED,
        "appId": app,
        "batchId": str(batch),
    }
