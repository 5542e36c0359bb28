"""The sink of ``trunkline.events``: rows become events, as `publish_many` would publish them.

Columns: ``payload`` (needed, JSON), ``key``, ``metadata`` (a JSON object), ``topic`` unless the
option names one. ``event_id``, ``position`` and the like, which the source gives, are not written.
The driver publishes all rows in one transaction, in the order of the tasks and of their rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import Field
from pyspark.sql.types import StringType

from trunkline.core.errors import Invalid
from trunkline.core.execution import execute
from trunkline.spark import calls
from trunkline.spark.columns import described
from trunkline.spark.connection import db, locate, plain_errors
from trunkline.spark.ledger import Batch, write_once
from trunkline.spark.sink import BatchSink, SinkOptions, StreamSink, Target
from trunkline.spark.staging import Staged, numbers_of, stage_rows, unstage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Self

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from trunkline.core.calls import Call

_WRITTEN = ("topic", "key", "payload", "metadata")
_LEFT_OUT = {"event_id", "position", "at", "delivery"}
_STAGED = {"ordinal": "int8", **dict.fromkeys(_WRITTEN, "text")}


class EventsSinkOptions(SinkOptions):
    """Options of ``df.write.format("trunkline.events")``."""

    topic: str | None = Field(default=None, min_length=1)
    """The topic of all rows; else every row names its own in a column ``topic``."""


def events_writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> BatchSink:
    """The sink of a batch write."""
    with plain_errors():
        parsed = EventsSinkOptions.parse(options)
        return BatchSink(EventsTarget.plan(parsed, schema, overwrite=overwrite), parsed)


def events_stream_writer(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> StreamSink:
    """The sink of a stream."""
    with plain_errors():
        parsed = EventsSinkOptions.parse(options)
        return StreamSink(EventsTarget.plan(parsed, schema, overwrite=overwrite), parsed)


@dataclass(frozen=True)
class EventsTarget(Target):
    """Events, staged by tasks and published by the driver."""

    dsn: str = field(repr=False)
    topic: str | None

    @classmethod
    def plan(cls, options: EventsSinkOptions, schema: StructType, *, overwrite: bool) -> Self:
        """Check the rows, and that we may publish, before any task runs."""
        if overwrite:
            raise Invalid(
                "events cannot be overwritten.", hint='Use mode("append"), in streams too.'
            )
        _check_schema(schema, options.topic)
        target = cls(locate(options.dsn), options.topic)
        db(target.dsn).run(_publish([]))
        return target

    def write(self, batches: Iterator[pa.RecordBatch]) -> Staged:
        return stage_rows(self.dsn, _STAGED, self._numbered(batches))

    def commit(self, messages: Sequence[Staged], batch: Batch) -> None:
        staged = [message for message in messages if message.number is not None]
        publish = _publish(staged)
        published = write_once(
            self.dsn,
            batch,
            rows=sum(message.rows for message in staged),
            target=f"events of topic {self.topic}" if self.topic else "events",
            effect=lambda connection: execute(connection, publish),
        )
        if published is None:
            unstage(self.dsn, staged)

    def abort(self, messages: Sequence[Any]) -> None:
        unstage(self.dsn, messages)

    def _numbered(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows as they are staged: each with its place in the task."""
        import pyarrow as pa

        done = 0
        for batch in batches:
            columns = {name: pa.nulls(batch.num_rows, pa.string()) for name in _WRITTEN}
            columns |= {name: batch[name] for name in _WRITTEN if name in batch.schema.names}
            if self.topic is not None:
                columns["topic"] = pa.repeat(pa.scalar(self.topic), batch.num_rows)
            places = pa.array(range(done, done + batch.num_rows), pa.int64())
            yield pa.RecordBatch.from_pydict({"ordinal": places, **columns})
            done += batch.num_rows


def _publish(staged: Sequence[Staged]) -> Call[int]:
    return calls.publish(numbers_of(staged), [message.rows for message in staged])


def _check_schema(schema: StructType, topic: str | None) -> None:
    """Refuse rows that cannot become events."""
    names = schema.fieldNames()
    if "payload" not in names:
        raise Invalid(
            f'the rows need a column "payload", they have: {described(schema)}.',
            hint=f"Columns of an event are: {', '.join(_WRITTEN)}; all are strings.",
        )
    if topic is None and "topic" not in names:
        raise Invalid(
            "there is neither an option topic nor a column topic.",
            hint='Say .option("topic", "orders"), or give every row a topic.',
        )
    if strange := [name for name in names if name not in {*_WRITTEN, *_LEFT_OUT}]:
        raise Invalid(
            f"an event that is published has no column {', '.join(strange)}.",
            hint="Drop them, or put them into the payload, for example with to_json(struct(...)).",
        )
    for column in schema.fields:
        if column.name in _WRITTEN and not isinstance(column.dataType, StringType):
            raise Invalid(
                f'column "{column.name}" is {column.dataType.simpleString()}, expected string.',
                hint="Cast a topic or key; make JSON of payload and metadata with to_json().",
            )
