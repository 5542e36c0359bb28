"""The format ``trunkline.kv``: keys of a namespace as they are now, or as they change.

A batch, and a stream that begins with ``earliest``, read every key, each as it is when its task
asks. A stream then follows the changes of all zones by position: a key that changed is told with
what it says when the task asks, so a batch that is repeated may tell something newer, never
something older. What is gone has no value.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Self

from pydantic import Field, model_validator
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from trunkline.core.errors import Forbidden, Invalid
from trunkline.kv import calls
from trunkline.spark import connection, kv_rows, plan
from trunkline.spark.columns import chosen
from trunkline.spark.kv_rows import COLUMNS, Changes, Keys, Scan
from trunkline.spark.options import Options, Words
from trunkline.spark.plan import Range
from trunkline.spark.position_stream import PositionStream, resolve
from trunkline.spark.reading import Reading

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from trunkline.spark.position_stream import Ends
    from trunkline.spark.sink import BatchSink, StreamSink

_ALL_KEYS = 0  # the position before the first change: what begins there reads every key first


class KvOptions(Options):
    """Options of the source."""

    namespace: str = Field(default="default", min_length=1)
    """The namespace that is read."""
    prefix: str = ""
    """Only keys that begin with it."""
    columns: Words | None = None
    """Only these columns; Spark reads all of a Python source otherwise."""
    starting_offsets: str | None = Field(default=None, min_length=1)
    """Where a stream begins: earliest (all keys, then what changes), latest (the default: only what
    changes from now on) or the position of a change."""
    max_changes_per_trigger: int | None = Field(default=None, ge=1)
    """Changes that one micro-batch covers at most; all keys are one micro-batch."""
    min_partitions: int = Field(default=1, ge=1, le=100_000)
    """Into how many tasks to cut the keys, or the changes of a micro-batch."""

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        if unknown := [name for name in self.columns or () if name not in COLUMNS]:
            raise ValueError(f"there is no column {unknown[0]}; columns are {', '.join(COLUMNS)}")
        if self.columns is not None and not self.columns:
            raise ValueError("columns is empty; name at least one")
        return self

    def for_a_batch(self) -> Self:
        """Refuse what only a stream takes."""
        for name in ("starting_offsets", "max_changes_per_trigger"):
            if getattr(self, name) is not None:
                raise Invalid(f"option {type(self).model_fields[name].alias} is not for a batch.")
        return self


class KvSource(DataSource):
    """Keys of a namespace: read in batches and streams, written in batches and streams."""

    @classmethod
    def name(cls) -> str:
        return "trunkline.kv"

    def schema(self) -> StructType:
        return kv_rows.schema_of(KvOptions.parse(self.options).columns or COLUMNS)

    def reader(self, schema: StructType) -> KvReader:
        return KvReader(KvOptions.parse(self.options).for_a_batch(), schema)

    def streamReader(self, schema: StructType) -> KvStreamReader:
        return KvStreamReader(KvOptions.parse(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchSink:  # noqa: FBT001 - Spark's
        from trunkline.spark.kv_sink import kv_writer

        return kv_writer(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSink:  # noqa: FBT001
        from trunkline.spark.kv_sink import kv_stream_writer

        return kv_stream_writer(self.options, schema, overwrite=overwrite)


class KvPartition(InputPartition):
    """What one task reads."""

    def __init__(self, part: Scan | Changes):
        self.part = part

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.part})"


class _Reading(Reading[KvOptions]):
    """What both readers do: read all keys, cut into tasks."""

    def __init__(self, options: KvOptions, schema: StructType):
        super().__init__(options)
        self._columns = chosen(kv_rows.schema_of(COLUMNS), schema)

    @property
    def _keys(self) -> Keys:
        return Keys(self.dsn, self._options.namespace, self._options.prefix, self._columns)

    def _ends(self, *, number: bool) -> Ends:
        database = connection.db(self.dsn)
        if number:
            with suppress(Forbidden):  # to be a client of the store is enough; others number
                database.run(calls.tick())
        return database.run(calls.ends())

    def _scans(self, position: int) -> Sequence[InputPartition]:
        """Ranges of keys of about the same size; changes up to ``position`` are in them."""
        keys = self._keys
        cut = calls.cuts(keys.prefix, namespace=keys.namespace, parts=self._options.min_partitions)
        bounds = ["", *connection.db(self.dsn).run(cut), None]
        return [
            KvPartition(Scan(keys, after or "", until, position))
            for after, until in pairwise(bounds)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, KvPartition):
            return iter(())  # Spark makes up a partition where a plan has none
        return partition.part.read()


class KvReader(_Reading, DataSourceReader):
    """Reads every key."""

    def partitions(self) -> Sequence[InputPartition]:
        with connection.plain_errors():
            return self._scans(self._ends(number=True).last_one)


class KvStreamReader(_Reading, PositionStream[KvOptions]):
    """Reads every key if it is to, then those that change; wakes up when changes are numbered."""

    def _first(self, ends: Ends) -> int:
        text = self._options.starting_offsets or "latest"
        return resolve("startingOffsets", text, ends, earliest=_ALL_KEYS)

    def _reach(self, begin: int, tip: int, most: int) -> int:
        return tip if begin == _ALL_KEYS else super()._reach(begin, tip, most)

    def _plan(self, first: int, last: int) -> Sequence[InputPartition]:
        if first == _ALL_KEYS:
            return self._scans(last) if last >= _ALL_KEYS else []
        ranges = plan.split([Range("", 0, first, last)], self._options.min_partitions)
        return [KvPartition(Changes(self._keys, one.first, one.last)) for one in ranges]

    def _belongs_to(self) -> dict[str, str | None]:
        return {"namespace": self._options.namespace, "prefix": self._options.prefix}

    @property
    def _at_most(self) -> int | None:
        return self._options.max_changes_per_trigger

    @property
    def _woken_by(self) -> str:
        return "kv:"
