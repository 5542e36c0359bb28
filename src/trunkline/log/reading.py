"""`Reading`: a plain read of a partition, without a group; the same for both faces."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from trunkline.core.calls import moment
from trunkline.log import calls
from trunkline.log.decoding import decode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trunkline.core.calls import Call
    from trunkline.log.batches import StoredBatch
    from trunkline.log.models import Message, Start


class Reading:
    """How far it has come."""

    def __init__(
        self,
        topic: str,
        partition: int,
        start: int,
        limit: int | None,
        fetch_bytes: int,
        *,
        since: Start | None = None,
        last: int | None = None,
    ):
        self._topic = topic
        self._partition = partition
        self._next_offset = start
        self._left = limit
        self._fetch_bytes = fetch_bytes
        self._incarnation: int | None = None
        self._asked_for: int | None = None
        self._since = moment(since) if isinstance(since, datetime) else None
        self._last = last

    def next_call(self) -> Call[list[StoredBatch]] | None:
        """What to ask for now; None at the end."""
        asked = self._asked_for is not None  # once in any case: a start beyond the end is refused
        over = asked and self._last is not None and self._next_offset > self._last
        if self._left == 0 or over or self._asked_for == self._next_offset:
            return None
        self._asked_for = self._next_offset
        return calls.fetch(
            self._topic,
            self._partition,
            self._next_offset,
            max_messages=100_000 if self._left is None else min(self._left, 100_000),
            max_bytes=self._fetch_bytes,
            incarnation=self._incarnation,
        )

    def messages(self, row: StoredBatch) -> Iterator[Message]:
        """The messages of a row that was asked for."""
        if self._last is not None and row.base_offset > self._last:
            return  # it came after we began
        part = decode(row)
        wanted = self._since is None or part.at >= self._since  # among archived ones it is coarse
        if wanted:
            yield from part.messages(self._topic, self._partition)
        whole = part.skip + part.take == part.n
        self._next_offset = 1 + (part.last_offset if whole else part.offsets[-1])
        if self._left is not None and wanted:
            self._left -= len(part)
        self._incarnation = part.incarnation
