"""`Lanes`: all lanes of a tube, owned by one driver under a lease that renews itself."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from trunkline.core.errors import Conflict
from trunkline.core.lease import default_name
from trunkline.spark import connection
from trunkline.spark.jobs.job import holder, is_living, owning
from trunkline.tube import calls
from trunkline.tube.models import BACKFILL, LIVE

if TYPE_CHECKING:
    from uuid import UUID

    from trunkline.core.db import Db
    from trunkline.tube.models import LaneShare

_FAR_BEHIND = 1_000  # positions that a lane without entries may lag before its cursor is written


def refuse_worked(db: Db, tube: str, *, besides: UUID | None = None) -> None:
    """`Conflict` when a living process works a tube; needs no Spark."""
    others = {row.process: row.process_name for row in db.run(calls.stats(tube)) if row.process}
    found = [
        holder(db, process, name)
        for process, name in others.items()
        if process != besides and is_living(db, process)
    ]
    if found:
        raise Conflict(
            f'tube "{tube}" is worked on by {", ".join(sorted(found))}.',
            hint="A tube has one reader: stop the other (if it died, its lease runs out by itself),"
            " or give this one a tube of its own.",
        )


class Lanes:
    """The lanes of a tube, and how far each is done; nobody else works the tube meanwhile."""

    def __init__(self, dsn: str, tube: str, *, name: str):
        self._db = connection.db(dsn)
        self._tube = tube
        self._held = ExitStack()
        self._owner = self._held.enter_context(
            owning(self._db, f"{name} {tube} by {default_name()}")
        )
        try:
            self._shares = {share.lane: share for share in self._join()}
        except BaseException:
            self._held.close()
            raise
        self._done = {
            (share.lane, priority): up_to
            for share in self._shares.values()
            for priority, up_to in (
                (LIVE, share.live_up_to),
                (BACKFILL, share.backfill_up_to),
            )
        }

    def _join(self) -> list[LaneShare]:
        shares = self._db.run(calls.join(self._tube, self._owner.process))
        if not shares or len(shares) < shares[0].lanes:
            refuse_worked(self._db, self._tube, besides=self._owner.process)
            shares = self._db.run(calls.join(self._tube, self._owner.process))
        if not shares or len(shares) < shares[0].lanes:
            raise Conflict(f'tube "{self._tube}" changes hands just now.', hint="Try again.")
        return shares

    def marks(self) -> dict[tuple[int, int], int]:
        """By lane and priority, the position up to which everything is done."""
        return dict(self._done)

    def positions(self) -> list[int]:
        """The same without the lanes."""
        return list(self._done.values())

    def check(self) -> None:
        """Raise `LeaseLost` when the lease ran out."""
        self._owner.check()

    def acknowledge(self, position: int) -> None:
        """Everything up to a position is done, in all lanes."""
        self.acknowledge_each(dict.fromkeys(self._done, position))

    def acknowledge_each(self, marks: dict[tuple[int, int], int], *, worked: bool = True) -> None:
        """Say how far each lane is; `LeaseLost` when somebody else took it over meanwhile."""
        self._owner.check()
        for lane, share in self._shares.items():
            live, backfill = marks[lane, LIVE], marks[lane, BACKFILL]
            moved = max(live - self._done[lane, LIVE], backfill - self._done[lane, BACKFILL])
            if moved <= 0 or (not worked and moved < _FAR_BEHIND):
                continue
            self._db.run(
                calls.ack(self._tube, lane, share.epoch, live_up_to=live, backfill_up_to=backfill)
            )
            self._done[lane, LIVE] = max(live, self._done[lane, LIVE])
            self._done[lane, BACKFILL] = max(backfill, self._done[lane, BACKFILL])

    def leave(self) -> None:
        """Give the lanes back."""
        self._held.close()
