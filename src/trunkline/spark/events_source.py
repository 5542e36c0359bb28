"""The format ``trunkline.events``: events by position, or what a group was delivered.

Reading takes nothing away: no cursor moves, and nothing is held back for a stream, which must be
quicker than the retention of events. A topic that is to be kept for longer belongs into the log.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, model_validator
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

from trunkline.broker import calls
from trunkline.core.errors import Invalid, PositionTrimmed
from trunkline.spark import connection, events_rows, plan
from trunkline.spark.arrivals import Arrivals
from trunkline.spark.events_rows import COLUMNS, OF_DELIVERIES, Part
from trunkline.spark.options import Options, Words
from trunkline.spark.plan import Range
from trunkline.spark.positions import EARLIEST, LATEST
from trunkline.spark.reading import Reading, StreamReading

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from trunkline.broker.models import Ends

_PATIENCE = 0.5  # seconds that a stream with nothing to read waits for a wake-up
_VERSION = 1


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
        self._columns = _checked(options, schema)

    def _ends(self) -> Ends:
        """Where reading may begin and ends now; what was committed by now is numbered first."""
        database = connection.db(self.dsn)
        if self._options.group is None:
            database.run(calls.tick())
        return database.run(calls.ends(self._options.group))

    def _start(self, ends: Ends, default: str) -> int:
        return _resolve("startingOffsets", self._options.starting_offsets or default, ends)

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
            ends = self._ends()
            start = self._start(ends, "earliest")
            stop = _resolve("endingOffsets", self._options.ending_offsets or "latest", ends)
            if start > stop:
                raise Invalid(f"the batch starts at {start}, after its end {stop}.")
            return self._plan(start, stop - 1)


class EventsStreamReader(
    _Reading, StreamReading[EventsOptions], DataSourceStreamReader, SupportsTriggerAvailableNow
):
    """Reads on from where the checkpoint ends; wakes up when events are numbered."""

    def __init__(self, options: EventsOptions, schema: StructType):
        super().__init__(options, schema)
        self._final: int | None = None
        self._newest: dict[str, Any] | None = None
        self._arrivals: Arrivals | None = None

    def initialOffset(self) -> dict[str, Any]:
        with connection.plain_errors():
            ends = self._ends()
            return self._position(ends, self._start(ends, "latest"))

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.max_events_per_trigger
        return ReadMaxRows(most) if most else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        with connection.plain_errors():
            self._final = self._ends().last_one + 1

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        with connection.plain_errors():
            ends = self._ends()
            begin = self._noted(start, ends)
            if ends.last_one < begin and self._final is None:
                self._wait()
                ends = self._ends()
            tip = ends.last_one + 1
            self._newest = self._position(ends, tip)
            if self._final is not None:
                tip = min(tip, self._final)
            if isinstance(limit, ReadMaxRows):
                tip = min(tip, begin + limit.max_rows)
            return self._position(ends, max(begin, tip))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return self._newest

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        with connection.plain_errors():
            ends = connection.db(self.dsn).run(calls.ends(self._options.group))
            return self._plan(self._noted(start, ends), self._noted(end, ends) - 1)

    def stop(self) -> None:
        if self._arrivals:
            self._arrivals.close()

    def _wait(self) -> None:
        if self._arrivals is None:
            kind = "tick" if self._options.group is None else "group:"
            self._arrivals = Arrivals(self.dsn, [f"broker:{kind}"])
        self._arrivals.wait(_PATIENCE)

    def _position(self, ends: Ends, following: int) -> dict[str, Any]:
        return {
            "version": _VERSION,
            "incarnation": ends.incarnation,
            "group": self._options.group,
            "next": following,
        }

    def _noted(self, noted: dict[str, Any], ends: Ends) -> int:
        """The position of a checkpoint; one of another source or history is refused."""
        if noted.get("version") != _VERSION or {"group", "next"} - noted.keys():
            raise Invalid(
                f"the checkpoint has a position of another source: {json.dumps(noted)[:120]}."
            )
        if noted["group"] != self._options.group:
            before, now = (group or "none" for group in (noted["group"], self._options.group))
            raise Invalid(
                f"the checkpoint is of option group {before}, not of {now}.",
                hint="Events and deliveries are numbered differently: take a new checkpoint.",
            )
        following = int(noted["next"])
        if noted["incarnation"] != ends.incarnation or following > ends.last_one + 1:
            raise PositionTrimmed(
                f"position {following} was noted in life {noted['incarnation']} of the server;"
                f" this is life {ends.incarnation}, and ends at {ends.last_one}.",
                hint="The server was restored or failed over. Start with a new checkpoint, and with"
                " startingOffsets where the two histories part.",
            )
        return following


def _resolve(option: str, text: str, ends: Ends) -> int:
    """The next position that an option means."""
    named = {"earliest": EARLIEST, "latest": LATEST}
    try:
        position = named.get(text.lower()) or int(text)
    except ValueError:
        position = EARLIEST - 1
    if position < EARLIEST:
        raise Invalid(f"{option} is neither earliest, latest nor a position: {text!r:.120}.")
    if position == EARLIEST:
        return ends.first_one
    if position > ends.last_one + 1:
        raise Invalid(
            f"{option} is {position}, and the last position is {ends.last_one}.",
            hint="Say latest, or a position that is there.",
        )
    return ends.last_one + 1 if position == LATEST else position


def _checked(options: EventsOptions, schema: StructType) -> tuple[str, ...]:
    """The columns of a schema that a user gave, or that we made."""
    known = {field.name: field.dataType for field in events_rows.schema_of(options.offered)}
    for field in schema:
        if known.get(field.name) != field.dataType:
            offered = ", ".join(f"{name} {kind.simpleString()}" for name, kind in known.items())
            raise Invalid(
                f"there is no column {field.name} of type {field.dataType.simpleString()}.",
                hint=f"There are the columns {offered}.",
            )
    return tuple(schema.fieldNames())
