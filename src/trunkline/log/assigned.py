"""`AssignedConsumer`: whole partitions, each in order, shared out among members and fenced.

A backlog is read ahead while the caller works: one fetch at a time, of half of ``fetch_bytes``, as
long as no more than the other half waits to be handed out. At the tip nothing is. What is handed
out next is decoded while the caller waits for its commit, or for anything else.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from trunkline.core import telemetry
from trunkline.core.errors import (
    LeaseLost,
    PositionTrimmed,
    TrunklineError,
    Unavailable,
)
from trunkline.log import calls, group_calls
from trunkline.log.archived import fetch
from trunkline.log.consumer import Batch, Consumer, Reader
from trunkline.log.share import Share

if TYPE_CHECKING:
    from datetime import timedelta

    from trunkline.core.calls import Call
    from trunkline.core.listen import Subscription
    from trunkline.log.models import Assignment, Topic


logger = telemetry.get_logger(__name__)

_REJOIN_EVERY = 3.0  # seconds between two looks at who owns what
_PATIENCE = 30.0  # seconds that a surplus partition is kept for a commit that does not come


class AssignedConsumer(Consumer):
    """A member of an assigned group: whole partitions, each in order, fenced by epochs."""

    def __init__(self, reader: Reader):
        super().__init__(reader)
        self._shares: dict[int, Share] = {}
        self._lost: dict[int, Share] = {}
        self._turn: deque[int] = deque()
        self._rejoin_at = 0.0
        self._group_news: Subscription | None = None
        self._ahead: asyncio.Task[None] | None = None
        self._ahead_waits = False
        self._unsettled: Batch | None = None

    @property
    def assignment(self) -> list[int]:
        """The partitions that this consumer reads now."""
        return sorted(self._shares)

    def _forget(self) -> None:
        self._unsettled = None
        self._shares.clear()
        self._lost.clear()
        self._rejoin_at = 0.0

    async def _next_of(self, topic: Topic) -> Batch | None:
        if self._unsettled is not None and (batch := await self._settled_first()):
            return batch
        news = self._group_news
        for share in [share for share in self._shares.values() if share.in_doubt]:
            await self._resolve(share)
        if time.monotonic() >= self._rejoin_at or (news and news.woken and await news.wait(0)):
            await self._rejoin()
        batch = await self._next_ready()
        if batch is None and (shares := self._readable()):
            ready = await self._reader.db.run(
                calls.ready(
                    self.topic,
                    [share.partition for share in shares],
                    [share.next_offset - 1 for share in shares],
                )
            )
            for share in shares:
                if share.partition in ready:
                    share.maybe_ready = True
            batch = await self._next_ready()
        return batch

    async def _resolve(self, share: Share) -> None:
        """Before something is delivered again: wait for the outcome of a commit under way.

        The transaction that it was part of may have committed although its answer got lost, or may
        be about to. A commit of nothing waits for it; then the position is asked for.
        """
        self._rejoin_at = 0.0
        with suppress(LeaseLost):
            await self._reader.db.run(
                group_calls.commit(self.topic, self.group, share.partition, share.epoch, 0)
            )
        share.in_doubt = False

    def _readable(self) -> list[Share]:
        return [share for share in self._shares.values() if share.surplus_since is None]

    async def _next_ready(self) -> Batch | None:
        if self._ahead_waits:  # it cannot begin while a caller polls who has nothing to wait for
            self._ahead_waits = False
            await asyncio.sleep(0)
        for _ in range(len(self._turn)):
            self._turn.rotate(-1)
            share = self._shares.get(self._turn[0])
            if share is None or share.surplus_since is not None or not share.maybe_ready:
                continue
            if self._ahead is not None and not share.rows:
                await asyncio.wait({self._ahead})
            if share.maybe_ready and not share.rows:
                await self._fetch(share)
            if share.rows and (batch := await self._hand_out(share)):
                return batch
        return None

    async def _fetch(self, share: Share) -> None:
        reach, rewinds = share.reach, share.rewinds
        assert reach is not None
        most = max(1, self._reader.fetch_bytes // 2)
        try:
            rows = await fetch(
                self._reader.db,
                calls.fetch(
                    self.topic,
                    share.partition,
                    reach,
                    max_messages=max(self._reader.max_messages, 100_000),
                    max_bytes=most,
                    incarnation=share.seen_incarnation,
                ),
                share.archived,
            )
        except PositionTrimmed:
            self._rejoin_at = 0.0  # perhaps somebody answers it with a seek
            share.incarnation = None  # it is told now
            raise
        if (share.reach, share.rewinds) == (reach, rewinds):  # else it was rewound meanwhile
            share.add_rows(rows, asked_bytes=most)

    def _read_ahead(self, share: Share) -> None:
        room = share.waiting_bytes <= self._reader.fetch_bytes // 2
        if share.backlog and room and share.reach is not None and self._ahead is None:
            self._ahead = asyncio.create_task(
                self._fetch_ahead(share), name=f"read ahead {self.topic}/{share.partition}"
            )
            self._ahead_waits = True

    async def _fetch_ahead(self, share: Share) -> None:
        try:
            with suppress(TrunklineError):  # who polls asks again, and is told
                await self._fetch(share)
        finally:
            self._ahead = None

    async def _hand_out(self, share: Share) -> Batch | None:
        first = share.next_offset
        try:
            parts, last = share.cut(self._reader.max_messages)
        except BaseException:  # a damaged row: what was cut off with it is to be fetched again
            share.drop_rows()
            raise
        share.next_offset = last + 1
        share.incarnation = parts[-1].incarnation
        batch = Batch(
            self,
            share.partition,
            parts,
            first_offset=first,
            last_offset=last,
            token=share.epoch,
        )
        self._read_ahead(share)
        asyncio.get_running_loop().call_soon(share.decode_ahead, self._reader.max_messages)
        if not self._reader.at_most_once:
            return batch
        self._unsettled = batch
        return await self._settled_first()

    async def _settled_first(self) -> Batch | None:
        """The batch of an at-most-once group that is to be settled before anybody sees it.

        A poll that is cut short leaves it to the next. None when it is somebody else's by now, or
        of another life of the server: nobody has seen it.
        """
        batch = self._unsettled
        assert batch is not None
        try:
            await self.settle(batch, self._commit(batch), None)
        except (LeaseLost, PositionTrimmed):
            self._lost.pop(batch.partition, None)
            batch = None
        except Unavailable:
            raise
        except TrunklineError:
            self._unsettled = None
            raise
        self._unsettled = None
        return batch

    async def _rejoin(self) -> None:
        newcomer = self._group_news is None
        if self._group_news is None:
            self._group_news = await self._subscribe(self._group_key)
        try:
            rows = await self._reader.db.run(
                group_calls.join(
                    self.topic,
                    self.group,
                    self.process,
                    member=self._reader.member,
                    start=self._reader.start,
                )
            )
        except LeaseLost:
            await self._reader.lease.renew()
            return
        self._rejoin_at = time.monotonic() + _REJOIN_EVERY
        if newcomer:
            self._tell_group()
        for row in rows:
            await self._tell_history(row)
        before = set(self._shares)
        self._shares = {row.partition: self._share(row) for row in rows}
        if before != set(self._shares):
            self._turn = deque(sorted(self._shares))
            logger.debug("partitions", topic=self.topic, group=self.group, ours=self.assignment)
        await self._give_back()

    async def _tell_history(self, row: Assignment) -> None:
        """Raise if what was handed out of a partition that is given anew is not there any more."""
        share = self._lost.pop(row.partition, None) or self._shares.get(row.partition)
        if share is None or share.epoch == row.epoch:
            return
        self._shares.pop(row.partition, None)
        if share.incarnation is not None and share.next_offset - 1 > row.up_to:
            self._rejoin_at = 0.0
            await self._reader.db.run(
                calls.position_check(
                    self.topic, row.partition, share.next_offset, share.incarnation
                )
            )

    def _share(self, row: Assignment) -> Share:
        """The share that a row speaks of: the one that is there, if it is the same."""
        share = self._shares.get(row.partition)
        if share is None:
            share = Share(row.partition, row.epoch, row.up_to + 1, row.up_to)
        elif row.up_to >= share.next_offset:  # released, and yet committed
            share.done = max(share.done, row.up_to)
            share.rewind(row.up_to + 1)
        if not row.surplus:
            share.surplus_since = None
        elif share.surplus_since is None:
            share.surplus_since = time.monotonic()
        return share

    async def _give_back(self) -> None:
        """Return surplus partitions once what was handed out of them is settled."""
        now = time.monotonic()
        leaving = [
            share.partition
            for share in self._shares.values()
            if share.surplus_since is not None
            and (share.settled or now - share.surplus_since > _PATIENCE)
        ]
        if not leaving:
            return
        await self._reader.db.run(
            group_calls.leave(
                self.topic,
                self.group,
                self.process,
                member=self._reader.member,
                partitions=leaving,
            )
        )
        for partition in leaving:
            self._shares.pop(partition, None)
        self._turn = deque(sorted(self._shares))
        self._tell_group()

    async def _leave(self) -> None:
        if self._ahead is not None:
            self._ahead.cancel()
            await asyncio.wait({self._ahead})
        await self._reader.lease.leave(
            group_calls.leave(self.topic, self.group, self.process, member=self._reader.member)
        )
        self._tell_group()

    @property
    def _group_key(self) -> str:
        return f"log:{self.topic}:group:{self.group}"

    def _tell_group(self) -> None:
        self._reader.notifier.notify(self._group_key)

    def settlement(self, batch: Batch) -> Call[None] | None:
        return None if self._reader.at_most_once else self._commit(batch)

    def _commit(self, batch: Batch) -> Call[None]:
        return group_calls.commit(
            self.topic,
            self.group,
            batch.partition,
            batch.token,
            batch.last_offset,
            incarnation=batch.written_by(batch.last_offset),
        )

    def settled(self, batch: Batch) -> None:
        if share := self._share_of(batch):
            share.done = max(share.done, batch.last_offset)
            if share.surplus_since is not None and share.settled:
                self._rejoin_at = 0.0  # somebody waits for it

    def lost(self, batch: Batch, error: TrunklineError) -> None:
        if self._share_of(batch):
            share = self._shares.pop(batch.partition)
            if not isinstance(error, PositionTrimmed):  # which tells all
                self._lost[batch.partition] = share
        self._rejoin_at = 0.0

    def _share_of(self, batch: Batch) -> Share | None:
        share = self._shares.get(batch.partition)
        return share if share is not None and share.epoch == batch.token else None

    async def release(self, batch: Batch, reason: str | None, retry_after: float) -> None:
        share = None if self._reader.at_most_once else self._share_of(batch)
        if share is not None and batch.first_offset < share.next_offset:
            share.rewind(batch.first_offset)
            share.in_doubt = True

    async def extend(self, batch: Batch, deadline: timedelta) -> None:
        """Nothing to extend: the lease of the process is what counts."""
