"""`DeltaTarget`: a Delta table that batches are written to once.

Tasks write Parquet files; the driver makes one commit that carries the application and the number
of its batch (an application transaction of the Delta protocol), by which a repeat is known. Two
drivers that commit the same batch at once conflict, and the second finds it done.

Appends put the files into the table as they are. An upsert merges them: they lie in a folder that
readers of Delta do not look into, and leave it after the commit; so do appends to a table with
constraints, which Delta's own writer checks (see `delta_rules`). What is in no table and old is
removed by upkeep, which runs with every `compact_every`-th commit; nothing else deletes a file.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction
from pyarrow import fs

from trunkline.core import telemetry
from trunkline.core.backoff import Backoff
from trunkline.core.errors import BadRequest, Conflict, Invalid
from trunkline.spark.delta_merge import merge, staged
from trunkline.spark.delta_rules import NO_RULES, Rules, broken_rule
from trunkline.spark.delta_upkeep import STAGING, upkeep
from trunkline.spark.lake_path import files_in
from trunkline.spark.ledger import check_repeat
from trunkline.spark.parquet_files import File, write_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trunkline.spark.ledger import Batch

Mode = Literal["append", "upsert"]

_ATTEMPTS = 10

logger = telemetry.get_logger(__name__)


@dataclass(frozen=True)
class DeltaTarget:
    """Where, and of which columns. Holds values only: it is pickled to tasks."""

    path: str
    schema: pa.Schema
    partition_columns: tuple[str, ...] = ()
    compact_every: int = 100
    rules: Rules = NO_RULES
    """Of the table as it is when the write is planned."""

    def check(self, rows: pa.Schema | None = None, *, changes: bool = False) -> None:
        """Refuse rows (all columns, unless these), or ``changes`` to what is there, that the table
        does not take."""
        rows = rows or self.schema
        self.rules.check(rows, changes=changes)
        if missing := [name for name in self.partition_columns if name not in rows.names]:
            raise Invalid(f"the rows have no column {', '.join(missing)} to partition by.")
        try:
            given = {field.name: str(field.type) for field in Schema.from_arrow(rows).fields}
        except (DeltaError, ValueError) as error:
            raise Invalid(f"a Delta table cannot hold these columns: {error}.") from None
        if not DeltaTable.is_deltatable(self.path):
            return
        table = DeltaTable(self.path)
        there = {field.name: str(field.type) for field in table.schema().fields}
        differing = [name for name, kind in given.items() if there.get(name) != kind]
        if differing:
            raise Invalid(
                f"column {', '.join(differing)} does not fit the table."
                f" Rows: {_words(given)}. Table: {_words(there)}.",
                hint="Cast the rows, or change the table first.",
            )
        present = tuple(table.metadata().partition_columns)
        if present != self.partition_columns:
            raise Invalid(
                f"the table is partitioned by ({', '.join(present)}),"
                f" asked for ({', '.join(self.partition_columns)})."
            )

    def write_files(self, batches: Iterator[pa.RecordBatch], *, mode: Mode) -> list[File]:
        """In a task: write rows into files that belong to no table yet."""
        files = self._files()
        batches = self._checked(batches)
        if mode == "append":
            batches = self.rules.checked(batches)
        if mode == "append" and not self.rules.checked_by_delta:
            return write_files(
                batches,
                files=files,
                schema=self.schema,
                partition_columns=self.partition_columns,
            )
        files.create_dir(STAGING)
        return write_files(batches, files=files, schema=self.schema, folder=f"{STAGING}/")

    def _checked(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Refuse what would come back as something else."""
        texts = [
            name
            for name in self.partition_columns
            if pa.types.is_string(self.schema.field(name).type)
        ]
        for batch in batches:
            if empty := [
                name for name in texts if pc.any(pc.equal(batch.column(name), "")).as_py()
            ]:
                raise Invalid(
                    f"column {', '.join(empty)}, by which the table is partitioned, has an empty"
                    " text, which Delta takes for null.",
                    hint="Write null, or another text.",
                )
            yield batch

    def commit(
        self,
        files: Sequence[File],
        batch: Batch,
        *,
        mode: Mode,
        keys: Sequence[str] = (),
        delete_flag: str | None = None,
        order_by: Sequence[str] = (),
        truncate: bool = False,
    ) -> bool:
        """On the driver: make files part of the table in one commit; False when it was made before.

        ``truncate``: what is in the table leaves with the same commit.
        """
        # A commit may take effect and then fail, in what Delta does after it. So every write can be
        # known again, also one that nobody repeats but the loop below.
        write = str(uuid4())
        app = batch.app or f"once {write}"
        rows = sum(file.rows for file in files)
        note = {**asdict(batch), "app": app, "batch": batch.number, "rows": rows, "write": write}
        properties = CommitProperties(
            custom_metadata={
                f"trunkline.{name}": str(value) for name, value in note.items() if value is not None
            },
            app_transactions=[Transaction(app, batch.number)],
        )
        waits = Backoff(first=0.05, longest=2.0)
        for attempt in range(_ATTEMPTS):
            table = self._open(delete_flag)
            seen = table.version()
            if _newest(table, app) >= batch.number:
                if attempt and _noted(table, write=write):
                    break
                _check_repeat(table, batch, rows)
                logger.info("skipped: the batch was written before", app=app, batch=batch.number)
                self._unstage(files)
                return False
            self._refuse_other_rules(table)
            try:
                if mode == "append":
                    self._append(table, files, properties, truncate=truncate)
                else:
                    rows_to_merge = staged(self._rows(files), keys, order_by)
                    merge(table, rows_to_merge, properties, keys, delete_flag, truncate=truncate)
                break
            except DeltaError as error:
                self._raise_unless_others_wrote(error, seen, last=attempt == _ATTEMPTS - 1)
                time.sleep(waits.next())
        self._unstage(files)
        table.update_incremental()
        if self.compact_every and table.version() % self.compact_every == 0:
            self.upkeep()
        return True

    def upkeep(self) -> None:
        """Merge small files, remove what is old and in no table; see `delta_upkeep`."""
        upkeep(self.path, self._files())

    def _refuse_other_rules(self, table: DeltaTable) -> None:
        if Rules.of(table) != self.rules:
            raise Conflict(
                "the constraints or features of the table changed while rows were written.",
                hint="Start the write again: nothing was written.",
            )

    def _raise_unless_others_wrote(self, error: DeltaError, seen: int, *, last: bool) -> None:
        """Raise what a commit failed with, unless a commit after version ``seen`` is the reason."""
        if not isinstance(error, CommitFailedError):
            raise broken_rule(error) from None
        if DeltaTable(self.path).version() == seen:
            raise Conflict(f"the table refuses the commit: {error}.") from None
        if last:
            raise Conflict(
                f"others wrote to the table at the same time, {_ATTEMPTS} times: {error}."
            ) from None

    def _open(self, delete_flag: str | None) -> DeltaTable:
        if DeltaTable.is_deltatable(self.path):
            return DeltaTable(self.path)
        columns = [field for field in self.schema if field.name != delete_flag]
        with suppress(CommitFailedError):  # somebody else made it at the same time
            DeltaTable.create(
                self.path,
                schema=Schema.from_arrow(pa.schema(columns)),
                mode="ignore",
                partition_by=list(self.partition_columns),
            )
        return DeltaTable(self.path)

    def _append(
        self,
        table: DeltaTable,
        files: Sequence[File],
        properties: CommitProperties,
        *,
        truncate: bool,
    ) -> None:
        mode: Literal["overwrite", "append"] = "overwrite" if truncate else "append"
        if self.rules.checked_by_delta:
            rows = self._rows(files).scanner().to_reader()
            write_deltalake(table, rows, mode=mode, commit_properties=properties)
            return
        table.create_write_transaction(
            [
                AddAction(
                    path=file.path,
                    size=file.size,
                    partition_values=file.partition,
                    modification_time=file.modified,
                    data_change=True,
                    stats=file.stats,
                )
                for file in files
            ],
            mode=mode,
            schema=table.schema(),
            partition_by=list(self.partition_columns),
            commit_properties=properties,
        )

    def _rows(self, files: Sequence[File]) -> ds.Dataset:
        """Staged rows, not read yet."""
        if not files:
            return ds.dataset(self.schema.empty_table())
        paths = [file.path for file in files]
        return ds.dataset(paths, schema=self.schema, format="parquet", filesystem=self._files())

    def _unstage(self, files: Sequence[File]) -> None:
        place = self._files()
        for file in files:
            if file.path.startswith(f"{STAGING}/"):
                with suppress(OSError):  # the batch is written; upkeep removes it later
                    place.delete_file(file.path)

    def _files(self) -> fs.FileSystem:
        files = files_in(self.path)
        if isinstance(files, fs.SubTreeFileSystem):
            try:
                files.base_fs.create_dir(files.base_path)
            except OSError as error:
                raise BadRequest(f"{self.path} cannot be written: {error}.") from None
        return files


def partition_columns(path: str) -> tuple[str, ...]:
    """What a table is partitioned by; nothing when there is none."""
    if not DeltaTable.is_deltatable(path):
        return ()
    return tuple(DeltaTable(path).metadata().partition_columns)


def _newest(table: DeltaTable, app: str) -> int:
    """The newest batch of an application that the table has; -1 when it has none."""
    found = table.transaction_version(app)
    return -1 if found is None else found


def _check_repeat(table: DeltaTable, batch: Batch, rows: int) -> None:
    """`Conflict` unless the batch that the table has is this one."""
    app = batch.app or ""
    noted = _noted(table, app=app, batch=str(batch.number))
    if noted is None:
        raise Conflict(
            f'the table has batch {_newest(table, app)} of "{app}", and its log does not say what'
            f" batch {batch.number} was: it was trimmed, or another program wrote it.",
            hint="Use another appId; if a checkpoint was lost, set startingOffsets to where the"
            " first query ended.",
        )
    check_repeat(batch, rows, noted, newest=_newest(table, app) == batch.number)


def _noted(table: DeltaTable, **wanted: str) -> dict[str, str] | None:
    """What `commit` noted with the newest commit of which these are true."""
    for commit in table.history():
        noted = {name.removeprefix("trunkline."): value for name, value in commit.items()}
        if all(noted.get(name) == value for name, value in wanted.items()):
            return noted
    return None


def _words(columns: dict[str, Any]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())
