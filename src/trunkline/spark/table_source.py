"""The source ``trunkline.table``: a table, a view or a query, by Arrow.

One partition is one statement and so one snapshot. With more, every task sees the table as of its
own start: Postgres shares a snapshot only while the transaction that exported it is open, and
nothing of ours lives from planning until the last task begins. Ranges of a key are the better cut
then, for a row keeps its key: each comes once, as of some moment of the read. A table without an
integer at the head of its primary key is cut by the place of its rows, and a row that is updated
meanwhile may come twice or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import Field, model_validator
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from trunkline.core.errors import Invalid
from trunkline.core.execution import translated
from trunkline.spark.columns import Selection, described, quoted, relation_name, selection
from trunkline.spark.connection import adbc, db, locate, plain_errors
from trunkline.spark.options import Options, Words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Self

    import psycopg
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from trunkline.spark.sink import BatchSink, StreamSink

_KEY = """
select a.attname from pg_catalog.pg_index i
join pg_catalog.pg_attribute a on a.attrelid = i.indrelid and a.attnum = i.indkey[0]
where i.indrelid = %s::regclass and i.indisprimary
  and a.atttypid in ('int2'::regtype, 'int4'::regtype, 'int8'::regtype)"""
_BLOCKS = """
select pg_relation_size(c.oid) / current_setting('block_size')::bigint
from pg_catalog.pg_class c where c.oid = %s::regclass and c.relkind in ('r', 'm')"""


class TableSourceOptions(Options):
    """Options of ``spark.read.format("trunkline.table")``."""

    dbtable: str | None = None
    """A table or view: ``name`` or ``schema.name``."""
    query: str | None = None
    """A select statement instead of a table."""
    columns: Words | None = None
    """Which columns to read: Spark does not tell a Python source which it needs."""
    min_partitions: int = Field(default=1, ge=1)
    """Into how many tasks to cut the read; each of them sees the table as of its own start."""

    @model_validator(mode="after")
    def _one_thing_is_read(self) -> Self:
        if (self.dbtable is None) == (self.query is None):
            raise ValueError("name either dbtable or query")
        if self.query is not None and self.min_partitions > 1:
            raise ValueError("a query cannot be cut: minPartitions is for tables")
        return self


class TableSource(DataSource):
    """``trunkline.table``: reads in batches; writes in batches and streams."""

    @classmethod
    def name(cls) -> str:
        return "trunkline.table"

    def schema(self) -> StructType:
        with plain_errors():
            return self._read().selection.schema

    def reader(self, schema: StructType) -> TableReader:
        with plain_errors():
            read = self._read()
            if schema != read.selection.schema:
                raise Invalid(
                    f"the table gives {described(read.selection.schema)},"
                    f" the schema asked for is {described(schema)}.",
                    hint="Choose columns with the option columns, and cast with query.",
                )
            return TableReader(read)

    def writer(self, schema: StructType, overwrite: bool) -> BatchSink:  # noqa: FBT001 - Spark's
        from trunkline.spark.table_sink import table_writer

        return table_writer(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSink:  # noqa: FBT001
        from trunkline.spark.table_sink import table_stream_writer

        return table_stream_writer(self.options, schema, overwrite=overwrite)

    def _read(self) -> Read:
        options = TableSourceOptions.parse(self.options)
        dsn = locate(options.dsn)
        with translated(), db(dsn).connection() as connection:
            if options.query is not None:
                source = f"({options.query.strip().rstrip(';')}) as q"
            else:
                source = relation_name(connection, options.dbtable or "")
            chosen = selection(connection, source, options.columns)
            return Read(dsn, source, chosen, options.min_partitions)


@dataclass(frozen=True)
class Read:
    """What is read, from where; carried to tasks, and never printed."""

    dsn: str = field(repr=False)
    source: str
    selection: Selection
    min_partitions: int


@dataclass
class Part(InputPartition):
    """A share of the table."""

    condition: str


class TableReader(DataSourceReader):
    """Cuts the table on the driver, reads the pieces in tasks."""

    def __init__(self, read: Read):
        self._read = read

    def partitions(self) -> Sequence[InputPartition]:
        if self._read.min_partitions == 1:
            return [Part("true")]
        with plain_errors(), translated(), db(self._read.dsn).connection() as connection:
            return [Part(condition) for condition in _cut(connection, self._read)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, Part):
            return
        statement = (
            f"select {self._read.selection.sql} from {self._read.source}"
            f" where {partition.condition}"
        )
        with (
            plain_errors(),
            adbc(self._read.dsn) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(statement)
            for batch in cursor.fetch_record_batch():
                if batch.num_rows:
                    yield self._read.selection.conform(batch)


def ranges(column: str, first: int, last: int, parts: int) -> list[str]:
    """Conditions that cut the integers of a column evenly; the outer ones are open."""
    width = last - first + 1
    parts = max(1, min(parts, width))
    bounds = [first + width * n // parts for n in range(1, parts)]
    return _between(column, [str(bound) for bound in bounds])


def blocks(count: int, parts: int) -> list[str]:
    """Conditions that cut a table of so many blocks by the place of the rows."""
    parts = max(1, min(parts, count))
    return _between("ctid", [f"'({count * n // parts},0)'::tid" for n in range(1, parts)])


def _between(column: str, bounds: list[str]) -> list[str]:
    lower = [None, *bounds]
    upper = [*bounds, None]
    return [
        " and ".join(
            condition
            for condition in (
                f"{column} >= {low}" if low is not None else "",
                f"{column} < {high}" if high is not None else "",
            )
            if condition
        )
        or "true"
        for low, high in zip(lower, upper, strict=True)
    ]


def _cut(connection: psycopg.Connection[Any], read: Read) -> list[str]:
    key = connection.execute(_KEY, [read.source]).fetchone()
    if key is not None:
        column = quoted(key[0])
        found = connection.execute(
            f"select min({column}), max({column}) from {read.source}".encode()
        ).fetchone()
        if found is None or found[0] is None:
            return ["true"]
        first, last = found
        return ranges(column, first, last, read.min_partitions)
    size = connection.execute(_BLOCKS, [read.source]).fetchone()
    if size is None:
        raise Invalid(
            f"{read.source} cannot be cut: it has neither a primary key that begins with an"
            " integer nor blocks of its own.",
            hint="Leave minPartitions out.",
        )
    return blocks(size[0], read.min_partitions)
