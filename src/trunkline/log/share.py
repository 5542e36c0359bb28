"""`Share`: a partition that is ours, and what was fetched of it and waits to be handed out."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trunkline.core.errors import Invalid
from trunkline.log.archived import ArchivedReader
from trunkline.log.decoding import DecodedBatch, decode

if TYPE_CHECKING:
    from trunkline.log.batches import StoredBatch


@dataclass(slots=True, eq=False)
class Share:
    """A partition that is ours."""

    partition: int
    epoch: int
    next_offset: int
    done: int
    incarnation: int | None = None
    rows: deque[StoredBatch | DecodedBatch] = field(default_factory=deque)
    maybe_ready: bool = True
    in_doubt: bool = False
    surplus_since: float | None = None
    archived: ArchivedReader = field(default_factory=ArchivedReader)
    waiting_bytes: int = 0
    backlog: bool = False
    rewinds: int = 0

    @property
    def settled(self) -> bool:
        """Nothing that was handed out waits for its commit."""
        return self.done >= self.next_offset - 1

    @property
    def reach(self) -> int | None:
        """The offset after what waits to be handed out; None when its last batch is cut short."""
        if not self.rows:
            return self.next_offset
        last = self.rows[-1]
        return last.last_offset + 1 if last.skip + last.take == last.n else None

    @property
    def seen_incarnation(self) -> int | None:
        """Who wrote what lies before `reach`."""
        return self.rows[-1].incarnation if self.rows else self.incarnation

    def rewind(self, offset: int) -> None:
        """Go on from another offset."""
        self.rewinds += 1
        self.next_offset = offset
        self.drop_rows()
        self.incarnation = None
        self.maybe_ready = True

    def add_rows(self, rows: list[StoredBatch], *, asked_bytes: int) -> None:
        """Let what was fetched wait to be handed out; as much as asked for means a backlog."""
        size = sum(row.size for row in rows)
        self.rows.extend(rows)
        self.waiting_bytes += size
        self.backlog = size >= asked_bytes
        self.maybe_ready = bool(self.rows)

    def drop_rows(self) -> None:
        """Forget what waits to be handed out."""
        self.rows.clear()
        self.waiting_bytes = 0

    def cut(self, most: int) -> tuple[list[DecodedBatch], int]:
        """Take up to ``most`` messages off the front; the parts, and the last offset they cover."""
        parts: list[DecodedBatch] = []
        last = 0
        while self.rows and most > 0:
            row = self._decoded(self.rows.popleft())
            if len(row) > most:
                parts.append(row.window(row.skip, most))
                self.rows.appendleft(row.window(row.skip + most, len(row) - most))
                last = parts[-1].offsets[-1]
                break
            parts.append(row)
            most -= len(row)
            last = row.last_offset if row.skip + row.take == row.n else row.offsets[-1]
        return parts, last

    def decode_ahead(self, most: int) -> None:
        """Decode what `cut` takes off next; a damaged row stays as it is, for `cut` to refuse."""
        for place, row in enumerate(self.rows):
            if most <= 0:
                break
            try:
                ready = self.rows[place] = self._decoded(row)
            except Invalid:
                break
            most -= len(ready)

    def _decoded(self, row: StoredBatch | DecodedBatch) -> DecodedBatch:
        if isinstance(row, DecodedBatch):
            return row
        ready = decode(row)
        self.waiting_bytes -= row.size
        return ready
