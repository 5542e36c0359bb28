"""What both readers of topics do: which topics, where they begin and end, what a task reads."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition

from trunkline.core import telemetry
from trunkline.core.errors import NotFound, PositionTrimmed
from trunkline.log import calls
from trunkline.spark import connection
from trunkline.spark.columns import chosen
from trunkline.spark.log_options import LogOptions
from trunkline.spark.log_schema import COLUMNS, schema_of
from trunkline.spark.plan import Range
from trunkline.spark.positions import EARLIEST, LATEST, Place, parse_offsets
from trunkline.spark.reading import Reading

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from trunkline.log.models import Ends

logger = telemetry.get_logger(__name__)

_LIST_AGAIN = 10.0  # seconds after which a pattern is looked up again


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
        self._listed: Sequence[str] = ()
        self._list_again = 0.0

    def _ends(self) -> dict[Place, Ends]:
        with connection.plain_errors():
            run = connection.db(self.dsn).run
            try:
                rows = run(calls.ends(self._topics()))
            except NotFound:
                if self._options.subscribe_pattern is None:
                    raise
                self._list_again = 0.0  # one that was listed has been deleted since
                rows = run(calls.ends(self._topics()))
            ends = {(row.topic, row.partition): row for row in rows}
            if self._options.assign is None:
                return ends
            assigned = [
                (topic, partition)
                for topic, partitions in self._options.assign.items()
                for partition in partitions
            ]
            _check_named("assign", assigned, ends)
            return {place: ends[place] for place in assigned}

    def _topics(self) -> Sequence[str]:
        """The topics that are read; those of a pattern are looked up now and then."""
        if self._options.subscribe is not None:
            return self._options.subscribe
        if self._options.assign is not None:
            return list(self._options.assign)
        if time.monotonic() >= self._list_again:
            there = connection.db(self.dsn).run(calls.list_topics())
            self._listed = [each.topic for each in there if self._options.fits(each.topic)]
            self._list_again = time.monotonic() + _LIST_AGAIN
        if not self._listed:
            raise NotFound(
                f"no topic fits subscribePattern {self._options.subscribe_pattern!r:.120}.",
                hint="The whole name must fit. Topics are listed by `trunkline log list`.",
            )
        return self._listed

    def _start(self, ends: Mapping[Place, Ends], default: str) -> dict[Place, int]:
        options = self._options
        if options.starting_timestamp:
            return self._at(dict.fromkeys(ends, options.starting_timestamp))
        if options.starting_offsets_by_timestamp:
            _check_named("startingOffsetsByTimestamp", options.starting_offsets_by_timestamp, ends)
            return _firsts(ends) | self._at(options.starting_offsets_by_timestamp)
        return self._resolve(
            "startingOffsets", options.starting_offsets or default, ends, default=EARLIEST
        )

    def _stop(self, ends: Mapping[Place, Ends]) -> dict[Place, int]:
        options = self._options
        if options.ending_timestamp:
            return self._at(dict.fromkeys(ends, options.ending_timestamp))
        if options.ending_offsets_by_timestamp:
            _check_named("endingOffsetsByTimestamp", options.ending_offsets_by_timestamp, ends)
            return tips(ends) | self._at(options.ending_offsets_by_timestamp)
        return self._resolve(
            "endingOffsets", options.ending_offsets or "latest", ends, default=LATEST
        )

    def _resolve(
        self, option: str, text: str, ends: Mapping[Place, Ends], *, default: int
    ) -> dict[Place, int]:
        asked = parse_offsets(option, text)
        if isinstance(asked, str):
            default, asked = (EARLIEST if asked == "earliest" else LATEST), {}
        _check_named(option, asked, ends)
        resolved = {}
        for place, end in ends.items():
            offset = asked.get(place, default)
            if offset == EARLIEST:
                offset = end.first_offset
            elif offset == LATEST:
                offset = end.last_offset + 1
            resolved[place] = offset
        return resolved

    def _at(self, moments: Mapping[Place, datetime]) -> dict[Place, int]:
        with connection.plain_errors():
            run = connection.db(self.dsn).run
            return {
                place: run(
                    calls.offset_at(*place, moment if moment.tzinfo else moment.replace(tzinfo=UTC))
                )
                for place, moment in moments.items()
            }

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


def tips(ends: Mapping[Place, Ends]) -> dict[Place, int]:
    """Where messages to come will be."""
    return {place: end.last_offset + 1 for place, end in ends.items()}


def _firsts(ends: Mapping[Place, Ends]) -> dict[Place, int]:
    return {place: end.first_offset for place, end in ends.items()}


def _check_named(option: str, named: Collection[Place], there: Mapping[Place, Any]) -> None:
    """Refuse an option that names a partition which is not read."""
    for topic, partition in named:
        if (topic, partition) not in there:
            raise NotFound(
                f'{option} names partition {partition} of "{topic}", which is not read.',
                hint=f"Read are {_described(there)}.",
            )


def _described(places: Mapping[Place, Any]) -> str:
    topics: dict[str, list[int]] = {}
    for topic, partition in places:
        topics.setdefault(topic, []).append(partition)
    return ", ".join(
        f'"{topic}" {min(found)} to {max(found)}' for topic, found in sorted(topics.items())
    )
