"""The sink of ``trunkline.tube``: touches keys, which are then delivered as if their rows changed.

Rows have a column ``key`` and no other: what is delivered is the row of the table as it is then.
The driver touches all keys of a batch in one transaction with the ledger row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator
from pyspark.sql.types import StringType

from trunkline.core.errors import Invalid, NotFound
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
    from trunkline.spark.attached import Attached

_STAGED = {"key": "text"}
_OPERATIONS = {"live": "T", "backfill": "B"}


class TubeSinkOptions(SinkOptions):
    """Options of ``df.write.format("trunkline.tube")``."""

    tube: str = Field(min_length=1)
    """The tube."""
    relation: str | None = Field(default=None, min_length=1)
    """The table that the keys are of; it is attached to the tube. Without one, name the shard."""
    shard: int | None = Field(default=None, ge=0, le=2**31 - 1)
    """The shard of all keys; by default that of the table, unless that is an expression."""
    priority: Literal["live", "backfill"] = "live"
    """live: with the changes of the table. backfill: behind them, which is for many keys."""

    @model_validator(mode="after")
    def _whereto(self) -> Self:
        if self.relation is None and self.shard is None:
            raise ValueError("there is neither an option relation nor an option shard")
        return self


def tube_writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> BatchSink:
    """The sink of a batch write."""
    with plain_errors():
        parsed = TubeSinkOptions.parse(options)
        return BatchSink(TubeTarget.plan(parsed, schema, overwrite=overwrite), parsed)


def tube_stream_writer(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> StreamSink:
    """The sink of a stream."""
    with plain_errors():
        parsed = TubeSinkOptions.parse(options)
        return StreamSink(TubeTarget.plan(parsed, schema, overwrite=overwrite), parsed)


@dataclass(frozen=True)
class TubeTarget(Target):
    """Keys, staged by tasks and touched by the driver."""

    dsn: str = field(repr=False)
    options: TubeSinkOptions = field(repr=False)

    @classmethod
    def plan(cls, options: TubeSinkOptions, schema: StructType, *, overwrite: bool) -> Self:
        """Check the rows, the tube and the table, before any task runs."""
        if overwrite:
            raise Invalid(
                "a tube cannot be overwritten.", hint='Use mode("append"), in streams too.'
            )
        _check_schema(schema)
        target = cls(locate(options.dsn), options)
        database = db(target.dsn)
        tube, relation = options.tube, options.relation
        if relation is not None:
            _check_table(database.run(calls.attached(tube, relation)), options)
        database.run(target.touch([]))
        return target

    def touch(self, staged: Sequence[Staged]) -> Call[int]:
        """Touch what was staged."""
        return calls.touch(
            numbers_of(staged),
            [message.rows for message in staged],
            self.options.tube,
            relation=self.options.relation,
            op=_OPERATIONS[self.options.priority],
            shard=self.options.shard,
        )

    def write(self, batches: Iterator[pa.RecordBatch]) -> Staged:
        return stage_rows(self.dsn, _STAGED, batches)

    def commit(self, messages: Sequence[Staged], batch: Batch) -> None:
        staged = [message for message in messages if message.number is not None]
        touch = self.touch(staged)
        touched = write_once(
            self.dsn,
            batch,
            rows=sum(message.rows for message in staged),
            target=f"tube {self.options.tube}",
            effect=lambda connection: execute(connection, touch),
        )
        if touched is None:
            unstage(self.dsn, staged)

    def abort(self, messages: Sequence[Any]) -> None:
        unstage(self.dsn, messages)


def _check_table(found: list[Attached], options: TubeSinkOptions) -> None:
    """Refuse a table that the tube does not have, and one that does not tell the shard."""
    if not found:
        raise NotFound(
            f'table "{options.relation}" is not attached to tube "{options.tube}".',
            hint='Say "schema.name", and attach it with tube_attach().',
        )
    if found[0].moves and options.shard is None:
        raise Invalid(
            f'table "{options.relation}" has an expression for its shard, and a key alone does not'
            " tell it.",
            hint="Write the keys of each shard by themselves, with the option shard.",
        )


def _check_schema(schema: StructType) -> None:
    """Refuse rows that are not a key."""
    if schema.fieldNames() != ["key"] or not isinstance(schema["key"].dataType, StringType):
        raise Invalid(
            f'rows that are touched have one column, "key" string; these have:'
            f" {described(schema)}.",
            hint="Select the key alone, as text; of several columns, as the text of a JSON array.",
        )
