"""The sink of ``trunkline.log``: rows become record batches, as the Python client would pack them.

Columns: ``value`` (needed), ``key``, ``partition``, ``headers`` (JSON text), ``topic`` unless the
option names one. ``offset``, ``timestamp`` and the like, which the source gives, are not written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field
from pyspark.sql.types import (
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    ShortType,
    StringType,
    StructType,
)

from trunkline.core.calls import Call, scalar
from trunkline.core.errors import Invalid
from trunkline.core.execution import execute
from trunkline.core.listen import CHANNEL
from trunkline.log import calls as log_calls
from trunkline.spark import calls
from trunkline.spark.columns import described
from trunkline.spark.connection import db, locate, plain_errors
from trunkline.spark.ledger import Batch, write_once
from trunkline.spark.log_routing import Router
from trunkline.spark.sink import BatchSink, SinkOptions, StreamSink, Target, task_number
from trunkline.spark.staging import Staged, numbers_of, stage_batches, unstage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from trunkline.spark.log_routing import Routed

_BYTES = (BinaryType, StringType)
_TAKEN: dict[str, tuple[type[DataType], ...]] = {
    "value": _BYTES,
    "key": _BYTES,
    "topic": (StringType,),
    "partition": (IntegerType, ShortType, ByteType),
    "headers": (StringType,),
}
_LEFT_OUT = {"offset", "timestamp", "event_id", "incarnation"}


class LogSinkOptions(SinkOptions):
    """Options of ``df.write.format("trunkline.log")``."""

    topic: str | None = Field(default=None, min_length=1)
    """The topic of all rows; else every row names its own in a column ``topic``."""


def log_writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> BatchSink:
    """The sink of a batch write."""
    with plain_errors():
        parsed = LogSinkOptions.parse(options)
        return BatchSink(_target(parsed, schema, overwrite=overwrite), parsed)


def log_stream_writer(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> StreamSink:
    """The sink of a stream."""
    with plain_errors():
        parsed = LogSinkOptions.parse(options)
        return StreamSink(_target(parsed, schema, overwrite=overwrite), parsed)


def _target(options: LogSinkOptions, schema: StructType, *, overwrite: bool) -> LogTarget:
    if overwrite:
        raise Invalid("a topic cannot be overwritten.", hint='Use mode("append"), in streams too.')
    check_schema(schema, options.topic)
    target = LogTarget(locate(options.dsn), options.topic)
    if options.topic is not None:
        db(target.dsn).run(log_calls.settings(options.topic))
    return target


def check_schema(schema: StructType, topic: str | None) -> None:
    """Refuse rows that cannot become messages."""
    names = set(schema.fieldNames())
    expected = "value (binary or string), key, partition (int), headers (string), topic (string)"
    if "value" not in names:
        raise Invalid(
            f'the rows need a column "value", they have: {described(schema)}.',
            hint=f"Columns of a topic are: {expected}.",
        )
    if topic is None and "topic" not in names:
        raise Invalid(
            "there is neither an option topic nor a column topic.",
            hint='Say .option("topic", "orders"), or give every row a topic.',
        )
    if strange := [name for name in schema.fieldNames() if name not in {*_TAKEN, *_LEFT_OUT}]:
        raise Invalid(
            f"a message has no column {', '.join(strange)}.",
            hint=f"Put them into the value, for example with to_json(). Columns are: {expected}.",
        )
    for column in schema.fields:
        kinds = _TAKEN.get(column.name)
        if kinds and not isinstance(column.dataType, kinds):
            wanted = " or ".join(kind.typeName() for kind in kinds[:2])
            raise Invalid(
                f'column "{column.name}" is {column.dataType.simpleString()}, expected {wanted}.'
            )


class LogTarget(Target):
    """Record batches, staged by tasks and appended by the driver in the order of tasks."""

    def __init__(self, dsn: str, topic: str | None):
        self.dsn = dsn
        self.topic = topic

    def write(self, batches: Iterator[pa.RecordBatch]) -> Staged:
        return stage_batches(self.dsn, self._routed(batches))

    def commit(self, messages: Sequence[Staged], batch: Batch) -> None:
        staged = [message for message in messages if message.number is not None]
        append = calls.append(numbers_of(staged), [message.rows for message in staged])
        grown = write_once(
            self.dsn,
            batch,
            rows=sum(message.rows for message in staged),
            target=f"topic {self.topic}" if self.topic else "topics",
            effect=lambda connection: execute(connection, append),
        )
        if grown is None:
            unstage(self.dsn, staged)
        else:
            self._wake(grown)

    def abort(self, messages: Sequence[Any]) -> None:
        unstage(self.dsn, messages)

    def _routed(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Routed]:
        pool = db(self.dsn)
        router = Router(
            lambda topic: pool.run(log_calls.settings(topic)),
            message_bytes=pool.run(_message_bytes()),
            topic=self.topic,
            turn=task_number(),
        )
        for batch in batches:
            yield from router.add(batch)
        yield from router.finish()

    def _wake(self, grown: list[tuple[str, int]]) -> None:
        """After the commit, so that other writers never wait for a notification of ours."""
        keys = [f"log:{topic}:{partition}" for topic, partition in grown]
        with db(self.dsn).connection() as connection:
            connection.execute(
                "select pg_notify(%s, key) from unnest(%s::text[]) as key", [CHANNEL, keys]
            )


def _message_bytes() -> Call[int]:
    return Call(
        "config_get",
        {"name": "log.message_bytes"},
        lambda rows: int(scalar(rows)),
        safe_to_repeat=True,
    )
