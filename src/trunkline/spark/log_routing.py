"""Which message goes to which partition, as the Python client decides it, and in which batches.

Pure but for the settings of topics, which the caller looks up. Keys choose the partition; what has
no key goes, Arrow batch by Arrow batch, to one partition after the other; a column ``partition``
overrules both. The order of a task's rows is kept in every partition.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trunkline.core.errors import Invalid, NotFound, TooLarge
from trunkline.log.batches import Codec, PackedBatch, pack_arrow, route
from trunkline.log.columns import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trunkline.log.models import Topic

BATCH_MESSAGES = 5_000
BATCH_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Routed:
    """A record batch and where it goes."""

    topic: str
    partition: int
    batch: PackedBatch


@dataclass(slots=True)
class _Lane:
    """Rows of one partition that do not fill a batch yet."""

    parts: list[pa.Table] = field(default_factory=list)
    n: int = 0
    size: int = 0


class Router:
    """Takes rows, gives record batches; `finish` gives what is left.

    ``turn`` is where the rows without a key begin: the number of the task, so that tasks spread.
    """

    def __init__(
        self,
        settings: Callable[[str], Topic],
        *,
        message_bytes: int,
        topic: str | None = None,
        turn: int = 0,
    ):
        self._settings = settings
        self._message_bytes = message_bytes
        self._topic = topic
        self._turn = turn
        self._known: dict[str, Topic] = {}
        self._lanes: dict[tuple[str, int], _Lane] = {}

    def add(self, batch: pa.RecordBatch) -> Iterator[Routed]:
        """Take rows; gives the batches that are full."""
        table = pa.Table.from_batches([batch])
        for topic, rows in self._by_topic(table):
            known = self._look_up(topic)
            self._check(known, rows)
            for partition, indices in self._shares(known, rows):
                share = rows if indices is None else rows.take(indices)
                yield from self._gather(known, partition, share)

    def finish(self) -> Iterator[Routed]:
        """The batches that did not fill up."""
        for (topic, partition), lane in self._lanes.items():
            if lane.n:
                yield _packed(self._look_up(topic), partition, pa.concat_tables(lane.parts))
        self._lanes.clear()

    def _look_up(self, topic: str) -> Topic:
        if topic not in self._known:
            self._known[topic] = self._settings(topic)
        return self._known[topic]

    def _by_topic(self, table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        if not table.num_rows:
            return
        if self._topic is not None:
            yield self._topic, table
            return
        topics = table.column("topic")
        if topics.null_count:
            raise Invalid(
                "a row has no topic.", hint="Fill the column, or name one with the option topic."
            )
        for topic in pc.unique(topics).to_pylist():
            yield topic, table.filter(pc.equal(topics, topic))

    def _check(self, topic: Topic, rows: pa.Table) -> None:
        values = rows.column("value")
        if values.null_count and not topic.compact:
            raise Invalid(
                f'topic "{topic.topic}" is not compacted: a value must not be null.',
                hint="A null value is a tombstone, which only a compacted topic takes.",
            )
        if topic.compact and ("key" not in rows.column_names or rows.column("key").null_count):
            raise Invalid(f'topic "{topic.topic}" is compacted: every message needs a key.')
        largest = pc.max(pc.binary_length(values)).as_py() or 0
        if largest > self._message_bytes:
            raise TooLarge(
                f"a message holds at most {self._message_bytes} bytes, got {largest}.",
                hint="Send a reference to it, or raise the setting log.message_bytes.",
            )

    def _shares(self, topic: Topic, rows: pa.Table) -> list[tuple[int, list[int] | None]]:
        self._turn += 1
        keyless = self._turn % topic.partitions
        routes = self._routes(topic, rows, keyless)
        if routes is None:
            return [(keyless, None)]
        return [(partition, indices) for partition, indices in enumerate(routes) if indices]

    def _routes(self, topic: Topic, rows: pa.Table, keyless: int) -> list[list[int]] | None:
        keyed = "key" in rows.column_names and rows.column("key").null_count < rows.num_rows
        chosen = rows.column("partition").to_pylist() if "partition" in rows.column_names else []
        if not keyed and all(number is None for number in chosen):
            return None
        keys = [encode("key", key) for key in rows.column("key").to_pylist()] if keyed else []
        if all(number is None for number in chosen):
            return route(keys, topic.partitions, keyless=keyless)
        free = [index for index, number in enumerate(chosen) if number is None]
        routes: list[list[int]] = [[] for _ in range(topic.partitions)]
        for index, number in enumerate(chosen):
            if number is None:
                continue
            if not 0 <= number < topic.partitions:
                last = topic.partitions - 1
                raise NotFound(
                    f'topic "{topic.topic}" has partitions 0 to {last}, asked for {number}.'
                )
            routes[number].append(index)
        free_keys = [keys[index] if keyed else None for index in free]
        for to, places in enumerate(route(free_keys, topic.partitions, keyless=keyless)):
            if places:
                routes[to] = sorted(routes[to] + [free[place] for place in places])
        return routes

    def _gather(self, topic: Topic, partition: int, rows: pa.Table) -> Iterator[Routed]:
        lane = self._lanes.setdefault((topic.topic, partition), _Lane())
        lane.parts.append(
            rows.select([n for n in ("value", "key", "headers") if n in _names(rows)])
        )
        lane.n += rows.num_rows
        lane.size += _size(rows)
        if lane.n < BATCH_MESSAGES and lane.size < BATCH_BYTES:
            return
        *full, rest = _cut(pa.concat_tables(lane.parts))
        for piece in full:
            yield _packed(topic, partition, piece)
        self._lanes[(topic.topic, partition)] = _Lane([rest], rest.num_rows, _size(rest))


def _cut(rows: pa.Table) -> list[pa.Table]:
    """Pieces of at most `BATCH_MESSAGES` and, unless one message is larger, `BATCH_BYTES`."""
    ends = np.cumsum(_lengths(rows))
    pieces, start = [], 0
    while start < len(ends):
        before = ends[start - 1] if start else 0
        stop = int(np.searchsorted(ends, before + BATCH_BYTES, side="right"))
        stop = max(start + 1, min(stop, start + BATCH_MESSAGES))
        pieces.append(rows.slice(start, stop - start))
        start = stop
    return pieces


def _lengths(rows: pa.Table) -> Any:
    total = pc.fill_null(pc.binary_length(rows.column("value")), 0)
    if "key" in rows.column_names:
        total = pc.add(total, pc.fill_null(pc.binary_length(rows.column("key")), 0))
    return total.to_numpy()


def _size(rows: pa.Table) -> int:
    return int(_lengths(rows).sum())


def _names(rows: pa.Table) -> list[str]:
    names: list[str] = rows.column_names
    return names


def _packed(topic: Topic, partition: int, rows: pa.Table) -> Routed:
    columns = {name: rows.column(name) for name in _names(rows)}
    return Routed(
        topic.topic,
        partition,
        pack_arrow(
            columns["value"],
            keys=columns.get("key"),
            headers=columns.get("headers"),
            codec=Codec.parse(topic.codec),
        ),
    )
