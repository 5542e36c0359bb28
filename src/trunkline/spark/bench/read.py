"""Cell `read`: a topic against a table with the same content."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from trunkline.log.bench.measure import Target, compare
from trunkline.spark.bench.baseline import find_baseline
from trunkline.spark.bench.ground import (
    fill_table,
    fill_topic,
    read_topic,
    schema,
    spark_session,
    turn,
)
from trunkline.spark.log_schema import COLUMNS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from pyspark.sql import DataFrame

    from trunkline.log.bench.lab import Lab
    from trunkline.log.bench.measure import Row

_NARROW = ("key", "value", "offset")
_FULL = tuple(name for name in COLUMNS if name != "headers")


async def read(lab: Lab) -> AsyncGenerator[Row]:
    """Small messages, narrow and whole; large ones."""
    small, large = (20_000, 20_000) if lab.quick else (2_000_000, 500_000)
    with schema(lab), spark_session() as spark:
        theirs = find_baseline(spark, lab.dsn)
        for n, size, columns, target in (
            (small, 100, _NARROW, 1.5),
            (small, 100, _FULL, 1.2),
            (large, 1024, _NARROW, 1.5),
        ):
            if columns is not _FULL:
                topic = fill_topic(lab, n, size=size)
                table = fill_table(lab, topic, n, size=size)
            ours = Summed(read_topic(spark, lab, topic, ",".join(columns)))
            base = Summed(theirs.read(spark, table, columns))
            for _ in range(0 if lab.quick else 2):
                ours.sum_up()
                base.sum_up()
            wide = "full schema" if columns is _FULL else "key, value and offset"
            row = await compare(
                lab,
                "read",
                f"{n} messages of {size} B, {wide}",
                ours=turn(n, ours.sum_up),
                baseline=turn(n, base.sum_up),
                target=Target(at_least=target),
            )
            assert ours.found == base.found, (ours.found, base.found)
            yield replace(row, note=f"baseline: {theirs.name}")


@dataclass
class Summed:
    """A frame, and what a job over all of it found."""

    frame: DataFrame
    found: dict[str, int] = field(default_factory=dict)

    def sum_up(self) -> None:
        """Run the job."""
        self.found = summed(self.frame)


def summed(frame: DataFrame) -> dict[str, int]:
    """Figures that need every value of every column."""
    from pyspark.sql import functions as f

    asked = {"rows": f.count("*")}
    for name in frame.columns:
        if name == "timestamp":  # differs: the messages are not of the same moment
            asked["_times"] = f.max(name) > f.min(name)
        elif name in ("offset", "partition"):
            asked[name] = f.sum(name)
        else:
            asked[name] = f.sum(f.length(name))
    [row] = frame.agg(*(value.alias(name) for name, value in asked.items())).collect()
    return {name: value for name, value in row.asDict().items() if name != "_times"}
