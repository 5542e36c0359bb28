"""The format ``trunkline.log``: topics as tables and streams of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from trunkline.core.errors import Invalid
from trunkline.spark import connection, plan
from trunkline.spark.filters import Bounds, lenient
from trunkline.spark.log_options import LogOptions
from trunkline.spark.log_reading import LogPartition, LogReading
from trunkline.spark.log_schema import schema_of
from trunkline.spark.log_stream import LogStreamReader
from trunkline.spark.plan import Range

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

    from trunkline.spark.sink import BatchSink, StreamSink


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


class LogReader(LogReading, DataSourceReader):
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
            stop = self._stop(ends)
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
