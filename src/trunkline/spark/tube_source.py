"""The format ``trunkline.tube``: what was touched, as keys, with documents or as typed rows.

A tube has one reader: whoever works its lanes. A batch looks at what waits and takes nothing away;
a stream works the tube: it owns all lanes, and acknowledges what its checkpoint has left behind.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, field_validator, model_validator
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from trunkline.core.errors import Conflict, Invalid, PositionTrimmed
from trunkline.spark import connection, tube_rows
from trunkline.spark.arrivals import Arrivals
from trunkline.spark.options import Options
from trunkline.spark.reading import Reading, StreamReading
from trunkline.spark.tube_lanes import Lanes
from trunkline.spark.tube_rows import Slice, Span
from trunkline.tube import calls

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from trunkline.spark.sink import BatchSink, StreamSink

_PATIENCE = 0.5  # seconds that a stream with nothing to read waits for a wake-up
_VERSION = 1
_OWN_TUBE = (
    "Give each table a tube of its own, or leave out the option relation and tell the changes apart"
    " by their column relation."
)


class TubeOptions(Options):
    """Options of the source."""

    tube: str = Field(min_length=1)
    """The tube."""
    relation: str | None = None
    """Only changes of this table. A stream takes it only if the tube has no other table: it would
    acknowledge their changes unread."""
    enrich: Literal["none", "json", "columns"] = "none"
    """json: a column ``document`` with the row as it is now, NULL when it is gone. columns: the
    columns of the table instead of those of the tube, each key once, and ``_deleted``."""
    ignore_truncate: bool = False
    """False: a stream with enrich=columns fails where the table was truncated, because its rows
    cannot say which keys left. True: it goes on; empty the target yourself."""
    ranges: tuple[Span, ...] | None = None
    """Which entries, as JSON: ``[{"lane": 0, "priority": 0, "first": 1, "last": 9}]``; by default a
    batch reads all that waits."""
    max_entries_per_trigger: int | None = Field(default=None, ge=1)
    """Positions that one micro-batch covers at most."""
    min_partitions: int = Field(default=1, ge=1, le=10_000)
    """At least so many tasks: the keys of a lane are dealt out to several, each key to one."""

    @field_validator("ranges", mode="before")
    @classmethod
    def _spans(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return tuple(Span(**span) for span in json.loads(value))
        except (ValueError, TypeError) as error:
            raise ValueError(f"ranges are a JSON list of objects ({error})") from None

    @model_validator(mode="after")
    def _one_table(self) -> Self:
        if self.enrich == "columns" and self.relation is None:
            raise ValueError("enrich=columns needs the option relation: rows have its columns")
        return self


class TubeSource(DataSource):
    """Touched keys of a tube; written, keys are touched."""

    @classmethod
    def name(cls) -> str:
        return "trunkline.tube"

    def schema(self) -> StructType:
        options = TubeOptions.parse(self.options)
        with connection.plain_errors():
            return tube_rows.schema_of(_slice(options))

    def reader(self, schema: StructType) -> TubeReader:
        options = TubeOptions.parse(self.options)
        if options.max_entries_per_trigger is not None:
            raise Invalid("option maxEntriesPerTrigger is not for a batch.")
        if options.ignore_truncate:
            raise Invalid("option ignoreTruncate is not for a batch.")
        return TubeReader(options, schema)

    def streamReader(self, schema: StructType) -> TubeStreamReader:
        options = TubeOptions.parse(self.options)
        if options.ranges is not None:
            raise Invalid("option ranges is not for a stream.")
        return TubeStreamReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchSink:  # noqa: FBT001 - Spark's
        from trunkline.spark.tube_sink import tube_writer

        return tube_writer(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSink:  # noqa: FBT001
        from trunkline.spark.tube_sink import tube_stream_writer

        return tube_stream_writer(self.options, schema, overwrite=overwrite)


class TubePartition(InputPartition):
    """What one task reads."""

    def __init__(self, part: Slice):
        self.part = part

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.part.spans}, {self.part.bucket}/{self.part.buckets})"


class _Reading(Reading[TubeOptions]):
    def __init__(self, options: TubeOptions, schema: StructType):
        super().__init__(options)
        self._schema = schema

    def _plan(self, spans: Sequence[Span]) -> Sequence[InputPartition]:
        """A task per lane, more where that is not enough."""
        asked = _slice(self._options, self.dsn)
        return [TubePartition(part) for part in asked.divide(spans, self._options.min_partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, TubePartition):
            return iter(())  # Spark makes up a partition where a plan has none
        return tube_rows.read_slice(partition.part)


class TubeReader(_Reading, DataSourceReader):
    """Looks at what waits, or at given ranges; acknowledges nothing."""

    def partitions(self) -> Sequence[InputPartition]:
        with connection.plain_errors():
            spans = self._options.ranges
            if spans is None:
                database = connection.db(self.dsn)
                database.run(calls.flush())
                spans = tuple(
                    Span(row.lane, priority, up_to + 1, row.head)
                    for row in database.run(calls.stats(self._options.tube))
                    for priority, up_to in enumerate((row.live_up_to, row.backfill_up_to))
                    if row.head > up_to
                )
            return self._plan(spans)


class TubeStreamReader(
    _Reading, StreamReading[TubeOptions], DataSourceStreamReader, SupportsTriggerAvailableNow
):
    """Works a tube: reads on from the checkpoint, acknowledges what lies before it."""

    stays = ("_lanes", "_arrivals")

    def __init__(self, options: TubeOptions, schema: StructType):
        super().__init__(options, schema)
        self._lanes: Lanes | None = None
        self._arrivals: Arrivals | None = None
        self._final: int | None = None
        self._has_ended = False
        self._newest = 0

    def initialOffset(self) -> dict[str, Any]:
        with connection.plain_errors():
            lanes = self._owned()
            return self._position(min(lanes.positions()))

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.max_entries_per_trigger
        return ReadMaxRows(most) if most else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        with connection.plain_errors():
            self._final = connection.db(self.dsn).run(calls.flush())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        with connection.plain_errors():
            begin = self._begin(start)
            if self._final is not None and begin >= self._final:
                self._end(begin)
                return self._position(begin)
            self._owned().acknowledge(begin)
            head = self._head()
            if head <= begin and self._final is None:
                self._wait()
                head = self._head()
            self._newest = head
            if self._final is not None:
                head = min(head, self._final)
            if isinstance(limit, ReadMaxRows):
                head = min(head, begin + limit.max_rows)
            return self._position(max(begin, head))

    def reportLatestOffset(self) -> dict[str, Any]:
        return self._position(self._newest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        with connection.plain_errors():
            first, last = self._begin(start) + 1, self._begin(end)
            if first > last:
                return []
            spans = [
                Span(lane, priority, max(first, up_to + 1), last)
                for (lane, priority), up_to in self._owned().marks().items()
                if last > up_to
            ]
            self._refuse_loss(spans)
            return self._plan(spans)

    def commit(self, end: dict[str, Any]) -> None:
        if self._has_ended:
            return
        with connection.plain_errors():
            self._owned().acknowledge(self._begin(end))

    def _end(self, position: int) -> None:
        """Acknowledge all of a run with ``availableNow`` and give the lanes back.

        Spark looks once more when all is read, and kills the process of the reader without `stop`.
        """
        if not self._has_ended:
            self._owned().acknowledge(position)
            self._leave()
            self._has_ended = True

    def _leave(self) -> None:
        if self._lanes:
            self._lanes.leave()
            self._lanes = None

    def stop(self) -> None:
        self._leave()
        if self._arrivals:
            self._arrivals.close()

    def _refuse_loss(self, spans: Sequence[Span]) -> None:
        """Refuse to acknowledge what no row of these spans can show."""
        asked = replace(_slice(self._options, self.dsn), spans=tuple(spans))
        if asked.relation is None:
            return
        table = tube_rows.attached(asked.dsn, asked.tube, asked.relation)
        tube_rows.refuse_others(asked.dsn, asked.tube, [table.relation], hint=_OWN_TUBE)
        if asked.enrich != "columns" or self._options.ignore_truncate:
            return
        if (position := tube_rows.truncated_at(asked)) is not None:
            raise Conflict(
                f"table {table.relation} was truncated at position {position}, and rows with"
                " enrich=columns cannot say which keys left.",
                hint="Empty the target, then start the stream with option ignoreTruncate=true;"
                " or use trunkline spark sync, which removes these rows itself.",
            )

    def _owned(self) -> Lanes:
        if self._lanes is None:
            self._refuse_loss([])
            self._lanes = Lanes(self.dsn, self._options.tube, name="spark stream")
        return self._lanes

    def _head(self) -> int:
        database = connection.db(self.dsn)
        database.run(calls.tick())
        return database.run(calls.head())

    def _wait(self) -> None:
        if self._arrivals is None:
            self._arrivals = Arrivals(self.dsn, ["tube:"])
        self._arrivals.wait(_PATIENCE)

    def _position(self, position: int) -> dict[str, Any]:
        incarnation = connection.db(self.dsn).run(calls.reach()).incarnation
        return {
            "version": _VERSION,
            "incarnation": incarnation,
            "tube": self._options.tube,
            "position": position,
        }

    def _begin(self, noted: dict[str, Any]) -> int:
        if noted.get("version") != _VERSION or "position" not in noted:
            raise Invalid(
                f"the checkpoint has a position of another source: {json.dumps(noted)[:120]}."
            )
        if (tube := noted.get("tube", self._options.tube)) != self._options.tube:
            raise Invalid(
                f'the checkpoint is one of tube "{tube}": what this tube has before position'
                f" {noted['position']} would be taken for done.",
                hint="Give every query a checkpoint of its own.",
            )
        reach = connection.db(self.dsn).run(calls.reach())
        if noted["incarnation"] != reach.incarnation or noted["position"] > reach.head:
            raise PositionTrimmed(
                f"position {noted['position']} was noted in life {noted['incarnation']} of the"
                f" server; this is life {reach.incarnation}, and ends at {reach.head}.",
                hint="The server was restored to an earlier state, or failed over. Start with a new"
                " checkpoint: the tube still has what was not acknowledged. Then bring all rows"
                " down again with a backfill: what the server lost may be downstream.",
            )
        return int(noted["position"])


def _slice(options: TubeOptions, dsn: str | None = None) -> Slice:
    return Slice(
        dsn or connection.locate(options.dsn), options.tube, options.relation, options.enrich
    )
