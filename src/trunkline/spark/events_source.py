"""The format ``trunkline.events``: events by position, or what a group was delivered.

Reading takes nothing away. Nothing is held back for a stream either, which must be quicker than the
retention of events, unless it has a group of its own: see `events_group`. A topic that is to be
kept for longer belongs into the log.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, model_validator
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from trunkline.broker import calls
from trunkline.core.errors import Invalid, PositionTrimmed
from trunkline.spark import connection, events_rows, plan
from trunkline.spark.columns import chosen
from trunkline.spark.events_group import StreamGroup
from trunkline.spark.events_rows import COLUMNS, OF_DELIVERIES, Part
from trunkline.spark.options import Options, Words
from trunkline.spark.plan import Range
from trunkline.spark.position_stream import PositionStream, resolve
from trunkline.spark.positions import EARLIEST, LATEST
from trunkline.spark.reading import Reading

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from trunkline.spark.position_stream import Ends
    from trunkline.spark.sink import BatchSink, StreamSink

_FROM_THE_FIRST = {"earliest", str(EARLIEST)}
_FROM_NOW_ON = {"latest", str(LATEST)}


class EventsOptions(Options):
    """Options of the source; positions are the next to read, as offsets in Kafka's source."""

    subscribe: Words | None = None
    """Only events of these topics, separated by commas; by default all."""
    group: str | None = Field(default=None, min_length=1)
    """What this group was delivered, a row per event and subscription; positions are then the
    numbers of deliveries. Nothing is taken from the group."""
    group_id: str | None = Field(default=None, min_length=1)
    """The stream reads as this group, which is made if it is not there: what it has not read is
    kept for it, within broker.hold, and its lag shows. Positions are then the numbers of
    deliveries."""
    columns: Words | None = None
    """Only these columns; Spark reads all of a Python source otherwise."""
    starting_offsets: str | None = Field(default=None, min_length=1)
    """earliest, latest or a position; by default earliest, and latest for a stream."""
    ending_offsets: str | None = Field(default=None, min_length=1)
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
        if self.group is not None and self.group_id is not None:
            raise ValueError("group and groupId contradict each other")
        if self.group_id is not None and self._starts not in _FROM_THE_FIRST | _FROM_NOW_ON:
            raise ValueError("startingOffsets of a groupId is earliest or latest")
        if (self.ending_offsets or "").lower() in _FROM_THE_FIRST:
            raise ValueError("endingOffsets cannot be earliest")
        if unknown := [name for name in self.columns or () if name not in self.offered]:
            there = ", ".join(self.offered)
            raise ValueError(f"there is no column {unknown[0]}; columns are {there}")
        if self.columns is not None and not self.columns:
            raise ValueError("columns is empty; name at least one")
        return self

    @property
    def delivered_to(self) -> str | None:
        """The group whose deliveries are read; None: events are read by position."""
        return self.group or self.group_id

    @property
    def from_the_first(self) -> bool:
        """Whether a stream begins with the first event there is."""
        return self._starts in _FROM_THE_FIRST

    @property
    def _starts(self) -> str:
        return (self.starting_offsets or "latest").lower()

    @property
    def offered(self) -> tuple[str, ...]:
        """The columns that there are."""
        return tuple(name for name in COLUMNS if self.delivered_to or name != OF_DELIVERIES)

    def refuse(self, kind: Literal["batch", "stream"]) -> Self:
        """Refuse what only the other kind of reader takes."""
        wrong = {"batch": ("max_events_per_trigger", "group_id"), "stream": ("ending_offsets",)}
        for name in wrong[kind]:
            if getattr(self, name) is not None:
                raise Invalid(f"option {type(self).model_fields[name].alias} is not for a {kind}.")
        return self


class EventsSource(DataSource):
    """Events of topics, or deliveries of a group; written, rows are published."""

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

    def writer(self, schema: StructType, overwrite: bool) -> BatchSink:  # noqa: FBT001 - Spark's
        from trunkline.spark.events_sink import events_writer

        return events_writer(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSink:  # noqa: FBT001
        from trunkline.spark.events_sink import events_stream_writer

        return events_stream_writer(self.options, schema, overwrite=overwrite)


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
        if number and self._options.delivered_to is None:
            database.run(calls.tick())
        return database.run(calls.ends(self._options.delivered_to))

    def _start(self, ends: Ends, default: str) -> int:
        text = self._options.starting_offsets or default
        return resolve("startingOffsets", text, ends, earliest=ends.first_one)

    def _plan(self, first: int, last: int) -> Sequence[InputPartition]:
        """Even parts of a range: a pure function of its ends, so that a replay plans the same."""
        whole = Part(
            self.dsn,
            self._options.subscribe,
            self._options.delivered_to,
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
    """Reads on from where the checkpoint ends; wakes up when events are numbered or delivered."""

    stays = ("_arrivals", "_group")

    def __init__(self, options: EventsOptions, schema: StructType):
        super().__init__(options, schema)
        self._group: StreamGroup | None = None
        self._until_now = False

    def initialOffset(self) -> dict[str, Any]:
        if group := self._own_group():
            with connection.plain_errors():
                group.make(history=self._options.from_the_first)
        return super().initialOffset()

    def prepareForTriggerAvailableNow(self) -> None:
        if self._options.group_id is None:
            super().prepareForTriggerAvailableNow()
        else:
            self._until_now = True  # Spark has not said yet whether there is a checkpoint

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if group := self._own_group():
            with connection.plain_errors():
                self._follow(group, start)
        return super().latestOffset(start, limit)

    def _own_group(self) -> StreamGroup | None:
        name = self._options.group_id
        if self._group is None and name is not None:
            self._group = StreamGroup(connection.db(self.dsn), name, self._options.subscribe)
        return self._group

    def _follow(self, group: StreamGroup, start: dict[str, Any]) -> None:
        """What lies before ``start`` is done; where a run is to end is known when all is there."""
        group.find()
        group.note(self._noted(start, self._ends(number=False)) - 1)
        if self._until_now and self._final is None:
            group.wait_until_matched()
            self._final = self._ends(number=False).last_one + 1

    def _noted(self, noted: dict[str, Any], ends: Ends) -> int:
        following = super()._noted(noted, ends)
        if (
            self._options.group_id
            and following < ends.first_one
            and self._options.fail_on_data_loss
        ):
            raise PositionTrimmed(
                f"the checkpoint goes on with delivery {following} of group"
                f' "{self._options.group_id}", and the first there is {ends.first_one}.',
                hint="The stream was away for longer than broker.hold, or the group was deleted and"
                " made anew. Option failOnDataLoss=false goes on with what is there.",
            )
        return following

    def _first(self, ends: Ends) -> int:
        return self._start(ends, "latest")

    def _belongs_to(self) -> dict[str, str | None]:
        return {"group": self._options.delivered_to}

    @property
    def _at_most(self) -> int | None:
        return self._options.max_events_per_trigger

    @property
    def _woken_by(self) -> str:
        return "broker:tick" if self._options.delivered_to is None else "broker:group:"
