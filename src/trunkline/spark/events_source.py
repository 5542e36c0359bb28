"""The format ``trunkline.events``: events by position, or what a group was delivered.

Reading takes nothing away: no cursor moves, and nothing is held back for a stream, which must be
quicker than the retention of events. A topic that is to be kept for longer belongs into the log.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from trunkline.broker import calls
from trunkline.core.errors import Invalid
from trunkline.spark import connection, events_rows, plan
from trunkline.spark.columns import chosen
from trunkline.spark.events_rows import COLUMNS, OF_DELIVERIES, Part
from trunkline.spark.options import Options, Words
from trunkline.spark.plan import Range
from trunkline.spark.position_stream import PositionStream, resolve
from trunkline.spark.reading import Reading

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from trunkline.spark.position_stream import Ends


class EventsOptions(Options):
    """Options of the source; positions are the next to read, as offsets in Kafka's source."""

    subscribe: Words | None = None
    """Only events of these topics, separated by commas; by default all."""
    group: str | None = Field(default=None, min_length=1)
    """What this group was delivered, a row per event and subscription; positions are then the
    numbers of deliveries. Nothing is taken from the group."""
    columns: Words | None = None
    """Only these columns; Spark reads all of a Python source otherwise."""
    starting_offsets: str | None = None
    """earliest, latest or a position; by default earliest, and latest for a stream."""
    ending_offsets: str | None = None
    """Where a batch ends, before this position: latest (the default) or a position."""
    max_events_per_trigger: int | None = Field(default=None, ge=1)
    """Positions that one micro-batch covers at most."""
    min_partitions: int | None = Field(default=None, ge=1, le=100_000)
    """Cut the positions into at least so many tasks."""
    fail_on_data_loss: bool = True
    """False: go on with what is left when retention was quicker than the reader."""

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        if self.subscribe is not None and not self.subscribe:
            raise ValueError("subscribe is empty; name at least one topic, or leave it out for all")
        if (self.ending_offsets or "").lower() == "earliest":
            raise ValueError("endingOffsets cannot be earliest")
        if unknown := [name for name in self.columns or () if name not in self.offered]:
            there = ", ".join(self.offered)
            raise ValueError(f"there is no column {unknown[0]}; columns are {there}")
        if self.columns is not None and not self.columns:
            raise ValueError("columns is empty; name at least one")
        return self

    @property
    def offered(self) -> tuple[str, ...]:
        """The columns that there are."""
        return tuple(name for name in COLUMNS if self.group or name != OF_DELIVERIES)

    def refuse(self, kind: Literal["batch", "stream"]) -> Self:
        """Refuse what only the other kind of reader takes."""
        name = {"batch": "max_events_per_trigger", "stream": "ending_offsets"}[kind]
        if getattr(self, name) is not None:
            raise Invalid(f"option {type(self).model_fields[name].alias} is not for a {kind}.")
        return self


class EventsSource(DataSource):
    """Events of topics, or deliveries of a group."""

    @classmethod
    def name(cls) -> str:
        return "trunkline.events"

    def schema(self) -> StructType:
        options = EventsOptions.parse(self.options)
        return events_rows.schema_of(options.columns or options.offered)

    def reader(self, schema: StructType) -> EventsReader:
        return EventsReader(EventsOptions.parse(self.options).refuse("batch"), schema)

    def streamReader(self, schema: StructType) -> EventsStreamReader:
        return EventsStreamReader(EventsOptions.parse(self.options).refuse("stream"), schema)


class EventsPartition(InputPartition):
    """What one task reads."""

    def __init__(self, part: Part):
        self.part = part

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.part})"


class _Reading(Reading[EventsOptions]):
    """What both readers do: find out where events begin and end, and read ranges in tasks."""

    def __init__(self, options: EventsOptions, schema: StructType):
        super().__init__(options)
        self._columns = chosen(events_rows.schema_of(options.offered), schema)

    def _ends(self, *, number: bool) -> Ends:
        database = connection.db(self.dsn)
        if number and self._options.group is None:
            database.run(calls.tick())
        return database.run(calls.ends(self._options.group))

    def _start(self, ends: Ends, default: str) -> int:
        text = self._options.starting_offsets or default
        return resolve("startingOffsets", text, ends, earliest=ends.first_one)

    def _plan(self, first: int, last: int) -> Sequence[InputPartition]:
        """Even parts of a range: a pure function of its ends, so that a replay plans the same."""
        whole = Part(
            self.dsn,
            self._options.subscribe,
            self._options.group,
            self._columns,
            self._options.fail_on_data_loss,
        )
        ranges = plan.split([Range("", 0, first, last)], self._options.min_partitions)
        return [EventsPartition(replace(whole, first=one.first, last=one.last)) for one in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, EventsPartition):
            return iter(())  # Spark makes up a partition where a plan has none
        return events_rows.read_part(partition.part)


class EventsReader(_Reading, DataSourceReader):
    """Reads a fixed range."""

    def partitions(self) -> Sequence[InputPartition]:
        with connection.plain_errors():
            ends = self._ends(number=True)
            start = self._start(ends, "earliest")
            end = self._options.ending_offsets or "latest"
            stop = resolve("endingOffsets", end, ends, earliest=ends.first_one)
            if start > stop:
                raise Invalid(f"the batch starts at {start}, after its end {stop}.")
            return self._plan(start, stop - 1)


class EventsStreamReader(_Reading, PositionStream[EventsOptions]):
    """Reads on from where the checkpoint ends; wakes up when events are numbered."""

    def _first(self, ends: Ends) -> int:
        return self._start(ends, "latest")

    def _belongs_to(self) -> dict[str, str | None]:
        return {"group": self._options.group}

    @property
    def _at_most(self) -> int | None:
        return self._options.max_events_per_trigger

    @property
    def _woken_by(self) -> str:
        return "broker:tick" if self._options.group is None else "broker:group:"
