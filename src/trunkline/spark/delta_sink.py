"""The format ``trunkline.delta``: append or upsert into a Delta table exactly once, or read it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pydantic import Field, model_validator
from pyspark.sql.datasource import DataSource, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BooleanType, StructType

from trunkline.core.errors import Invalid
from trunkline.spark.connection import plain_errors
from trunkline.spark.lake_path import LakePath  # noqa: TC001 - pydantic reads it
from trunkline.spark.options import Words  # noqa: TC001 - pydantic reads it
from trunkline.spark.sink import BatchSink, SinkOptions, StreamSink, Target

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Self

    from pyspark.sql.datasource import DataSourceReader

    from trunkline.spark.delta import DeltaTarget, Mode
    from trunkline.spark.ledger import Batch
    from trunkline.spark.parquet_files import File


class DeltaSinkOptions(SinkOptions):
    """Options of ``df.write.format("trunkline.delta")``."""

    path: LakePath
    """The folder of the table, as an absolute path or an address; made with the first batch."""
    keys: Words = ()
    """Columns that name a row: what is there already is replaced."""
    delete_flag: str | None = Field(default=None, min_length=1)
    """A boolean column; where it is true the row with these keys is deleted. Not written."""
    order_by: Words = ()
    """Which of several rows of one key counts: the one that is highest in these columns."""
    partition_columns: Words = ()
    """Columns that a new table is partitioned by; later writes need not name them."""
    compact_every: int = Field(default=100, ge=0)
    """After so many commits small files are merged and orphans removed; 0: never."""

    @model_validator(mode="after")
    def _keys_are_there(self) -> Self:
        for name, value in (("deleteFlag", self.delete_flag), ("orderBy", self.order_by)):
            if value and not self.keys:
                raise ValueError(f"option {name} needs the option keys")
        return self


class DeltaSource(DataSource):
    """``trunkline.delta``: reads in batches, writes in batches and streams."""

    @classmethod
    def name(cls) -> str:
        return "trunkline.delta"

    def schema(self) -> StructType:
        from trunkline.spark.delta_source import DeltaReadOptions, schema_of  # slow to import

        with plain_errors():
            options = DeltaReadOptions.parse(self.options)
            return schema_of(options.path, options.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        from trunkline.spark.delta_source import DeltaReader, DeltaReadOptions

        with plain_errors():
            return DeltaReader(DeltaReadOptions.parse(self.options).path, schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchSink:  # noqa: FBT001 - Spark's
        with plain_errors():
            options = DeltaSinkOptions.parse(self.options)
            return BatchSink(plan(options, schema, overwrite=overwrite), options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSink:  # noqa: FBT001
        with plain_errors():
            options = DeltaSinkOptions.parse(self.options)
            return StreamSink(plan(options, schema, overwrite=overwrite), options)


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task tells the driver."""

    files: list[File] = field(default_factory=list)
    digest: int = 0
    query: str | None = None
    run: str | None = None


@dataclass(frozen=True)
class DeltaSinkTarget(Target):
    """A `DeltaTarget` with the options of one sink."""

    table: DeltaTarget
    mode: Mode
    keys: tuple[str, ...]
    delete_flag: str | None
    order_by: tuple[str, ...]
    overwrite: bool

    def write(self, batches: Iterator[pa.RecordBatch]) -> Written:
        return Written(self.table.write_files(batches, mode=self.mode))

    def commit(self, messages: Sequence[Any], batch: Batch) -> None:
        self.table.commit(
            [file for message in messages for file in message.files],
            batch,
            mode=self.mode,
            keys=self.keys,
            delete_flag=self.delete_flag,
            order_by=self.order_by,
            truncate=self.overwrite,
        )


def plan(options: DeltaSinkOptions, schema: StructType, *, overwrite: bool) -> DeltaSinkTarget:
    """Check the rows against the table, before any task runs."""
    if overwrite and options.keys:
        raise Invalid("to overwrite a table and to upsert by keys contradict each other.")
    from trunkline.spark.delta import DeltaTarget, partition_columns  # slow to import
    from trunkline.spark.delta_rules import Rules

    _check_columns(options, schema)
    rows = nullable(to_arrow_schema(schema, timezone="UTC"))
    partitioned = options.partition_columns or partition_columns(options.path)
    rules = Rules.at(options.path)
    table = DeltaTarget(options.path, rows, partitioned, options.compact_every, rules)
    written = [column for column in rows if column.name != options.delete_flag]
    table.check(pa.schema(written), changes=overwrite or bool(options.keys))
    return DeltaSinkTarget(
        table,
        "upsert" if options.keys else "append",
        options.keys,
        options.delete_flag,
        options.order_by,
        overwrite,
    )


def nullable(schema: pa.Schema) -> pa.Schema:
    """The schema without constraints: Spark's say what it knows of a query, not of a table."""
    return pa.schema([pa.field(column.name, column.type) for column in schema])


def _check_columns(options: DeltaSinkOptions, schema: StructType) -> None:
    kinds = {column.name: column.dataType for column in schema.fields}
    wanted: Mapping[str, Sequence[str]] = {"keys": options.keys, "orderBy": options.order_by}
    for option, names in wanted.items():
        if missing := [name for name in names if name not in kinds]:
            raise Invalid(
                f"option {option} names {', '.join(missing)}, the rows have: {', '.join(kinds)}."
            )
    if options.delete_flag and not isinstance(kinds.get(options.delete_flag), BooleanType):
        raise Invalid(
            f"option deleteFlag names a boolean column of the rows, got {options.delete_flag}."
        )
