"""The format ``trunkline.log``: topics as tables and streams of Spark."""

from __future__ import annotations

from datetime import UTC, datetime
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

from trunkline.core import telemetry
from trunkline.core.errors import Invalid, NotFound, PositionTrimmed
from trunkline.log import calls, group_calls
from trunkline.spark import connection, plan
from trunkline.spark.arrivals import Arrivals
from trunkline.spark.filters import Bounds, lenient
from trunkline.spark.log_schema import COLUMNS, schema_of
from trunkline.spark.options import Options, Words
from trunkline.spark.plan import Range
from trunkline.spark.positions import EARLIEST, LATEST, Positions, parse_offsets
from trunkline.spark.reading import Reading, StreamReading

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import Filter
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from trunkline.log.models import Ends
    from trunkline.spark.sink import BatchSink, StreamSink

logger = telemetry.get_logger(__name__)

Place = tuple[str, int]

_MADE_ANEW = (
    "Start with a new checkpoint, or with option failOnDataLoss=false, which reads it from its"
    " beginning."
)
_PATIENCE = 0.5  # seconds that a stream with nothing to read waits for a wake-up


class LogOptions(Options):
    """Options of the source; offsets are the next to read, as in Kafka's source."""

    subscribe: Words = Field(min_length=1)
    """Topics, separated by commas."""
    columns: Words | None = None
    """Only these columns; Spark reads all of a Python source otherwise."""
    include_headers: bool = False
    """A column ``headers`` with JSON texts."""
    starting_offsets: str | None = None
    """earliest, latest or JSON; by default earliest, and latest for a stream."""
    starting_timestamp: datetime | None = None
    """From the first message that was appended then or later."""
    ending_offsets: str | None = None
    """Where a batch ends: latest (the default) or JSON."""
    ending_timestamp: datetime | None = None
    """A batch ends before the first message that was appended then or later."""
    max_offsets_per_trigger: int | None = Field(default=None, ge=1)
    """Messages that one micro-batch reads at most."""
    min_partitions: int | None = Field(default=None, ge=1, le=100_000)
    """Cut partitions of the topic into at least so many tasks."""
    fail_on_data_loss: bool = True
    """False: go on with what is left when retention was quicker than the reader."""
    group_id: str | None = None
    """The stream's progress shows up as this consumer group, with its lag."""

    @field_validator("starting_timestamp", "ending_timestamp", mode="before")
    @classmethod
    def _moment(cls, value: Any) -> Any:
        if isinstance(value, str) and value.isdecimal():
            return datetime.fromtimestamp(int(value) / 1000, UTC)
        return value

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        for end in ("starting", "ending"):
            if getattr(self, f"{end}_offsets") and getattr(self, f"{end}_timestamp"):
                raise ValueError(f"{end}Offsets and {end}Timestamp contradict each other")
        if (self.ending_offsets or "").lower() == "earliest":
            raise ValueError("endingOffsets cannot be earliest")
        if unknown := [name for name in self.columns or () if name not in COLUMNS]:
            raise ValueError(f"there is no column {unknown[0]}; columns are {', '.join(COLUMNS)}")
        if self.columns is not None and not self.columns:
            raise ValueError("columns is empty; name at least one")
        return self

    def refuse(self, kind: Literal["batch", "stream"]) -> Self:
        """Refuse what only the other kind of reader takes."""
        wrong = {
            "batch": ("max_offsets_per_trigger", "group_id"),
            "stream": ("ending_offsets", "ending_timestamp"),
        }[kind]
        for name in wrong:
            if getattr(self, name) is not None:
                alias = type(self).model_fields[name].alias
                raise Invalid(f"option {alias} is not for a {kind}.")
        return self


class LogSource(DataSource):
    """Messages of topics, by offset."""

    @classmethod
    def name(cls) -> str:
        return "trunkline.log"

    def schema(self) -> StructType:
        options = LogOptions.parse(self.options)
        return schema_of(options.columns, headers=options.include_headers)

    def reader(self, schema: StructType) -> LogReader:
        return LogReader(LogOptions.parse(self.options).refuse("batch"), schema)

    def streamReader(self, schema: StructType) -> LogStreamReader:
        return LogStreamReader(LogOptions.parse(self.options).refuse("stream"), schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchSink:  # noqa: FBT001 - Spark's
        from trunkline.spark.log_sink import log_writer

        return log_writer(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSink:  # noqa: FBT001
        from trunkline.spark.log_sink import log_stream_writer

        return log_stream_writer(self.options, schema, overwrite=overwrite)


class LogPartition(InputPartition):
    """What one task reads."""

    def __init__(self, read: Range):
        self.read = read

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.read})"


class _Reading(Reading[LogOptions]):
    """What both readers do: find out where topics begin and end, and read ranges in tasks."""

    def __init__(self, options: LogOptions, schema: StructType):
        super().__init__(options)
        self._columns = check_schema(schema)

    def _ends(self) -> dict[Place, Ends]:
        with connection.plain_errors():
            rows = connection.db(self.dsn).run(calls.ends(self._options.subscribe))
        return {(row.topic, row.partition): row for row in rows}

    def _start(self, ends: Mapping[Place, Ends], default: str) -> dict[Place, int]:
        if self._options.starting_timestamp:
            return self._at(self._options.starting_timestamp, ends)
        return self._resolve(
            "startingOffsets", self._options.starting_offsets or default, ends, default=EARLIEST
        )

    def _resolve(
        self, option: str, text: str, ends: Mapping[Place, Ends], *, default: int
    ) -> dict[Place, int]:
        asked = parse_offsets(option, text)
        if isinstance(asked, str):
            default, asked = (EARLIEST if asked == "earliest" else LATEST), {}
        for topic, partition in asked:
            if (topic, partition) not in ends:
                raise NotFound(
                    f'{option} names partition {partition} of "{topic}", which is not read.',
                    hint=f"Read are {_listed(ends)}.",
                )
        resolved = {}
        for place, end in ends.items():
            offset = asked.get(place, default)
            if offset == EARLIEST:
                offset = end.first_offset
            elif offset == LATEST:
                offset = end.last_offset + 1
            resolved[place] = offset
        return resolved

    def _at(self, moment: datetime, ends: Mapping[Place, Ends]) -> dict[Place, int]:
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        with connection.plain_errors():
            run = connection.db(self.dsn).run
            return {place: run(calls.offset_at(*place, moment)) for place in ends}

    def _there(self, asked: Range, end: Ends | None) -> Range:
        """The part of a range that is there; what is missing is an error, or a warning."""
        if end is None:
            raise NotFound(f'partition {asked.partition} of "{asked.topic}" is not there any more.')
        if asked.first >= end.first_offset and asked.last <= end.last_offset:
            return asked
        if self._options.fail_on_data_loss:
            raise PositionTrimmed(
                f'partition {asked.partition} of "{asked.topic}" has offsets {end.first_offset} to '
                f"{end.last_offset}, asked for {asked.first} to {asked.last}.",
                hint="Retention was quicker, or the server was restored. "
                "Option failOnDataLoss=false goes on with what is there.",
            )
        logger.warning("offsets are missing", asked=str(asked), first=end.first_offset)
        return Range(
            asked.topic,
            asked.partition,
            max(asked.first, end.first_offset),
            min(asked.last, end.last_offset),
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, LogPartition):
            return iter(())  # Spark makes up a partition where a plan has none
        from trunkline.spark.log_rows import read_range

        return read_range(
            self.dsn,
            partition.read,
            self._columns,
            fail_on_data_loss=self._options.fail_on_data_loss,
        )


class LogReader(_Reading, DataSourceReader):
    """Reads a fixed range of every partition."""

    def __init__(self, options: LogOptions, schema: StructType):
        super().__init__(options, schema)
        self._bounds = Bounds()
        self.pushFilters = lenient(self._narrow)  # type: ignore[method-assign]

    def _narrow(self, filters: list[Filter]) -> Iterator[Filter]:
        """Read less where a filter allows it; Spark still applies them all."""
        self._bounds = Bounds.of(filters)
        yield from filters

    def partitions(self) -> Sequence[InputPartition]:
        with connection.plain_errors():
            ends = self._ends()
            start = self._start(ends, "earliest")
            stop = (
                self._at(self._options.ending_timestamp, ends)
                if self._options.ending_timestamp
                else self._resolve(
                    "endingOffsets",
                    self._options.ending_offsets or "latest",
                    ends,
                    default=LATEST,
                )
            )
            ranges = []
            for place, end in ends.items():
                if start[place] > stop[place]:
                    raise Invalid(
                        f'partition {place[1]} of "{place[0]}" starts at {start[place]}, '
                        f"after its end {stop[place]}."
                    )
                wanted = self._bounds.narrow(Range(*place, start[place], stop[place] - 1))
                if len(wanted):
                    ranges.append(self._there(wanted, end))
            return [LogPartition(one) for one in plan.split(ranges, self._options.min_partitions)]


class LogStreamReader(
    _Reading, StreamReading[LogOptions], DataSourceStreamReader, SupportsTriggerAvailableNow
):
    """Reads on from where the checkpoint ends; wakes up when something is appended."""

    def __init__(self, options: LogOptions, schema: StructType):
        super().__init__(options, schema)
        self._final: dict[Place, int] | None = None
        self._newest: Positions | None = None
        self._reported: Mapping[Place, int] = {}
        self._trusted: int | None = None
        self._arrivals: Arrivals | None = None

    def initialOffset(self) -> dict[str, Any]:
        with connection.plain_errors():
            ends = self._ends()
            return _positions(ends, self._start(ends, "latest")).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.max_offsets_per_trigger
        return ReadMaxRows(most) if most else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        with connection.plain_errors():
            self._final = _tips(self._ends())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        with connection.plain_errors():
            begin, ends = self._look(Positions.from_json(start))
            self._note_progress(begin)
            if not _news(begin.next, ends) and self._final is None:
                self._wait()
                begin, ends = self._look(begin)
            tips = _tips(ends)
            if self._final is not None:
                tips = {place: min(tip, self._final.get(place, 1)) for place, tip in tips.items()}
            tips = {place: max(tip, begin.next.get(place, 1)) for place, tip in tips.items()}
            if isinstance(limit, ReadMaxRows):
                known = {place: begin.next.get(place, 1) for place in tips}
                tips = plan.limit(known, tips, limit.max_rows)
            return _positions(ends, tips).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return self._newest.to_json() if self._newest else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        with connection.plain_errors():
            begin, stop = Positions.from_json(start), Positions.from_json(end)
            ends = self._ends()
            begin = self._within(self._these_topics(begin, ends), ends)
            stop = self._this_life(self._planned(stop, ends), ends)
            ranges = [
                self._there(Range(*place, begin.next.get(place, 1), until - 1), ends.get(place))
                for place, until in stop.next.items()
                if until > begin.next.get(place, 1)
            ]
            return [LogPartition(one) for one in plan.split(ranges, self._options.min_partitions)]

    def commit(self, end: dict[str, Any]) -> None:
        with connection.plain_errors():
            self._note_progress(Positions.from_json(end))

    def stop(self) -> None:
        if self._arrivals:
            self._arrivals.close()

    def _wait(self) -> None:
        if self._arrivals is None:
            self._arrivals = Arrivals(
                self.dsn, [f"log:{name}:" for name in self._options.subscribe]
            )
        self._arrivals.wait(_PATIENCE)

    def _look(self, noted: Positions) -> tuple[Positions, dict[Place, Ends]]:
        """Where a stream goes on in what is there now."""
        ends = self._ends()
        begin = self._this_life(self._these_topics(noted, ends), ends)
        begin = self._within(begin, ends)
        self._newest = _positions(ends, _tips(ends))
        return begin, ends

    def _these_topics(self, noted: Positions, ends: Mapping[Place, Ends]) -> Positions:
        """Positions in a topic that was made anew are refused, or it is read from its beginning."""
        again = {
            place: ends[place].first_offset for place in self._of_others(noted, ends) & ends.keys()
        }
        return Positions(noted.incarnation, {**noted.next, **again}, _topic_ids(ends))

    def _planned(self, stop: Positions, ends: Mapping[Place, Ends]) -> Positions:
        """Where a batch ends; of a topic that was made anew since then nothing is read."""
        gone = self._of_others(stop, ends)
        kept = {place: offset for place, offset in stop.next.items() if place not in gone}
        return Positions(stop.incarnation, kept, stop.topic_ids)

    def _of_others(self, noted: Positions, ends: Mapping[Place, Ends]) -> set[Place]:
        """The places in topics that bear the name of one that was deleted."""
        present = _topic_ids(ends)
        others = {
            topic for topic, known in noted.topic_ids.items() if present.get(topic, known) != known
        }
        for topic in sorted(others):
            if self._options.fail_on_data_loss:
                raise PositionTrimmed(
                    f'topic "{topic}" was deleted and made anew since the checkpoint was written.',
                    hint=_MADE_ANEW,
                )
            logger.warning("topic was made anew", topic=topic)
        return {place for place in noted.next if place[0] in others}

    def _this_life(self, noted: Positions, ends: Mapping[Place, Ends]) -> Positions:
        """Positions of another life of the server: right in this history, or refused."""
        present = next(iter(ends.values())).incarnation
        if noted.incarnation == present or self._trusted == noted.incarnation:
            return noted
        for (topic, partition), offset in noted.next.items():
            if (topic, partition) in ends and offset > ends[topic, partition].first_offset:
                connection.db(self.dsn).run(
                    calls.position_check(topic, partition, offset, noted.incarnation)
                )
        self._trusted = noted.incarnation
        return noted

    def _within(self, noted: Positions, ends: Mapping[Place, Ends]) -> Positions:
        """Positions behind the end of a partition are refused, or it is read from its beginning."""
        ahead = {
            place: offset
            for place, offset in noted.next.items()
            if place in ends and offset > ends[place].last_offset + 1
        }
        for (topic, partition), offset in ahead.items():
            end = ends[topic, partition]
            if self._options.fail_on_data_loss:
                raise PositionTrimmed(
                    f'the next offset of partition {partition} of "{topic}" is'
                    f" {end.last_offset + 1}, the checkpoint goes on at {offset}.",
                    hint=f"The topic was deleted and made anew. {_MADE_ANEW}",
                )
            logger.warning("topic was made anew", topic=topic, partition=partition, asked=offset)
        again = {place: ends[place].first_offset for place in ahead}
        return Positions(noted.incarnation, {**noted.next, **again}, noted.topic_ids)

    def _note_progress(self, done: Positions) -> None:
        """Show the lag under the group; Spark's own commit comes late, and never for the last."""
        group, newest = self._options.group_id, self._newest
        if group is None or newest is None or done.next == self._reported:
            return
        for topic in self._options.subscribe:
            present = newest.topic_ids[topic]
            if done.topic_ids.get(topic, present) != present:
                continue
            places = {
                place: offset
                for place, offset in done.next.items()
                if place[0] == topic and offset <= newest.next.get(place, 0)
            }
            connection.db(self.dsn).run(
                group_calls.progress(
                    topic,
                    group,
                    [partition for _, partition in places],
                    [offset - 1 for offset in places.values()],
                )
            )
        self._reported = done.next


def check_schema(schema: StructType) -> list[str]:
    """The columns of a schema that a user gave, or that we made."""
    known = {field.name: field.dataType for field in schema_of(tuple(COLUMNS), headers=True)}
    for field in schema:
        if known.get(field.name) != field.dataType:
            offered = ", ".join(f"{name} {kind.simpleString()}" for name, kind in known.items())
            raise Invalid(
                f"there is no column {field.name} of type {field.dataType.simpleString()}.",
                hint=f"A topic has the columns {offered}.",
            )
    return schema.fieldNames()


def _positions(ends: Mapping[Place, Ends], offsets: Mapping[Place, int]) -> Positions:
    return Positions(next(iter(ends.values())).incarnation, offsets, _topic_ids(ends))


def _topic_ids(ends: Mapping[Place, Ends]) -> dict[str, int]:
    return {topic: end.topic_id for (topic, _), end in ends.items()}


def _tips(ends: Mapping[Place, Ends]) -> dict[Place, int]:
    return {place: end.last_offset + 1 for place, end in ends.items()}


def _news(start: Mapping[Place, int], ends: Mapping[Place, Ends]) -> bool:
    return any(tip > start.get(place, 1) for place, tip in _tips(ends).items())


def _listed(places: Mapping[Place, Any]) -> str:
    topics: dict[str, list[int]] = {}
    for topic, partition in places:
        topics.setdefault(topic, []).append(partition)
    return ", ".join(
        f'"{topic}" {min(found)} to {max(found)}' for topic, found in sorted(topics.items())
    )
