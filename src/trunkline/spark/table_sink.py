"""The sink of ``trunkline.table``: append, or upsert by keys, with deletes by a flag.

Tasks copy their rows into staging tables in types that the wire knows; the driver moves them in one
transaction with the ledger row, and the server casts them to the types of the table.

A key that comes twice in a batch has no last row unless something tells which is last: it is
refused, or with the option ``orderBy`` the row that is highest in these columns counts, and a draw
is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql
from pydantic import Field, model_validator
from pyspark.sql.types import BooleanType, StructType

from trunkline.core.errors import Invalid, PositionTrimmed, from_database
from trunkline.core.execution import execute, translated
from trunkline.core.words import counted
from trunkline.spark import calls
from trunkline.spark.columns import described, relation_name, staging_types
from trunkline.spark.connection import db, locate, plain_errors
from trunkline.spark.ledger import Batch, write_once
from trunkline.spark.options import Words  # noqa: TC001 - pydantic reads it
from trunkline.spark.sink import BatchSink, SinkOptions, StreamSink, Target
from trunkline.spark.staging import Staged, numbers_of, stage_rows, table, unstage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Self

    import pyarrow as pa

_COLUMNS = """
select a.attname, format_type(a.atttypid, null), format_type(a.atttypid, a.atttypmod),
       a.attnotnull and not a.atthasdef and a.attidentity = '',
       a.attgenerated <> '' or a.attidentity = 'a'
from pg_catalog.pg_attribute a
where a.attrelid = %s::regclass and a.attnum > 0 and not a.attisdropped order by a.attnum"""
_UNIQUE = """
select exists (
  select from pg_catalog.pg_index i
  where i.indrelid = %s::regclass and i.indisunique and i.indisvalid
    and i.indpred is null and i.indexprs is null
    and (select array_agg(a.attname::text order by a.attname::text) from pg_catalog.pg_attribute a
         where a.attrelid = i.indrelid and a.attnum = any (i.indkey[0:i.indnkeyatts - 1]))
        = (select array_agg(k order by k) from unnest(%s::text[]) k))"""


class TableSinkOptions(SinkOptions):
    """Options of ``df.write.format("trunkline.table")``."""

    dbtable: str
    """The table: ``name`` or ``schema.name``."""
    keys: Words = ()
    """Columns of a unique index: rows that are there already are replaced."""
    delete_flag: str | None = Field(default=None, min_length=1)
    """A boolean column; where it is true the row with these keys is deleted. Not written."""
    order_by: Words = ()
    """Which of several rows of one key counts: the one that is highest in these columns."""

    @model_validator(mode="after")
    def _keys_are_there(self) -> Self:
        for name, value in (("deleteFlag", self.delete_flag), ("orderBy", self.order_by)):
            if value and not self.keys:
                raise ValueError(f"option {name} needs the option keys")
        return self


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table that is written to."""

    name: str
    type: str
    declared: str
    needed: bool
    generated: bool


def table_writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> BatchSink:
    """The sink of a batch write."""
    with plain_errors():
        parsed = TableSinkOptions.parse(options)
        return BatchSink(TableTarget.plan(parsed, schema, overwrite=overwrite), parsed)


def table_stream_writer(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> StreamSink:
    """The sink of a stream; mode ``complete`` overwrites the table with every batch."""
    with plain_errors():
        parsed = TableSinkOptions.parse(options)
        return StreamSink(TableTarget.plan(parsed, schema, overwrite=overwrite), parsed)


@dataclass(frozen=True)
class TableTarget(Target):
    """Rows, staged by tasks and moved by the driver with statements that were planned before."""

    dsn: str = field(repr=False)
    name: str
    staged_as: Mapping[str, str]
    """Column of the rows to the type it is copied as."""
    written_as: Mapping[str, str]
    """Column of the table to the type it is cast to."""
    keys: tuple[str, ...] = ()
    delete_flag: str | None = None
    order_by: tuple[str, ...] = ()
    overwrite: bool = False

    @classmethod
    def plan(cls, options: TableSinkOptions, schema: StructType, *, overwrite: bool) -> Self:
        """Check the rows against the table, before any task runs."""
        if overwrite and options.keys:
            raise Invalid("to overwrite a table and to upsert by keys contradict each other.")
        dsn = locate(options.dsn)
        with translated(), db(dsn).connection() as connection:
            name = relation_name(connection, options.dbtable)
            present = [Column(*row) for row in connection.execute(_COLUMNS, [name])]
            _check_columns(options, schema, name, present)
            if options.keys and not _asked(connection, _UNIQUE, [name, list(options.keys)]):
                raise Invalid(
                    f"table {name} has no unique index on ({', '.join(options.keys)}).",
                    hint="Option keys names the columns of the primary key or of a unique index.",
                )
            names = [field.name for field in schema.fields if field.name != options.delete_flag]
            target = cls(
                dsn=dsn,
                name=name,
                staged_as=staging_types(schema),
                written_as={c.name: c.type for c in present if c.name in names},
                keys=options.keys,
                delete_flag=options.delete_flag,
                order_by=options.order_by,
                overwrite=overwrite,
            )
            target.rehearse(connection, schema, present)
        return target

    def rehearse(
        self, connection: psycopg.Connection[Any], schema: StructType, present: list[Column]
    ) -> None:
        """Let the server plan the statements, which finds types that cannot be cast."""
        none = sql.SQL("(select {} where false)").format(
            sql.SQL(", ").join(
                sql.SQL("null::{} as {}").format(sql.SQL(kind), sql.Identifier(name))
                for name, kind in self.staged_as.items()
            )
        )
        try:
            for statement in self._statements(none):
                connection.execute(sql.SQL("explain ") + statement)
        except (psycopg.ProgrammingError, psycopg.NotSupportedError) as error:
            if isinstance(error, psycopg.errors.InsufficientPrivilege):
                raise
            raise Invalid(
                f"the rows do not fit table {self.name}: {error.diag.message_primary}."
                f" Rows: {described(schema)}. Table: {_declared(present)}."
            ) from error

    def write(self, batches: Iterator[pa.RecordBatch]) -> Staged:
        return stage_rows(self.dsn, self.staged_as, batches)

    def commit(self, messages: Sequence[Staged], batch: Batch) -> None:
        staged = [message for message in messages if message.number is not None]

        def move(connection: psycopg.Connection[Any]) -> int:
            self._move(connection, staged)
            return execute(connection, calls.unstage(numbers_of(staged)))

        rows = sum(message.rows for message in staged)
        target = f"table {self.name}"
        if write_once(self.dsn, batch, rows=rows, target=target, effect=move) is None:
            unstage(self.dsn, staged)

    def abort(self, messages: Sequence[Any]) -> None:
        unstage(self.dsn, messages)

    def _move(self, connection: psycopg.Connection[Any], staged: list[Staged]) -> None:
        if self.overwrite:
            connection.execute(sql.SQL("truncate {}").format(sql.SQL(self.name)))
        if not self.keys:
            for message in staged:
                self._append(connection, message)
            return
        if not staged:
            return
        for message in staged:
            _check_count(connection, message)
        rows = sql.SQL("({})").format(
            sql.SQL(" union all ").join(
                sql.SQL("select * from {}").format(table(message.number or 0)) for message in staged
            )
        )
        self._check_keys(connection, rows)
        for statement in self._statements(rows):
            connection.execute(statement)

    def _append(self, connection: psycopg.Connection[Any], message: Staged) -> None:
        """Move the rows of one task; only where not all arrived (a trigger may do that) count."""
        for statement in self._statements(table(message.number or 0)):
            try:
                moved = connection.execute(statement).rowcount
            except psycopg.errors.UndefinedTable as error:
                if f"spark_staging_{message.number}" not in str(error):
                    raise  # a trigger's
                raise _lost(message, 0) from None
            if moved != message.rows:
                _check_count(connection, message)

    def _check_keys(self, connection: psycopg.Connection[Any], rows: sql.Composable) -> None:
        """Refuse keys that are null, or that come twice without an order."""
        keys = _listed(self.keys)
        query = sql.SQL("select {} from {} s where {} limit 1").format(
            keys,
            rows,
            sql.SQL(" or ").join(sql.SQL("{} is null").format(_id(key)) for key in self.keys),
        )
        if connection.execute(query).fetchone():
            raise Invalid(
                f"a row for table {self.name} has a key ({', '.join(self.keys)}) that is null."
            )
        query = sql.SQL("select {} from {} s group by {} having count(*) > 1 limit 1").format(
            keys, rows, _listed((*self.keys, *self.order_by))
        )
        if doubled := connection.execute(query).fetchone():
            shown = ", ".join(f"{k} = {v!r}" for k, v in zip(self.keys, doubled, strict=True))
            drawn = f" with the same {', '.join(self.order_by)}" if self.order_by else ""
            raise Invalid(
                f"two rows for table {self.name} in one batch have the key {shown}{drawn}.",
                hint="Which is last? Name the columns that tell it with the option orderBy,"
                " or keep one row per key.",
            )

    def _statements(self, rows: sql.Composable) -> Iterator[sql.Composed]:
        """What moves rows into the table: the deletes, then the others."""
        if self.order_by:
            rows = sql.SQL(
                "(select distinct on ({keys}) * from {rows} r order by {keys}, {order})"
            ).format(
                keys=_listed(self.keys),
                rows=rows,
                order=sql.SQL(", ").join(
                    sql.SQL("{} desc nulls last").format(_id(name)) for name in self.order_by
                ),
            )
        if self.delete_flag:
            yield sql.SQL("delete from {} t using {} s where s.{} and {}").format(
                sql.SQL(self.name),
                rows,
                _id(self.delete_flag),
                sql.SQL(" and ").join(
                    sql.SQL("t.{0} = s.{0}::{1}").format(_id(key), sql.SQL(self.written_as[key]))
                    for key in self.keys
                ),
            )
        yield sql.SQL("insert into {} as t ({}) select {} from {} s {} {}").format(
            sql.SQL(self.name),
            _listed(self.written_as),
            sql.SQL(", ").join(
                sql.SQL("s.{}::{}").format(_id(name), sql.SQL(kind))
                for name, kind in self.written_as.items()
            ),
            rows,
            sql.SQL("where s.{} is not true").format(_id(self.delete_flag))
            if self.delete_flag
            else sql.SQL(""),
            self._on_conflict(),
        )

    def _on_conflict(self) -> sql.Composable:
        if not self.keys:
            return sql.SQL("")
        others = [name for name in self.written_as if name not in self.keys]
        if not others:
            return sql.SQL("on conflict ({}) do nothing").format(_listed(self.keys))
        return sql.SQL("on conflict ({}) do update set {}").format(
            _listed(self.keys),
            sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(_id(name)) for name in others),
        )


def _check_columns(
    options: TableSinkOptions, schema: StructType, name: str, present: list[Column]
) -> None:
    both = f"Rows: {described(schema)}. Table {name}: {_declared(present)}."
    given = set(schema.fieldNames())
    side = {options.delete_flag, *options.order_by}
    there = {column.name for column in present}
    if unknown := [column for column in schema.fieldNames() if column not in there | side]:
        raise Invalid(f"the table has no column {', '.join(unknown)}. {both}")
    if absent := [name for name in (*options.keys, *options.order_by) if name not in given]:
        raise Invalid(f"the rows have no column {', '.join(absent)}. {both}")
    if absent := [name for name in options.keys if name not in there]:
        raise Invalid(f"the table has no column {', '.join(absent)}. {both}")
    if needed := [column.name for column in present if column.needed and column.name not in given]:
        raise Invalid(f"the rows have no column {', '.join(needed)}, which the table needs. {both}")
    if made := [column.name for column in present if column.generated and column.name in given]:
        raise Invalid(f"column {', '.join(made)} is generated and cannot be written. {both}")
    if options.delete_flag:
        flag = next((f for f in schema.fields if f.name == options.delete_flag), None)
        if flag is None or not isinstance(flag.dataType, BooleanType):
            raise Invalid(
                f"option deleteFlag names a boolean column of the rows,"
                f" got {options.delete_flag}. {both}"
            )


def _check_count(connection: psycopg.Connection[Any], message: Staged) -> None:
    query = sql.SQL("select count(*) from {}").format(table(message.number or 0))
    try:
        found = _asked(connection, query)
    except psycopg.errors.UndefinedTable:
        found = 0
    except psycopg.Error as error:
        raise from_database(error) from error
    if found != message.rows:
        raise _lost(message, found)


def _lost(message: Staged, found: int) -> PositionTrimmed:
    return PositionTrimmed(
        f"a task staged {counted(message.rows, 'row')}, {counted(found, 'is', 'are')} there.",
        hint="The server was restarted meanwhile, or the staging table was dropped by"
        " maintenance. Run it again: nothing was written.",
    )


def _declared(present: list[Column]) -> str:
    return ", ".join(f"{column.name} {column.declared}" for column in present)


def _asked(connection: psycopg.Connection[Any], query: Any, values: Any = ()) -> Any:
    row = connection.execute(query, values).fetchone()
    return row and row[0]


def _id(name: str) -> sql.Identifier:
    return sql.Identifier(name)


def _listed(names: Any) -> sql.Composable:
    return sql.SQL(", ").join(map(sql.Identifier, names))
