"""What both readers of topics do: options, where topics begin and end, what a task reads."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, field_validator, model_validator
from pyspark.sql.datasource import (
    InputPartition,
)

from trunkline.core import telemetry
from trunkline.core.errors import Invalid, NotFound, PositionTrimmed
from trunkline.log import calls
from trunkline.spark import connection
from trunkline.spark.columns import chosen
from trunkline.spark.log_schema import COLUMNS, schema_of
from trunkline.spark.options import Options, Words
from trunkline.spark.plan import Range
from trunkline.spark.positions import EARLIEST, LATEST, parse_offsets
from trunkline.spark.reading import Reading

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from trunkline.log.models import Ends

logger = telemetry.get_logger(__name__)

Place = tuple[str, int]


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


class LogPartition(InputPartition):
    """What one task reads."""

    def __init__(self, read: Range):
        self.read = read

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.read})"


class LogReading(Reading[LogOptions]):
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


def check_schema(schema: StructType) -> list[str]:
    """The columns of a schema that a user gave, or that we made."""
    return [*chosen(schema_of(tuple(COLUMNS), headers=True), schema)]


def _listed(places: Mapping[Place, Any]) -> str:
    topics: dict[str, list[int]] = {}
    for topic, partition in places:
        topics.setdefault(topic, []).append(partition)
    return ", ".join(
        f'"{topic}" {min(found)} to {max(found)}' for topic, found in sorted(topics.items())
    )
