"""`Changes`: what a round of a sync brings of one table."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from trunkline.spark.tube_rows import Slice, schema_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from trunkline.spark.attached import Attached
    from trunkline.spark.tube_rows import Span

_TASK_KEYS = 1000  # for fewer no task of their own


@dataclass(frozen=True)
class Changes:
    """Keys of a table that were touched, and the rows behind them."""

    spark: SparkSession
    dsn: str = field(repr=False)
    tube: str
    table: Attached
    spans: tuple[Span, ...]
    keys: int
    parallelism: int

    @property
    def come_twice(self) -> bool:
        """Whether tasks may bring the same row: a row that changes its shard is in two lanes."""
        return self.table.moves and len({span.lane for span in self.spans}) > 1

    def rows(self) -> DataFrame:
        """The rows as a frame, one per key."""
        found = (
            self.spark.read.format("trunkline.tube")
            .option("dsn", self.dsn)
            .option("tube", self.tube)
            .option("relation", self.table.relation)
            .option("enrich", "columns")
            .option("ranges", json.dumps([asdict(span) for span in self.spans]))
            .option("minPartitions", str(self._tasks))
            .load()
        )
        return found.dropDuplicates(list(self.table.key_columns)) if self.come_twice else found

    def schema(self) -> StructType:
        """Their columns."""
        return schema_of(self._all)

    def slices(self) -> list[Slice]:
        """The same as what tasks read."""
        return self._all.divide(self.spans, self._tasks)

    @property
    def _all(self) -> Slice:
        return Slice(self.dsn, self.tube, self.table.relation, "columns")

    @property
    def _tasks(self) -> int:
        return max(1, min(self.parallelism, self.keys // _TASK_KEYS))
