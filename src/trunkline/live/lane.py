"""`Lane`: the changes of one live table on their way from the hub to its streams.

Each table has one, so that policies of one table that take long delay nobody who looks at another.
What comes while they are asked waits. When too much waits the streams that it concerns fall behind:
they read by themselves.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trunkline.broker.stream import Reset, patiently
from trunkline.core import telemetry
from trunkline.live.models import LiveBatch

if TYPE_CHECKING:
    from trunkline.broker.stream import Place
    from trunkline.live.judging import Judge, Told
    from trunkline.live.mailbox import Mailbox
    from trunkline.live.models import LiveRead

logger = telemetry.get_logger(__name__)

MOST_WAITING = 8 << 20  # characters of rows


@dataclass(frozen=True, slots=True)
class Load:
    """What a read found for a table, between two places, and the mailboxes that it concerns."""

    rows: list[LiveRead]
    members: dict[int, Mailbox]
    after: Place
    up_to: Place

    @property
    def size(self) -> int:
        """The characters of its rows."""
        return sum(len(row.old_row or "") + len(row.new_row or "") for row in self.rows)


class Lane:
    """Judges what is put on it in order, and tells who is concerned."""

    def __init__(self, judge: Judge):
        self._judge = judge
        self._loads: deque[Load] = deque()
        self._size = 0
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def place(self) -> Place | None:
        """Up to where all was told; None when nothing is under way."""
        return self._loads[0].after if self._loads else None

    def put(self, load: Load) -> None:
        """Tell of this, after what is under way."""
        if self._loads and self._size + load.size > MOST_WAITING:
            _leave_to_themselves(load)
            return
        self._loads.append(load)
        self._size += load.size
        if len(self._loads) == 1:
            self._task = asyncio.create_task(self._run(), name="live lane")

    async def close(self) -> None:
        """Tell nobody any more."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        while self._loads:
            load = self._loads[0]
            try:
                _deliver(load, await self._told(load))
            except Exception:  # the next one must not wait for it
                logger.exception("changes of a live table could not be judged for all")
                _leave_to_themselves(load)
            self._loads.popleft()
            self._size -= load.size

    async def _told(self, load: Load) -> Told:
        wanted = {
            number: member.wanted for number, member in load.members.items() if not member.closed
        }
        return await patiently(
            lambda: self._judge.tell(load.rows, wanted, incarnation=load.up_to.incarnation),
            until=lambda: self._closed,
        )


def _deliver(load: Load, told: Told) -> None:
    for number, member in load.members.items():
        if reason := told.lost.get(number):
            member.reset(Reset(load.up_to.token, reason))
            member.close(renew=True)
        elif error := told.failures.get(number):
            member.fail(error)
        elif changes := told.changes.get(number):
            member.put(LiveBatch(load.up_to.token, tuple(changes)), told.sizes[number])


def _leave_to_themselves(load: Load) -> None:
    """Whom it concerns reads by itself from where it stands."""
    for member in load.members.values():
        member.close()
