"""Tasks of the source of keys: a range of keys as they are now, or keys that changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from psycopg import sql
from pyspark.sql import types as t

from trunkline.core.errors import PositionTrimmed
from trunkline.spark import connection
from trunkline.spark.columns import Selection
from trunkline.spark.reading import arrow_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

_AT_ONCE = 50_000  # changes that one query covers: the server holds that many keys in memory
_ALL = 2**31 - 1
_TYPES: dict[str, t.DataType] = {
    "key": t.StringType(),
    "value": t.StringType(),
    "version": t.StringType(),
    "expires_at": t.TimestampType(),
    "position": t.LongType(),
}
COLUMNS = tuple(_TYPES)


@dataclass(frozen=True, slots=True)
class Keys:
    """Which keys, of which database; carried to tasks, and never printed."""

    dsn: str = field(repr=False)
    namespace: str
    prefix: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scan:
    """Keys after ``after`` and up to ``until``, as they are when the task asks."""

    keys: Keys
    after: str
    until: str | None
    position: int
    """All changes up to here are in it."""

    def read(self) -> Iterator[pa.RecordBatch]:
        """The keys in order."""
        source = _call(
            "kv_scan", self.keys.namespace, self.keys.prefix, self.after, _ALL, self.until
        )
        with connection.plain_errors():
            yield from _read(self.keys, source, position=f"{self.position}::bigint")


@dataclass(frozen=True, slots=True)
class Changes:
    """Keys that the changes ``first`` to ``last`` touched, with what they say now."""

    keys: Keys
    first: int
    last: int

    def read(self) -> Iterator[pa.RecordBatch]:
        """The keys in the order of their last change; one that is gone has no value."""
        for first in range(self.first, self.last + 1, _AT_ONCE):
            most = min(_AT_ONCE, self.last - first + 1)
            source = _call("kv_changes", self.keys.namespace, first - 1, self.keys.prefix, most)
            try:
                with connection.plain_errors():
                    yield from _read(self.keys, f"{source} where key is not null", "up_to")
            except PositionTrimmed as gone:
                gone.hint = (
                    "Take a new checkpoint and startingOffsets=earliest, which begins with all"
                    " keys. The setting kv.history says how long changes stay."
                )
                raise


def schema_of(columns: Sequence[str]) -> t.StructType:
    """The schema of these columns."""
    return t.StructType([t.StructField(name, _TYPES[name]) for name in columns])


def _call(function: str, *values: str | int | None) -> str:
    given = sql.SQL(", ").join(map(sql.Literal, values)).as_string()
    return f"trunkline.{function}({given})"


def _read(keys: Keys, source: str, position: str) -> Iterator[pa.RecordBatch]:
    named = {"value": "value::text", "position": position}
    listed = ", ".join(f"{named.get(name, name)} as {name}" for name in keys.columns)
    return arrow_rows(keys.dsn, Selection(listed, schema_of(keys.columns)), source)
