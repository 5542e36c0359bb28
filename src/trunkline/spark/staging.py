"""Staging tables: where tasks put what the driver moves when all of them are done.

Every attempt of a task has a table of its own, so an attempt that failed, or that ran twice, is
never mixed with the one that counts; what is left over is dropped by ``maintain()``.
"""

from __future__ import annotations

import atexit
import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg import sql
from pyspark.sql.datasource import WriterCommitMessage

from trunkline.core.errors import TrunklineError
from trunkline.core.execution import translated
from trunkline.spark import calls
from trunkline.spark.connection import adbc, db

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from trunkline.spark.log_routing import Routed

_BATCH_TYPES = {
    "ordinal": "int4",
    "topic": "text",
    "partition": "int4",
    "n": "int4",
    "codec": "int2",
    "value_ends": "bytea",
    "payload": "bytea",
    "value_valid": "bytea",
    "key_ends": "bytea",
    "keys": "bytea",
    "key_valid": "bytea",
    "headers": "bytea",
}


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """What a task tells the driver: how much it put into which table."""

    number: int | None = None
    """None: the task had no rows."""
    rows: int = 0
    digest: int = 0
    query: str | None = None
    run: str | None = None


def table(number: int) -> sql.Composable:
    """The name of a staging table."""
    return sql.Identifier("trunkline", f"spark_staging_{number}")


def stage_rows(dsn: str, types: Mapping[str, str], batches: Iterator[pa.RecordBatch]) -> Staged:
    """Copy Arrow batches into a new table with these columns."""
    import pyarrow as pa

    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return Staged()
    number = db(dsn).run(calls.stage(list(types), list(types.values())))
    rows = 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal rows
        for batch in _chain(first, batches):
            rows += batch.num_rows
            yield batch

    with _dropped_on_failure(dsn, number), _adbc(dsn).cursor() as cursor:
        cursor.adbc_ingest(
            f"spark_staging_{number}",
            pa.RecordBatchReader.from_batches(first.schema, counted()),
            mode="append",
            db_schema_name="trunkline",
        )
    return Staged(number, rows)


def stage_batches(dsn: str, batches: Iterable[Routed]) -> Staged:
    """Copy packed record batches into a new table."""
    remaining = iter(batches)
    first = next(remaining, None)
    if first is None:
        return Staged()
    number = db(dsn).run(calls.stage_batches())
    statement = sql.SQL("copy {} ({}) from stdin (format binary)").format(
        table(number), sql.SQL(", ").join(map(sql.Identifier, _BATCH_TYPES))
    )
    messages = 0
    with (
        _dropped_on_failure(dsn, number),
        translated(),
        db(dsn).connection() as connection,
        connection.cursor() as cursor,
        cursor.copy(statement) as copy,
    ):
        copy.set_types(list(_BATCH_TYPES.values()))
        for ordinal, routed in enumerate(_chain(first, remaining)):
            copy.write_row(_row(ordinal, routed))
            messages += routed.batch.n
    return Staged(number, messages)


def unstage(dsn: str, messages: Sequence[Any]) -> None:
    """Drop what tasks staged; failed tasks have no message."""
    if numbers := numbers_of(messages):
        db(dsn).run(calls.unstage(numbers))


def numbers_of(messages: Sequence[Any]) -> list[int]:
    """The tables of those tasks that had rows, in the order of the tasks."""
    return [message.number for message in messages if message and message.number is not None]


def _row(ordinal: int, routed: Routed) -> list[Any]:
    batch = routed.batch
    return [
        ordinal,
        routed.topic,
        routed.partition,
        batch.n,
        int(batch.codec),
        batch.value_ends,
        batch.payload,
        batch.value_valid,
        batch.key_ends,
        batch.keys,
        batch.key_valid,
        batch.headers,
    ]


def _chain(first: Any, rest: Iterable[Any]) -> Iterator[Any]:
    yield first
    yield from rest


@contextmanager
def _dropped_on_failure(dsn: str, number: int) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with suppress(TrunklineError):  # maintain() drops it later
            db(dsn).run(calls.unstage([number]))
        raise


_connections: dict[tuple[str, int], Any] = {}


def _adbc(dsn: str) -> Any:
    """The Arrow connection of this process: to connect takes longer than to copy a small batch."""
    place = (dsn, os.getpid())
    known = _connections.get(place)
    if known is not None and not _alive(known):
        known = None
    if known is None:
        known = _connections[place] = adbc(dsn)
        atexit.register(known.close)
    return known


def _alive(connection: Any) -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("select 1")
            cursor.fetchone()
    except connection.Error:
        return False
    return True
