"""`Lane`: a lane of a handler that is ours, between reading and committing. State only, no I/O."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trunkline.broker.delivered import Delivered, RetryBatch

UNCOMMITTED = 100
"""Events that may be handled before their position is committed: so many may come again."""
_COMMIT_AFTER = 0.2  # seconds


@dataclass(frozen=True, slots=True)
class Cut:
    """A batch as it was written down before it was handled, so that it is known again."""

    end: int
    """Its last delivery; it begins where the one before it ends."""
    aside: tuple[int, ...] = ()
    """Deliveries that are not part of it: they wait for older events of their keys."""


@dataclass(slots=True, eq=False)
class Lane:
    """Events are handled one batch after the other, in order; retries in between."""

    number: int
    epoch: int
    read_up_to: int
    suspect_left: int
    """Events to be tried alone, because the process before may have died over one of them."""
    cuts: deque[Cut] = field(default_factory=deque)
    """The next batches, for a handler whose batches are written down."""
    committed: int = field(init=False)
    done_up_to: int = field(init=False)
    queue: deque[Delivered] = field(default_factory=deque)
    retries: deque[RetryBatch] = field(default_factory=deque)
    blocked: set[str] = field(default_factory=set)
    """Keys of which something is set aside."""
    due: float | None = 0.0
    """When to look for retries; at the beginning, at once."""
    more: bool = True
    """Whether there may be more to read."""
    has_read_all: bool = False
    """Whether everything was read that was there when the lane became ours."""
    surplus: bool = False
    lost: bool = False
    resting: bool = False
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    _uncommitted: int = 0
    _uncommitted_since: float = 0.0

    def __post_init__(self) -> None:
        self.committed = self.done_up_to = self.read_up_to

    @property
    def ends(self) -> bool:
        """Whether nothing more is to be begun here."""
        return self.surplus or self.lost

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do, and nothing is known to come."""
        return self.resting and not (self.more or self.queue or self.retries or self.is_due())

    @property
    def has_work(self) -> bool:
        """Whether there is something to handle, or to look for."""
        return bool((self.queue and not self.lacks) or self.retries or self.is_due())

    @property
    def lacks(self) -> bool:
        """Whether the next batch is known, and not all of it is read."""
        return bool(self.cuts) and self.read_up_to < self.cuts[0].end

    @property
    def is_suspect(self) -> bool:
        """Whether events are tried alone."""
        return self.suspect_left > 0

    def is_due(self) -> bool:
        """Whether it is time to look for retries."""
        return self.due is not None and self.due <= time.monotonic()

    def expect(self, seconds: float) -> None:
        """Something is due for another try in a while."""
        at = time.monotonic() + max(0.0, seconds)
        self.due = at if self.due is None else min(self.due, at)

    def add(self, events: Iterable[Delivered]) -> None:
        """Queue what was read; a row without an event says how far was looked."""
        for event in events:
            self.read_up_to = max(self.read_up_to, event.delivery)
            if event.event_id:
                self.queue.append(event)
        self.woken.set()

    def take(self, most: int) -> list[Delivered]:
        """The next events, at most so many."""
        return [self.queue.popleft() for _ in range(min(most, len(self.queue)))]

    def next_batch(self) -> list[Delivered]:
        """The events of the first cut, if they are read; one that has none any more is none."""
        while self.cuts and not self.lacks:
            end = self.cuts[0].end
            if events := [event for event in self.queue if event.delivery <= end]:
                return events
            self.cuts.popleft()
        return []

    def take_batch(self) -> list[Delivered]:
        """Take the events of the first cut; those that are not part of it are blocked."""
        events = self.take(len(self.next_batch()))
        aside = self.cuts.popleft().aside
        return [replace(e, blocked=True) if e.delivery in aside else e for e in events]

    def holds_back(self, event: Delivered) -> bool:
        """Whether an event must wait for an older one of its key."""
        if event.key is None:
            return False
        if event.blocked:
            self.blocked.add(event.key)
        return event.key in self.blocked

    def hold_back(self, events: Iterable[Delivered]) -> None:
        """These events were set aside: later ones of their keys must wait."""
        self.blocked.update(event.key for event in events if event.key is not None)

    def done(self, events: list[Delivered]) -> None:
        """These events are settled; the position is still to be committed."""
        self.done_up_to = events[-1].delivery
        if not self._uncommitted:
            self._uncommitted_since = time.monotonic()
        self._uncommitted += len(events)

    def must_commit(self) -> bool:
        """Whether it is time to commit the position."""
        return self._uncommitted >= UNCOMMITTED or (self.worked and not self.commit_in())

    def commit_in(self) -> float:
        """Seconds that the commit of what is done may wait for more to be done."""
        waited = time.monotonic() - self._uncommitted_since
        return max(0.0, _COMMIT_AFTER - waited)

    def position(self) -> int:
        """Everything up to here is done: also what was looked at and was not for us."""
        return self.done_up_to if self.queue else max(self.done_up_to, self.read_up_to)

    def has_committed(self, up_to: int) -> None:
        """The position was committed."""
        self.committed = max(self.committed, up_to)
        self._uncommitted = 0

    @property
    def worked(self) -> bool:
        """Whether something was handled since the last commit."""
        return self._uncommitted > 0
