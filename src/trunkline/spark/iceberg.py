"""Iceberg tables as targets of a sink: the catalogue is in the same Postgres.

Tasks write Parquet; the driver adds the files in one snapshot. The snapshot carries the application
and the number of its batch, and the ledger has them too: the ledger's row is inserted first, held
open while the snapshot is made, and committed after it. So two drivers wait for each other, a
crash in between is found by the mark on the snapshot, and an expired snapshot by the ledger.

The tables of the catalogue (``iceberg_tables`` and another) are made in the first schema of the
search path that the role may create in. Files that no snapshot took stay where they are.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
from psycopg.conninfo import conninfo_to_dict
from pyarrow import fs
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from sqlalchemy import URL
from sqlalchemy.exc import SQLAlchemyError

from trunkline.core.backoff import Backoff
from trunkline.core.errors import Conflict, DatabaseError, Invalid
from trunkline.core.execution import translated
from trunkline.core.telemetry import redact
from trunkline.spark.connection import db, locate
from trunkline.spark.ledger import Batch, check_repeat, write_once
from trunkline.spark.parquet_files import write_files
from trunkline.spark.sink import Target

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.table import Table
    from pyspark.sql.types import StructType

    from trunkline.spark.iceberg_sink import IcebergSinkOptions
    from trunkline.spark.parquet_files import File

_ATTEMPTS = 10
# Two that find no catalogue must not both make it.
_ALONE = "select pg_advisory_xact_lock(hashtextextended('trunkline iceberg', 0))"


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task tells the driver."""

    files: list[File] = field(default_factory=list)
    digest: int = 0
    query: str | None = None
    run: str | None = None


@dataclass(frozen=True)
class IcebergTarget(Target):
    """A table of the catalogue, and where its files go."""

    dsn: str
    name: str
    location: str
    schema: pa.Schema

    def write(self, batches: Iterator[pa.RecordBatch]) -> Written:
        place, root = fs.FileSystem.from_uri(self.location)
        folder = f"{root}/data/"
        place.create_dir(folder)
        return Written(write_files(batches, files=place, schema=self.schema, folder=folder))

    def commit(self, messages: Sequence[Any], batch: Batch) -> None:
        files = [file for message in messages for file in message.files]
        app = batch.app or f"once {uuid4()}"
        rows = sum(file.rows for file in files)
        write_once(
            self.dsn,
            batch,
            rows=rows,
            target=f"iceberg {self.name}",
            effect=lambda _connection: self._add(files, replace(batch, app=app), rows),
        )

    def _add(self, files: Sequence[File], batch: Batch, rows: int) -> bool:
        """Add the files unless a snapshot has them already; whether it was done here."""
        scheme = self.location.partition("://")[0]
        paths = [f"{scheme}://{file.path}" for file in files]
        marks = {**asdict(batch), "batch": batch.number, "rows": rows}
        properties = {f"trunkline.{k}": str(v) for k, v in marks.items() if v is not None}
        waits = Backoff(first=0.05, longest=2.0)
        for _ in range(_ATTEMPTS):
            with catalogue(self.dsn) as catalog:
                table = catalog.load_table(self.name)
                if noted := _noted(table, batch):
                    check_repeat(batch, rows, noted, newest=True)  # the ledger has none after it
                    return False
                if not paths:
                    return False
                try:
                    table.add_files(
                        paths, snapshot_properties=properties, check_duplicate_files=False
                    )
                except CommitFailedException:
                    time.sleep(waits.next())  # others were quicker: what they did is seen next
                else:
                    return True
        raise Conflict(f"others wrote to {self.name} at the same time, {_ATTEMPTS} times.")


def target_of(options: IcebergSinkOptions, schema: StructType, *, overwrite: bool) -> IcebergTarget:
    if overwrite:
        raise Invalid(
            "an Iceberg table is appended to, not overwritten.",
            hint='Use mode("append"), in streams too.',
        )
    dsn = locate(options.dsn)
    rows = _widened(to_arrow_schema(schema, timezone="UTC"))
    with translated(), db(dsn).transaction() as connection, catalogue(dsn) as catalog:
        connection.execute(_ALONE)
        try:
            table = catalog.load_table(options.table)
            _check(table, options.table, rows)
        except NoSuchTableError:
            table = _make(catalog, options, rows)
        return IcebergTarget(dsn, options.table, table.location(), rows)


def _make(catalog: SqlCatalog, options: IcebergSinkOptions, rows: pa.Schema) -> Table:
    catalog.create_namespace_if_not_exists(options.table.rpartition(".")[0])
    warehouse = options.warehouse.rstrip("/")
    if "://" not in warehouse:
        warehouse = f"file://{warehouse}"
    location = "/".join([warehouse, *options.table.split(".")])
    try:
        return catalog.create_table(options.table, rows, location=location)
    except (NotImplementedError, TypeError, ValueError) as error:
        raise Invalid(f"an Iceberg table cannot hold these columns: {error}") from None


def _check(table: Table, name: str, rows: pa.Schema) -> None:
    if not table.spec().is_unpartitioned():
        raise Invalid(f"table {name} is partitioned, which this sink does not write.")
    if required := [column.name for column in table.schema().fields if column.required]:
        raise Invalid(
            f"column {', '.join(required)} of table {name} is required, which this sink does not"
            " check.",
            hint="Make it optional.",
        )
    there = {column.name: _plain(column.type) for column in table.schema().as_arrow()}
    given = {column.name: _plain(column.type) for column in rows}
    if differing := [column for column, kind in given.items() if there.get(column) != kind]:
        raise Invalid(
            f"column {', '.join(differing)} does not fit table {name}."
            f" Rows: {_words(given)}. Table: {_words(there)}.",
            hint="Cast the rows, or change the table first.",
        )


@contextmanager
def catalogue(dsn: str) -> Iterator[SqlCatalog]:
    """The catalogue in this database; its tables are made when there are none."""
    try:
        catalog = SqlCatalog("trunkline", uri=catalog_uri(dsn))
        try:
            yield catalog
        finally:
            catalog.close()
    except SQLAlchemyError as error:
        raise DatabaseError(redact(f"the catalogue: {error}")) from None


def catalog_uri(dsn: str) -> str:
    """A connection string as SQLAlchemy takes it, with the driver that we have."""
    parts = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
    return URL.create("postgresql+psycopg", query=parts).render_as_string(hide_password=False)


def _noted(table: Table, batch: Batch) -> dict[str, str] | None:
    """What the snapshot of a batch says of it; None when there is no such snapshot."""
    for snapshot in table.snapshots():
        found = snapshot.summary.additional_properties if snapshot.summary else {}
        noted = {name.removeprefix("trunkline."): value for name, value in found.items()}
        if (noted.get("app"), noted.get("batch")) == (batch.app, str(batch.number)):
            return noted
    return None


def _widened(schema: pa.Schema) -> pa.Schema:
    """Iceberg has no integers below 32 bits; and what Spark says of nulls is of a query."""
    small = (pa.int8(), pa.int16())
    return pa.schema(
        [(column.name, pa.int32() if column.type in small else column.type) for column in schema]
    )


def _plain(kind: pa.DataType) -> str:
    return str(kind).replace("large_", "")


def _words(columns: dict[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())
