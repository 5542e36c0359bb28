"""`Lanes`: the lanes of a tube that a worker owns, by lease and epoch.

They are joined again and again, so that workers share them; what is done is acknowledged with the
epoch, and a worker that lost its lane is refused and forgets it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trunkline.core import telemetry
from trunkline.core.errors import Invalid, LeaseLost
from trunkline.tube import calls
from trunkline.tube.models import BACKFILL, LIVE, Entry
from trunkline.tube.queue import LaneQueue, Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from trunkline.core.db import AsyncDb
    from trunkline.core.lease import ProcessLease
    from trunkline.tube.models import LaneShare

logger = telemetry.get_logger(__name__)

_HINT = "Those of a worker that died come free when its lease ends (setting lease.ttl)."
_REJOIN_EVERY = 3.0
_FAR_BEHIND = 1_000  # positions: what an idle lane may lag before it writes its cursor


@dataclass(slots=True, eq=False)
class Lane:
    """A lane that is ours."""

    number: int
    lanes: int
    epoch: int
    queue: LaneQueue
    acked: list[int]
    controls: list[tuple[Place, Entry]] = field(default_factory=list)
    surplus: bool = False
    lost: bool = False
    worked: bool = False


class Lanes:
    """The lanes that are ours, by their number."""

    def __init__(self, db: AsyncDb, lease: ProcessLease, *, tube: str, member: str):
        self._db = db
        self._lease = lease
        self._tube = tube
        self._member = member
        self._ours: dict[int, Lane] = {}
        self._rejoin_at = 0.0
        self._fresh_until = 0.0
        self._idle = False

    def __iter__(self) -> Iterator[Lane]:
        return iter(list(self._ours.values()))

    def __len__(self) -> int:
        return len(self._ours)

    @property
    def is_due(self) -> bool:
        """Whether it is time to look who owns what."""
        now = time.monotonic()
        return now >= self._rejoin_at or (bool(self._ours) and now >= self._fresh_until)

    @property
    def are_fresh(self) -> bool:
        """Whether no other process can have taken over since the last look.

        Not after the process was suspended for longer than its lease.
        """
        return time.monotonic() < self._fresh_until

    def hasten(self) -> None:
        """Look who owns what as soon as possible."""
        self._rejoin_at = 0.0

    def postpone(self) -> None:
        """Look who owns what after the usual time."""
        self._rejoin_at = time.monotonic() + _REJOIN_EVERY

    async def rejoin(self, process: UUID) -> None:
        """See which lanes are ours now; give back those that others should have."""
        if time.monotonic() >= self._lease.valid_until:
            await self._lease.renew()
        fresh_until = self._lease.valid_until
        try:
            shares = await self._db.run(calls.join(self._tube, process, member=self._member))
        except LeaseLost:
            await self._lease.renew()
            return
        self._fresh_until = fresh_until
        self.postpone()
        if not shares and not self._idle:
            logger.info("others have the lanes", tube=self._tube, hint=_HINT)
        self._idle = not shares
        ours = {share.lane: share for share in shares}
        for lane in self:
            if lane.number not in ours or ours[lane.number].epoch != lane.epoch:
                self.lose(lane)
        for share in shares:
            lane = self._ours.get(share.lane) or self._begin(share)
            lane.surplus = share.surplus
        leaving = [lane.number for lane in self if lane.surplus and not len(lane.queue)]
        if leaving:
            await self.acknowledge()
            await self._db.run(calls.leave(self._tube, process, member=self._member, lanes=leaving))
            for number in leaving:
                if given := self._ours.pop(number, None):
                    given.lost = True

    async def acknowledge(self) -> None:
        """Say what is done of each."""
        for lane in self:
            marks = [lane.queue.watermark(LIVE), lane.queue.watermark(BACKFILL)]
            moved = max(mark - acked for mark, acked in zip(marks, lane.acked, strict=True))
            if moved <= 0 or (moved < _FAR_BEHIND and not lane.worked):
                continue
            try:
                await self._db.run(
                    calls.ack(
                        self._tube,
                        lane.number,
                        lane.epoch,
                        live_up_to=marks[LIVE],
                        backfill_up_to=marks[BACKFILL],
                    )
                )
                lane.acked = marks
                lane.worked = marks != lane.queue.read_up_to
            except (LeaseLost, Invalid):  # there are other lanes now, or the server fell back
                self.lose(lane)
                self.hasten()

    async def leave(self, process: UUID) -> None:
        """Give all of them back; when the server is away, as soon as it is there again."""
        await self._lease.leave(calls.leave(self._tube, process, member=self._member))

    def lose(self, lane: Lane) -> None:
        """Forget a lane that is no longer ours."""
        lane.lost = True
        self._ours.pop(lane.number, None)
        logger.info("lane lost", tube=self._tube, lane=lane.number, epoch=lane.epoch)

    def clear(self) -> None:
        """Forget all of them."""
        for lane in self:
            lane.lost = True
        self._ours.clear()

    def _begin(self, share: LaneShare) -> Lane:
        lane = Lane(
            share.lane,
            share.lanes,
            share.epoch,
            LaneQueue(share.live_up_to, share.backfill_up_to),
            [share.live_up_to, share.backfill_up_to],
        )
        self._ours[share.lane] = lane
        return lane
