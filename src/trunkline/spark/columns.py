"""Types of Postgres, Spark and Arrow beside each other.

Reading: `select_list` asks the server what a relation or query gives and answers how to select it
so that Arrow brings what Spark expects. Types without a counterpart become text. ::

    bool int2 int4 int8 float4 float8 text varchar bytea date    as they are
    timestamptz / timestamp        timestamp / timestamp_ntz
    numeric(p,s)                   decimal(p,s) up to 38 digits, else text
    numeric                        decimal(38,18)
    oid                            bigint
    composite                      JSON text
    char(n) name time interval uuid json jsonb inet enums ranges ...     text
    arrays                         arrays of the same, of text where the element is not simple

What these cannot hold is refused, never bent: infinite dates and times, NaN, numbers with more
digits than the decimal. An array of several dimensions arrives flat.

Writing: `staging_types` says what a Spark type is copied as; the server casts it to the type of the
column it is meant for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

from trunkline.core.errors import Invalid, NotFound
from trunkline.core.execution import translated
from trunkline.spark.connection import db

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

_NATIVE: dict[str, t.DataType] = {
    "bool": t.BooleanType(),
    "int2": t.ShortType(),
    "int4": t.IntegerType(),
    "int8": t.LongType(),
    "float4": t.FloatType(),
    "float8": t.DoubleType(),
    "text": t.StringType(),
    "varchar": t.StringType(),
    "bytea": t.BinaryType(),
    "date": t.DateType(),
    "timestamptz": t.TimestampType(),
    "timestamp": t.TimestampNTZType(),
}
_COPIED: dict[type[t.DataType], str] = {
    t.BooleanType: "bool",
    t.ByteType: "int2",
    t.ShortType: "int2",
    t.IntegerType: "int4",
    t.LongType: "int8",
    t.FloatType: "float4",
    t.DoubleType: "float8",
    t.StringType: "text",
    t.CharType: "text",
    t.VarcharType: "text",
    t.BinaryType: "bytea",
    t.DateType: "date",
    t.TimestampType: "timestamptz",
    t.TimestampNTZType: "timestamp",
    t.DecimalType: "numeric",
    t.DayTimeIntervalType: "interval",
}
_MOST_DIGITS = 38
_UNBOUND = t.DecimalType(_MOST_DIGITS, 18)
# Outside of what Postgres can write as a date: infinity, or what became of it on the way.
_FIRST_DAY, _LAST_DAY = -2_440_589, 2_145_031_949
_FIRST_MICROSECOND = -210_866_803_200_000_000

_TYPES = """
select y.oid, y.typname, y.typtype, y.typcategory, coalesce(e.typname, '') as element
from pg_catalog.pg_type y left join pg_catalog.pg_type e on e.oid = y.typelem and y.typlen = -1
where y.oid = any (%s)"""
_RELATION = """
select format('%%I.%%I', n.nspname, c.relname)
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.oid = to_regclass(%s)"""


@dataclass(frozen=True, slots=True)
class PgType:
    """A type as the catalogue describes it, with the modifier of a column."""

    name: str
    kind: str = "b"
    category: str = "?"
    element: str = ""
    modifier: int = -1


@dataclass(frozen=True)
class Selection:
    """How to select a relation, and what comes."""

    sql: str
    schema: t.StructType

    @cached_property
    def arrow(self) -> pa.Schema:
        """What Spark expects of a batch."""
        return to_arrow_schema(self.schema, timezone="UTC")

    def conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """What the driver brought, as what Spark expects."""
        return pa.RecordBatch.from_arrays(
            [_conformed(batch.column(n), field) for n, field in enumerate(self.arrow)],
            schema=self.arrow,
        )


def select_list(dsn: str, relation: str, columns: Sequence[str] | None = None) -> Selection:
    """The select list of a relation (all columns, or these), and the schema of what it gives."""
    with translated(), db(dsn).connection() as connection:
        return selection(connection, relation_name(connection, relation), columns)


def selection(
    connection: psycopg.Connection[Any], source: str, columns: Sequence[str] | None = None
) -> Selection:
    """The same for anything that can stand after FROM."""
    present = describe(connection, source)
    if missing := [name for name in columns or () if name not in present]:
        raise Invalid(
            f"there is no column {', '.join(missing)}.", hint=f"There are: {', '.join(present)}."
        )
    mapped = {name: read_as(name, present[name]) for name in columns or present}
    schema = t.StructType([t.StructField(name, kind) for name, (_, kind) in mapped.items()])
    return Selection(", ".join(expression for expression, _ in mapped.values()), schema)


def chosen(offered: t.StructType, schema: t.StructType) -> tuple[str, ...]:
    """The columns of a schema that a user gave, or that we made."""
    known = {field.name: field.dataType for field in offered}
    for field in schema:
        if known.get(field.name) != field.dataType:
            listed = ", ".join(f"{name} {kind.simpleString()}" for name, kind in known.items())
            raise Invalid(
                f"there is no column {field.name} of type {field.dataType.simpleString()}.",
                hint=f"There are the columns {listed}.",
            )
    return tuple(schema.fieldNames())


def relation_name(connection: psycopg.Connection[Any], relation: str) -> str:
    """The qualified and quoted name of a table or view."""
    row = connection.execute(_RELATION, [relation]).fetchone()
    if row is None:
        raise NotFound(
            f'there is no table or view "{relation}".',
            hint='Say "schema.name"; a name with capitals needs double quotes inside.',
        )
    name: str = row[0]
    return name


def describe(connection: psycopg.Connection[Any], source: str) -> dict[str, PgType]:
    """The columns that come from a source, domains resolved."""
    # prepared, it would be refused once a column comes or goes
    cursor = connection.execute(f"select * from {source} limit 0".encode(), prepare=False)
    found = cursor.description or []
    modifiers = [cursor.pgresult.fmod(n) if cursor.pgresult else -1 for n in range(len(found))]
    rows = connection.execute(_TYPES, [[column.type_code for column in found]]).fetchall()
    types = {oid: (name, kind, category, element) for oid, name, kind, category, element in rows}
    names = [column.name for column in found]
    if doubled := {name for name in names if names.count(name) > 1}:
        raise Invalid(
            f"column {', '.join(sorted(doubled))} comes twice.", hint="Give each a name of its own."
        )
    return {
        column.name: PgType(*types[column.type_code], modifier)
        for column, modifier in zip(found, modifiers, strict=True)
    }


def read_as(name: str, type_: PgType) -> tuple[str, t.DataType]:
    """How a column is selected, and which Spark type it becomes."""
    column = quoted(name)
    if type_.name in _NATIVE:
        return column, _NATIVE[type_.name]
    if type_.name == "numeric":
        digits = decimal(type_.modifier)
        return (f"{column}::text as {column}", digits or t.StringType())
    if type_.name == "oid":
        return f"{column}::int8 as {column}", t.LongType()
    if type_.kind == "c":
        return f"to_jsonb({column})::text as {column}", t.StringType()
    if type_.category == "A" and type_.element and not type_.name.endswith("vector"):
        if type_.element in _NATIVE:
            return column, t.ArrayType(_NATIVE[type_.element])
        return f"{column}::text[] as {column}", t.ArrayType(t.StringType())
    return f"{column}::text as {column}", t.StringType()


def decimal(modifier: int) -> t.DecimalType | None:
    """The decimal that holds every number of a numeric column; None when there is none."""
    if modifier < 0:
        return _UNBOUND
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, ((modifier - 4) & 0x7FF ^ 1024) - 1024
    if scale < 0:
        precision, scale = precision - scale, 0
    precision = max(precision, scale)
    return t.DecimalType(precision, scale) if precision <= _MOST_DIGITS else None


def staging_types(schema: t.StructType) -> dict[str, str]:
    """For every column the Postgres type that it is copied as."""
    return {field.name: _copied_as(field.name, field.dataType) for field in schema.fields}


def described(schema: t.StructType) -> str:
    """A schema in words for a message: ``id bigint, name string``."""
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema.fields)


def quoted(name: str) -> str:
    """An identifier for SQL."""
    return sql.Identifier(name).as_string()


def spark_name(name: str) -> str:
    """An identifier for Spark."""
    return "`" + name.replace("`", "``") + "`"


def _copied_as(name: str, kind: t.DataType) -> str:
    if isinstance(kind, t.ArrayType) and type(kind.elementType) in _COPIED:
        return f"{_COPIED[type(kind.elementType)]}[]"
    if type(kind) not in _COPIED:
        raise Invalid(
            f'column "{name}" is {kind.simpleString()}, which no column of a table can be.',
            hint="Write it as text: to_json() for structs, maps and nested arrays.",
        )
    return _COPIED[type(kind)]


def _conformed(array: pa.Array, field: pa.Field) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    try:
        if pa.types.is_decimal(field.type) and field.type.precision == _MOST_DIGITS:
            # straight from text a number with too many digits becomes another number
            array = array.cast(pa.decimal256(2 * _MOST_DIGITS, field.type.scale))
        if array.type != field.type:
            array = array.cast(field.type)
    except pa.ArrowInvalid as error:
        raise Invalid(
            f'column "{field.name}" has a number that is not a {field.type}: {error}.',
            hint="Round or cast it with the option query.",
        ) from None
    if pa.types.is_date(field.type) and _beyond(array.cast(pa.int32()), _FIRST_DAY, _LAST_DAY):
        raise _infinite(field)
    if pa.types.is_timestamp(field.type) and _beyond(
        array.cast(pa.int64()), _FIRST_MICROSECOND, None
    ):
        raise _infinite(field)
    return array


def _beyond(numbers: pa.Array, first: int, last: int | None) -> bool:
    bounds = pc.min_max(numbers)
    lowest, highest = bounds["min"].as_py(), bounds["max"].as_py()
    return lowest is not None and (lowest < first or (last is not None and highest > last))


def _infinite(field: pa.Field) -> Invalid:
    return Invalid(
        f'column "{field.name}" has an infinite date or time, which Spark does not know.',
        hint="Replace it with the option query, for example by nullif(column, 'infinity').",
    )
