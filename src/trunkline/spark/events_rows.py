"""Tasks of the events source: a range of positions, or of a group's deliveries, read in parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import sql
from pyspark.sql import types as t

from trunkline.core import telemetry
from trunkline.core.errors import PositionTrimmed
from trunkline.spark import connection
from trunkline.spark.columns import Selection
from trunkline.spark.reading import arrow_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

logger = telemetry.get_logger(__name__)

_AT_ONCE = 50_000  # numbers that one query covers: the server holds that many events in memory
_TYPES: dict[str, t.DataType] = {
    "event_id": t.LongType(),
    "topic": t.StringType(),
    "key": t.StringType(),
    "payload": t.StringType(),
    "metadata": t.StringType(),
    "at": t.TimestampType(),
    "position": t.LongType(),
    "subscription": t.LongType(),
    "delivery": t.LongType(),
}
_SELECTED = {"payload": "payload::text", "metadata": "metadata::text"}
COLUMNS = tuple(_TYPES)
OF_DELIVERIES = "delivery"


@dataclass(frozen=True)
class Part:
    """Numbers ``first`` to ``last``: positions of events, or with a group its deliveries."""

    dsn: str
    topics: tuple[str, ...] | None
    group: str | None
    columns: tuple[str, ...]
    fail_on_data_loss: bool
    first: int = 1
    last: int = 0

    def __repr__(self) -> str:
        return f"Part({self.group or self.topics}, {self.first} to {self.last})"


def schema_of(columns: Sequence[str]) -> t.StructType:
    """The schema of these columns."""
    return t.StructType([t.StructField(name, _TYPES[name]) for name in columns])


def read_part(asked: Part) -> Iterator[pa.RecordBatch]:
    """The events of a part in order, as Arrow brings them."""
    following = asked.first
    while following <= asked.last:
        last = min(asked.last, following + _AT_ONCE - 1)
        try:
            with connection.plain_errors():
                yield from _read(asked, following, last)
        except PositionTrimmed as gone:
            if asked.fail_on_data_loss:
                gone.hint = f"{gone.hint} Option failOnDataLoss=false goes on with what is there."
                raise
            first = int(gone.details.get("first", 0))
            logger.warning("events have left", asked=str(asked), first=first)
            following = first if first > following else last + 1
        else:
            following = last + 1


def _read(asked: Part, first: int, last: int) -> Iterator[pa.RecordBatch]:
    selected = Selection(_select_list(asked), schema_of(asked.columns))
    return arrow_rows(asked.dsn, selected, _source(asked, first, last))


def _select_list(asked: Part) -> str:
    named = {**_SELECTED, "position": "event_position" if asked.group else "up_to"}
    return ", ".join(f"{named.get(name, name)} as {name}" for name in asked.columns)


def _source(asked: Part, first: int, last: int) -> str:
    if asked.group is not None:
        text = "trunkline.broker_deliveries({group}, {first}, {last}) e"
        bounds = {"group": asked.group, "first": first, "last": last}
        if asked.topics is not None:
            text += " where e.topic = any ({topics})"
    else:
        text = "trunkline.broker_events({first}, {most}, {topics}, {last}) e"
        bounds = {"first": first, "most": last - first + 1, "last": last}
    bounds["topics"] = None if asked.topics is None else list(asked.topics)
    literals = {name: sql.Literal(value) for name, value in bounds.items()}
    return sql.SQL(text).format(**literals).as_string()
