"""`SharedConsumer`: many readers claim ranges of a partition; what keeps failing is buried."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from trunkline.core.errors import (
    Invalid,
    LeaseLost,
    TrunklineError,
    Unavailable,
)
from trunkline.core.lease import GOODBYE_WITHIN
from trunkline.log import calls, group_calls
from trunkline.log.archived import ArchivedReader, can_read, fetch
from trunkline.log.burying import bury
from trunkline.log.consumer import Batch, Consumer, Reader
from trunkline.log.decoding import DecodedBatch, decode

if TYPE_CHECKING:
    from collections.abc import Iterable

    import psycopg

    from trunkline.core.calls import Call
    from trunkline.log.models import Claim, Message, Topic


@dataclass(frozen=True, slots=True)
class HeldClaim:
    """A claim that is not yet handed out."""

    partition: int
    claim: Claim
    until: float


class SharedConsumer(Consumer):
    """One of many readers of a shared group: claims of ranges, acknowledged one by one."""

    def __init__(self, reader: Reader):
        super().__init__(reader)
        self._last = -1  # the partition that was tried last
        self._round: deque[int] = deque()  # those to try next
        self._everywhere = True  # all partitions are worth a try, as far as we know
        self._held_claim: HeldClaim | None = None
        self._claiming: asyncio.Task[HeldClaim | None] | None = None
        self._cache: dict[int, deque[DecodedBatch]] = {}
        self._archived: dict[int, ArchivedReader] = {}
        self._previous: dict[int, int] = {}
        self._history: tuple[int, int] | None = None
        self._settling: WeakKeyDictionary[Batch, asyncio.Task[None]] = WeakKeyDictionary()

    async def _next_of(self, topic: Topic) -> Batch | None:
        held = await self._left_behind() or self._still_held()
        if held and (batch := await self._hand_out(held)):
            return batch
        if not self._round and self._everywhere:
            self._round.extend(self._in_turn(range(topic.partitions), topic))
        while self._round:
            if batch := await self._next_in(self._round.popleft()):
                return batch
            if self._everywhere:
                break
        if topic.partitions == 1:
            return None
        found = await self._reader.db.run(group_calls.claimable(self.topic, self.group))
        self._everywhere = len(found) == topic.partitions
        self._round = deque(self._in_turn(found, topic))
        while self._round:
            if batch := await self._next_in(self._round.popleft()):
                return batch
        return None

    def _in_turn(self, partitions: Iterable[int], topic: Topic) -> list[int]:
        """In order, beginning after the one that was tried last."""
        return sorted(partitions, key=lambda n: (n - self._last - 1) % topic.partitions)

    async def _next_in(self, partition: int) -> Batch | None:
        self._last = partition
        while claimed := await self._claim(partition):
            if batch := await self._hand_out(claimed):
                return batch
        return None

    async def _left_behind(self) -> HeldClaim | None:
        """What a poll that was cut short was about to claim."""
        return None if self._claiming is None else await self._claimed(self._claiming)

    def _still_held(self) -> HeldClaim | None:
        held = self._held_claim
        if held is None or self._reader.at_most_once or held.until >= time.monotonic():
            return held
        return None

    async def _hand_out(self, held: HeldClaim) -> Batch | None:
        """Hand out a claim: a new one, or one that a poll cut short left behind."""
        self._held_claim = held
        try:
            batch = await self._batch_of(held.partition, held.claim)
        except Unavailable:
            raise
        except TrunklineError:
            self._forget()
            raise
        self._held_claim = None
        return batch

    def _forget(self) -> None:
        self._held_claim = None
        if self._claiming is not None:
            self._claiming.cancel()
            self._claiming = None
        self._round.clear()
        self._everywhere = True
        self._cache.clear()
        self._archived.clear()

    async def _batch_of(self, partition: int, claim: Claim) -> Batch | None:
        """A claim as a batch; None when it was a dead letter, or compaction has emptied it."""
        at_most_once = self._reader.at_most_once  # then it is done already, and given all the same
        if claim.attempts > self._reader.max_attempts and not at_most_once:

            async def read() -> list[Message]:
                found = await self._read(partition, claim)
                return [message for part in found for message in part.messages(topic, partition)]

            topic, group = self.topic, self.group
            await bury(self._reader.db, topic, group, partition, claim, read)
            return None
        parts = await self._read(partition, claim)
        if not parts and not at_most_once:
            with suppress(LeaseLost):  # it took too long, and somebody else does the same
                await self._reader.db.run(
                    group_calls.ack(self.topic, self.group, partition, claim.claim)
                )
        if not parts:
            return None
        return Batch(
            self,
            partition,
            parts,
            first_offset=claim.first_offset,
            last_offset=claim.last_offset,
            attempts=claim.attempts,
            token=claim.claim,
        )

    async def _claim(self, partition: int) -> HeldClaim | None:
        """Claim what comes next."""
        self._claiming = asyncio.create_task(self._ask(partition), name=f"claim {self.topic}")
        return await self._claimed(self._claiming)

    async def _claimed(self, claiming: asyncio.Task[HeldClaim | None]) -> HeldClaim | None:
        """Wait for a claim under way; who is cancelled meanwhile leaves it to the next poll."""
        try:
            held = await asyncio.shield(claiming)
        except asyncio.CancelledError:
            if claiming.cancelled():
                self._claiming = None
            raise
        except BaseException:
            self._claiming = None
            raise
        self._claiming = None
        return held

    async def _ask(self, partition: int) -> HeldClaim | None:
        reader = self._reader
        claims = await reader.db.run(
            group_calls.claim(
                self.topic,
                self.group,
                partition,
                max_messages=reader.max_messages,
                deadline=None if reader.at_most_once else reader.deadline,
                max_attempts=reader.max_attempts,
                process=self.process,
                start=reader.start,
                archived=can_read(),
            )
        )
        until = time.monotonic() + reader.deadline.total_seconds()
        return HeldClaim(partition, claims[0], until) if claims else None

    async def _read(self, partition: int, claim: Claim) -> list[DecodedBatch]:
        """The claimed messages, out of batches that are decoded already where possible."""
        cache = self._cache.setdefault(partition, deque())
        if claim.first_offset <= self._previous.get(partition, 0):
            cache.clear()  # it went back: perhaps these offsets hold something else by now
        self._previous[partition] = claim.last_offset
        while cache and cache[0].last_offset < claim.first_offset:
            cache.popleft()
        if cache or self._history is None:
            await self._keep_to_history()
        reach = cache[-1].last_offset + 1 if cache else claim.first_offset
        while reach <= claim.last_offset:
            rows = await fetch(
                self._reader.db,
                calls.fetch(
                    self.topic,
                    partition,
                    reach,
                    max_messages=claim.last_offset - reach + 1,
                    max_bytes=self._reader.fetch_bytes,
                ),
                self._archived.setdefault(partition, ArchivedReader()),
            )
            if not rows:
                break
            cache.extend(whole.window(0, whole.n) for whole in map(decode, rows))
            reach = cache[-1].last_offset + 1
        return [
            part for row in cache if (part := _between(row, claim.first_offset, claim.last_offset))
        ]

    async def _keep_to_history(self) -> None:
        """Forget what was decoded when its offsets may hold something else by now.

        Others can make the topic anew, and the server may fail over to a standby that lagged
        behind. What is remembered of topics may be older than the claim.
        """
        history = await self._reader.db.run(calls.history(self.topic))
        if history != self._history:
            for cache in self._cache.values():
                cache.clear()
        self._history = history

    async def _leave(self) -> None:
        at_most_once = self._reader.at_most_once
        async with asyncio.timeout(GOODBYE_WITHIN):  # or it comes back when its time is over
            held = await self._left_behind() or self._held_claim
            self._forget()
            if held is not None and not at_most_once:
                await self._reader.db.run(
                    group_calls.release(self.topic, self.group, held.partition, held.claim.claim)
                )
            if settling := set(self._settling.values()):
                await asyncio.wait(settling)

    def settlement(self, batch: Batch) -> Call[None] | None:
        if self._reader.at_most_once:
            return None
        return group_calls.ack(self.topic, self.group, batch.partition, batch.token)

    async def settle(
        self, batch: Batch, call: Call[None], on: psycopg.AsyncConnection[Any] | None
    ) -> None:
        """Who is cancelled meanwhile may ask again, and hears how it went.

        The server would refuse a second time what has taken effect.
        """
        if on is not None:
            await super().settle(batch, call, on)
            return
        settling = self._settling.get(batch)
        if settling is None:
            settling = asyncio.create_task(super().settle(batch, call, None))
            settling.add_done_callback(_heard)
            self._settling[batch] = settling
        await asyncio.wait({settling})
        self._settling.pop(batch, None)
        settling.result()

    async def release(self, batch: Batch, reason: str | None, retry_after: float) -> None:
        if self._reader.at_most_once:
            return
        await self._reader.db.run(
            group_calls.release(
                self.topic,
                self.group,
                batch.partition,
                batch.token,
                retry_after=_seconds(retry_after),
                reason=reason,
            )
        )

    async def extend(self, batch: Batch, deadline: timedelta) -> None:
        if self._reader.at_most_once:
            return
        await self._reader.db.run(
            group_calls.extend(self.topic, self.group, batch.partition, batch.token, deadline)
        )


def _heard(task: asyncio.Task[None]) -> None:
    """Nobody needs to ask again how it went."""
    if not task.cancelled():
        task.exception()


def _seconds(retry_after: float) -> timedelta:
    try:
        return timedelta(seconds=retry_after)
    except OverflowError:
        raise Invalid(
            f"retry_after is longer than times can be, got {retry_after} seconds."
        ) from None


def _between(row: DecodedBatch, first: int, last: int) -> DecodedBatch | None:
    """The window of a whole row that lies between two offsets, or None when it is empty."""
    if first <= row.base_offset and row.last_offset <= last:
        return row if len(row) else None
    offsets = row.offsets
    begin = bisect_left(offsets, first)
    end = bisect_left(offsets, last + 1)
    return row.window(begin, end - begin) if end > begin else None
