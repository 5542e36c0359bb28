"""The per-key queue of one lane: which keys wait, which are in flight, which entries are done.

Pure state, no I/O. A key is in flight once at most; touches that come meanwhile are kept and make
it run exactly once more. A position counts as done when all keys of its entry are, so the
*watermark* (everything at or below is done) can be acknowledged at any time.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass
from itertools import chain, count, islice
from typing import TYPE_CHECKING, Any

from trunkline.tube.models import BACKFILL, LIVE, Entry, KeyId, Touch, key_ids

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Place = tuple[int, int]
"""Priority and position of an entry."""


@dataclass(slots=True, eq=False)
class Pending:
    """A key to deliver, for all the entries that asked for it."""

    id: KeyId
    relation: str | None
    op: str
    payload: Any
    priority: int
    places: tuple[Place, ...] | list[Place]
    attempts: int = 0

    def touch(self) -> Touch:
        """The key as enrichment functions see it."""
        attachment, shard, key = self.id
        return Touch(attachment, self.relation, shard, key, self.op, self.payload)

    def count_for(self, places: Iterable[Place]) -> None:
        """Its delivery is that of further places too; a hot key gets many, one by one."""
        if isinstance(self.places, tuple):  # which all keys of its entry share
            self.places = list(self.places)
        self.places.extend(places)

    def heed(self, later: Pending) -> None:
        """Of several touches the last live one tells operation and payload, else the last."""
        if later.priority <= self.priority:
            self.op, self.payload = later.op, later.payload


class LaneQueue:
    """Keys of one lane between reading and acknowledging."""

    def __init__(self, live_up_to: int, backfill_up_to: int):
        self.read_up_to = [live_up_to, backfill_up_to]
        self._open: tuple[dict[int, int], dict[int, int]] = ({}, {})
        self._waiting: tuple[dict[KeyId, Pending], dict[KeyId, Pending]] = ({}, {})
        self._flying: dict[KeyId, Pending] = {}
        self._again: dict[KeyId, Pending] = {}
        self._delayed: dict[KeyId, Pending] = {}
        self._due: list[tuple[float, int, KeyId]] = []
        self._number = count()
        self._backfill_credit = 0.0

    def __len__(self) -> int:
        waiting = len(self._waiting[LIVE]) + len(self._waiting[BACKFILL])
        return waiting + len(self._flying) + len(self._delayed)

    @property
    def entries(self) -> int:
        """Entries that are not done; more than keys, where a few keys are touched all the time."""
        return len(self._open[LIVE]) + len(self._open[BACKFILL])

    @property
    def in_flight(self) -> int:
        """Keys that were taken and are neither done nor failed."""
        return len(self._flying)

    def add(self, priority: int, entry: Entry) -> None:
        """Queue the keys of an entry; a control entry stays open until it is settled."""
        if entry.control is not None:
            self._open[priority][entry.up_to] = 1
        elif entry.keys:
            places = ((priority, entry.up_to),)
            ids = key_ids(entry.attachment or 0, entry.shard, dict.fromkeys(entry.keys))
            told = [
                Pending(key_id, entry.relation, entry.op, entry.payload, priority, places)
                for key_id in ids
            ]
            self._open[priority][entry.up_to] = len(ids)
            if self._knows_none(ids):
                self._waiting[priority].update(zip(ids, told, strict=True))
                return
            for wanted in told:
                pending = self._join(wanted)
                if pending is not wanted:
                    pending.heed(wanted)

    def extend(self, place: Place, ids: Iterable[KeyId], *, relation: str | None, op: str) -> None:
        """Queue further keys for an entry that is open; what touched them before tells more."""
        priority, position = place
        for key in dict.fromkeys(ids):
            self._open[priority][position] += 1
            self._join(Pending(key, relation, op, None, priority, (place,)))

    def settle(self, place: Place) -> None:
        """Nothing more will be queued for a control entry."""
        self._close(place)

    def take(self, most: int, *, backfill_share: float) -> list[Pending]:
        """Put keys in flight: live ones first, with a share kept for backfill.

        Parts of a key that the share comes to are kept for the next time, so that small batches
        are shared as large ones are.
        """
        waiting = len(self._waiting[BACKFILL])
        credit = self._backfill_credit + most * backfill_share if waiting else 0.0
        live = self._first(LIVE, most - min(waiting, int(credit + 1e-9)))
        backfill = self._first(BACKFILL, most - len(live))
        self._backfill_credit = max(0.0, credit - len(backfill))
        return live + backfill

    def done(self, batch: Sequence[Pending]) -> None:
        """Keys were delivered, or set aside."""
        for pending in batch:
            del self._flying[pending.id]
        for place, keys in Counter(chain.from_iterable([p.places for p in batch])).items():
            self._close(place, keys)
        if self._again:
            for pending in batch:
                if again := self._again.pop(pending.id, None):
                    self._enqueue(again)

    def failed(self, pending: Pending, *, retry_at: float) -> None:
        """A key was not delivered; it comes back at a time, with what touched it meanwhile."""
        del self._flying[pending.id]
        if again := self._again.pop(pending.id, None):
            pending.count_for(again.places)
            pending.heed(again)
            pending.priority = min(pending.priority, again.priority)
        self._delayed[pending.id] = pending
        heapq.heappush(self._due, (retry_at, next(self._number), pending.id))

    def wake(self, now: float) -> None:
        """Keys whose time has come wait again."""
        while self._due and self._due[0][0] <= now:
            _, _, key = heapq.heappop(self._due)
            if pending := self._delayed.pop(key, None):
                self._enqueue(pending)

    def next_due(self) -> float | None:
        """When the next delayed key is due."""
        return self._due[0][0] if self._due else None

    def watermark(self, priority: int) -> int:
        """Everything of a priority at or below this position is done."""
        first = next(iter(self._open[priority]), None)
        return self.read_up_to[priority] if first is None else first - 1

    def _knows_none(self, ids: Sequence[KeyId]) -> bool:
        places = (*self._waiting, self._flying, self._delayed)
        return all(held.keys().isdisjoint(ids) for held in places if held)

    def _join(self, wanted: Pending) -> Pending:
        """Queue a key, or let what is queued for it already count for its place as well."""
        pending = self._queued(wanted)
        if pending is None:
            return self._enqueue(wanted)
        if pending is not wanted:
            pending.count_for(wanted.places)
            if wanted.priority < pending.priority:
                self._hasten(pending)
        return pending

    def _queued(self, wanted: Pending) -> Pending | None:
        key = wanted.id
        if key in self._flying:
            return self._again.setdefault(key, wanted)
        return self._waiting[LIVE].get(key) or self._waiting[BACKFILL].get(
            key, self._delayed.get(key)
        )

    def _enqueue(self, pending: Pending) -> Pending:
        self._waiting[pending.priority][pending.id] = pending
        return pending

    def _hasten(self, pending: Pending) -> None:
        """A live touch makes a key of the backfill a live one."""
        pending.priority = LIVE
        if self._waiting[BACKFILL].pop(pending.id, None) is not None:
            self._enqueue(pending)

    def _first(self, priority: int, most: int) -> list[Pending]:
        waiting = self._waiting[priority]
        taken = dict(islice(waiting.items(), max(most, 0)))
        for key in taken:
            del waiting[key]
        self._flying.update(taken)
        return list(taken.values())

    def _close(self, place: Place, keys: int = 1) -> None:
        priority, position = place
        left = self._open[priority][position] - keys
        if left:
            self._open[priority][position] = left
        else:
            del self._open[priority][position]
