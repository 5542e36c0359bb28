"""The sink of ``trunkline.kv``: puts values under keys, and deletes keys whose value is null.

Tasks stage their rows; the driver puts all of them in one transaction with the ledger row, so zones
see a batch whole or not at all. What is written is stamped as every put is: it wins over what was
there, here and everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field
from pyspark.sql.types import StringType, StructType

from trunkline.core.errors import Invalid
from trunkline.core.execution import execute
from trunkline.spark import calls
from trunkline.spark.columns import described, staging_types
from trunkline.spark.connection import db, locate, plain_errors
from trunkline.spark.kv_rows import COLUMNS
from trunkline.spark.ledger import Batch, write_once
from trunkline.spark.options import Words  # noqa: TC001 - pydantic reads it
from trunkline.spark.sink import BatchSink, SinkOptions, StreamSink, Target
from trunkline.spark.staging import Staged, numbers_of, stage_rows, unstage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Self

    import pyarrow as pa

    from trunkline.core.calls import Call

_WRITTEN = ("key", "value")


class KvSinkOptions(SinkOptions):
    """Options of ``df.write.format("trunkline.kv")``."""

    namespace: str = Field(default="default", min_length=1)
    """The namespace that is written."""
    value_format: Literal["json", "text"] = "json"
    """What the column value holds: JSON, or a text that is kept as it is."""
    policy: str | None = Field(default=None, min_length=1)
    """The keys expire by this policy of their namespace."""
    ttl: str | None = Field(default=None, min_length=1)
    """The keys expire after so long, as Postgres writes it: ``8 hours``."""
    order_by: Words = ()
    """Which of several rows of one key counts: the one that is highest in these columns."""


def kv_writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> BatchSink:
    """The sink of a batch write."""
    with plain_errors():
        parsed = KvSinkOptions.parse(options)
        return BatchSink(KvTarget.plan(parsed, schema, overwrite=overwrite), parsed)


def kv_stream_writer(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> StreamSink:
    """The sink of a stream."""
    with plain_errors():
        parsed = KvSinkOptions.parse(options)
        return StreamSink(KvTarget.plan(parsed, schema, overwrite=overwrite), parsed)


@dataclass(frozen=True)
class KvTarget(Target):
    """Keys and values, staged by tasks and put by the driver."""

    dsn: str = field(repr=False)
    options: KvSinkOptions = field(repr=False)
    staged_as: Mapping[str, str]

    @classmethod
    def plan(cls, options: KvSinkOptions, schema: StructType, *, overwrite: bool) -> Self:
        """Check the rows, the namespace and when keys expire, before any task runs."""
        if overwrite:
            raise Invalid(
                "a namespace cannot be overwritten.",
                hint='Use mode("append"), in streams too.',
            )
        _check_schema(options, schema)
        kept = [each for each in schema.fields if each.name in {*_WRITTEN, *options.order_by}]
        target = cls(locate(options.dsn), options, staging_types(StructType(kept)))
        db(target.dsn).run(target.put([]))
        return target

    def put(self, staged: Sequence[Staged]) -> Call[int]:
        """Put what was staged."""
        return calls.kv_put(
            numbers_of(staged),
            [message.rows for message in staged],
            self.options.namespace,
            as_text=self.options.value_format == "text",
            policy=self.options.policy,
            ttl=self.options.ttl,
            order_by=self.options.order_by,
        )

    def write(self, batches: Iterator[pa.RecordBatch]) -> Staged:
        kept = list(self.staged_as)
        return stage_rows(self.dsn, self.staged_as, (batch.select(kept) for batch in batches))

    def commit(self, messages: Sequence[Staged], batch: Batch) -> None:
        staged = [message for message in messages if message.number is not None]
        put = self.put(staged)
        written = write_once(
            self.dsn,
            batch,
            rows=sum(message.rows for message in staged),
            target=f"namespace {self.options.namespace}",
            effect=lambda connection: execute(connection, put),
        )
        if written is None:
            unstage(self.dsn, staged)

    def abort(self, messages: Sequence[Any]) -> None:
        unstage(self.dsn, messages)


def _check_schema(options: KvSinkOptions, schema: StructType) -> None:
    """Refuse rows that are not a key and a value."""
    given = {each.name: each.dataType for each in schema.fields}
    if missing := [name for name in (*_WRITTEN, *options.order_by) if name not in given]:
        raise Invalid(
            f"the rows have no column {', '.join(missing)}, they have: {described(schema)}.",
            hint="Rows have a key and a value, which is JSON, or null to delete the key.",
        )
    if strange := [name for name in given if name not in {*COLUMNS, *options.order_by}]:
        raise Invalid(
            f"a key has no column {', '.join(strange)}.",
            hint="Put them into the value, for example with to_json(struct(...)).",
        )
    for name in _WRITTEN:
        if not isinstance(given[name], StringType):
            raise Invalid(
                f'column "{name}" is {given[name].simpleString()}, expected string.',
                hint="Cast a key; make JSON of a value with to_json(), or cast it.",
            )
