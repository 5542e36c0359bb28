"""Consumers: members of an assigned group, and readers of a shared one.

Both fetch whole record batches, decode each once, and hand out windows of at most
``max_messages``, so small batches cost no further fetch. Memory is bounded whatever the backlog: in
an assigned group per partition by ``fetch_bytes`` as stored plus one record batch decoded, in a
shared one per partition by what was claimed, in whole record batches.

An idle consumer only reads: it is woken by the listener, and looks for itself every
``poll_interval`` seconds at the latest.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import deque
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self
from uuid import NAMESPACE_OID, UUID, uuid5

from trunkline.core import telemetry
from trunkline.core.backoff import Backoff
from trunkline.core.errors import (
    Conflict,
    Invalid,
    LeaseLost,
    NotFound,
    PositionTrimmed,
    TrunklineError,
    Unavailable,
)
from trunkline.log import calls
from trunkline.log.batches import DecodedBatch, StoredBatch, decode, pack
from trunkline.log.models import Assignment, Claim, Message, Start

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa

    from trunkline.core.calls import Call
    from trunkline.core.db import AsyncDb
    from trunkline.core.lease import ProcessLease
    from trunkline.core.listen import Listener, Notifier, Subscription
    from trunkline.log.models import Topic
    from trunkline.log.topics import Topics

logger = telemetry.get_logger(__name__)

_FIRST_WAIT = 0.005
_REJOIN_EVERY = 3.0  # seconds between two looks at who owns what
_PATIENCE = 30.0  # seconds that a surplus partition is kept for a commit that does not come


@dataclass(frozen=True, slots=True)
class Reader:
    """What every consumer needs, and how it should read."""

    db: AsyncDb
    topics: Topics
    lease: ProcessLease
    listener: Listener
    notifier: Notifier
    topic: str
    group: str
    member: str
    start: Start
    max_messages: int
    fetch_bytes: int
    poll_interval: float
    at_most_once: bool
    deadline: timedelta
    max_attempts: int


class Batch:
    """Messages of one partition in the order of their offsets."""

    def __init__(
        self,
        consumer: Consumer,
        partition: int,
        parts: list[DecodedBatch],
        *,
        first_offset: int,
        last_offset: int,
        attempts: int = 1,
        token: int,
    ):
        self.topic = consumer.topic
        self.partition = partition
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.attempts = attempts
        self._consumer = consumer
        self._parts = parts
        self.token = token

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def __repr__(self) -> str:
        return (
            f"Batch({self.topic}/{self.partition}, {self.first_offset}..{self.last_offset},"
            f" {len(self)} messages)"
        )

    @cached_property
    def messages(self) -> list[Message]:
        """Every message as a value of its own."""
        return [
            Message(self.topic, self.partition, offset, part.at, key, value, headers)
            for part in self._parts
            for offset, key, value, headers in zip(
                part.offsets, part.keys, part.values, part.headers, strict=True
            )
        ]

    @property
    def values(self) -> list[bytes | None]:
        """The values alone: quicker than `messages`."""
        return [value for part in self._parts for value in part.values]

    @property
    def offsets(self) -> list[int]:
        """The offsets alone."""
        return [offset for part in self._parts for offset in part.offsets]

    def to_arrow(self) -> pa.Table:
        """A table of offset, timestamp, key, value and headers; no message is copied."""
        import pyarrow as pa

        return pa.concat_tables([part.to_arrow() for part in self._parts])

    async def commit(self, *, on: psycopg.AsyncConnection[Any] | None = None) -> None:
        """Everything up to here is done; with ``on``, when that transaction commits.

        `LeaseLost` when somebody else took over: the effect must not count either.
        """
        call = self._consumer.settlement(self)
        if call is not None:
            await self._consumer.settle(self, call, on)

    async def release(self, *, reason: str | None = None, retry_after: float = 0) -> None:
        """Not done: deliver it again, after some seconds in a shared group."""
        await self._consumer.release(self, reason, retry_after)

    async def extend(self, deadline: timedelta) -> None:
        """More time, in a shared group; an assigned one needs none."""
        await self._consumer.extend(self, deadline)


class Consumer(ABC):
    """Reads a topic for a group: ``async for batch in consumer``, or `poll`."""

    def __init__(self, reader: Reader):
        for name, value in (
            ("max_messages", reader.max_messages),
            ("fetch_bytes", reader.fetch_bytes),
            ("max_attempts", reader.max_attempts),
        ):
            if value < 1:
                raise Invalid(f"{name} must be at least 1, got {value}.")
        if reader.deadline <= timedelta(0):
            raise Invalid(f"a deadline must be positive, got {reader.deadline}.")
        if reader.poll_interval <= 0:
            raise Invalid(f"poll_interval must be positive, got {reader.poll_interval}.")
        self.topic = reader.topic
        self.group = reader.group
        self._reader = reader
        self._process: UUID | None = None
        self._held = AsyncExitStack()
        self._subscription: Subscription | None = None
        self._polling = asyncio.Lock()
        self._topic_id: int | None = None
        self.closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        batch = await self.poll()
        if batch is None:
            raise StopAsyncIteration
        return batch

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def poll(self, timeout: float | None = None) -> Batch | None:
        """The next batch; None when ``timeout`` seconds brought none, or after `close`."""
        longest = self._reader.poll_interval
        give_up = None if timeout is None else time.monotonic() + timeout
        idle = Backoff(first=min(_FIRST_WAIT, longest), longest=longest, jitter=0.1)
        away = Backoff(first=0.1, longest=5.0)
        while not self.closed:
            async with self._polling:
                subscription = await self._open()
                try:
                    batch = None if self.closed else await self._next_of(await self._same_topic())
                    wait = idle.next()
                    away.reset()
                except NotFound:
                    self._reader.topics.forget(self.topic)
                    raise
                except Unavailable as error:
                    logger.warning("server away, waiting", topic=self.topic, error=str(error))
                    batch, wait = None, away.next()
            if batch is not None:
                telemetry.counter("log_consumed_messages", topic=self.topic, group=self.group).inc(
                    len(batch)
                )
                return batch
            if give_up is not None:
                rest = give_up - time.monotonic()
                if rest <= 0:
                    return None
                wait = min(wait, rest)
            await subscription.wait(wait)
        return None

    async def close(self) -> None:
        """Leave: others take over at once. Safe to call twice."""
        if self.closed:
            return
        self.closed = True
        if self._subscription is not None:
            self._subscription.wake()
        async with self._polling:  # or a poll under way would join again after we left
            if self._subscription is not None:
                with suppress(TrunklineError):
                    await self._leave()
            await self._held.aclose()

    async def _open(self) -> Subscription:
        if self._subscription is None:
            await self._reader.topics.get(self.topic)
            self._process = await self._reader.lease.hold()
            self._subscription = await self._subscribe(f"log:{self.topic}:")
        return self._subscription

    async def _same_topic(self) -> Topic:
        """The topic; if it was deleted and made anew, nothing of the old one is kept."""
        topic = (await self._reader.topics.get(self.topic)).topic
        if topic.topic_id != self._topic_id:
            self._topic_id = topic.topic_id
            self._forget()
        return topic

    async def _subscribe(self, prefix: str) -> Subscription:
        return await self._held.enter_async_context(self._reader.listener.subscribe(prefix))

    @property
    def assignment(self) -> list[int]:
        """The partitions that this consumer owns now; none in a shared group, which reads all."""
        return []

    @property
    def process(self) -> UUID:
        """The process that this consumer reads for, once it reads."""
        assert self._process is not None
        return self._process

    @abstractmethod
    async def _next_of(self, topic: Topic) -> Batch | None: ...

    @abstractmethod
    def _forget(self) -> None: ...

    @abstractmethod
    async def _leave(self) -> None: ...

    @abstractmethod
    def settlement(self, batch: Batch) -> Call[None] | None:
        """What settles a batch; None when it was settled before it was handed out."""

    async def settle(
        self, batch: Batch, call: Call[None], on: psycopg.AsyncConnection[Any] | None
    ) -> None:
        """Run a settlement; called by the batch."""
        try:
            await self._reader.db.run(call, on=on)
        except LeaseLost:
            self.lost(batch)
            raise
        self.settled(batch)

    def settled(self, batch: Batch) -> None:
        """A batch was settled."""

    def lost(self, batch: Batch) -> None:
        """A batch turned out to be somebody else's."""

    @abstractmethod
    async def release(self, batch: Batch, reason: str | None, retry_after: float) -> None:
        """Give a batch back; called by it."""

    @abstractmethod
    async def extend(self, batch: Batch, deadline: timedelta) -> None:
        """Ask for more time for a batch; called by it."""


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

    @property
    def settled(self) -> bool:
        """Nothing that was handed out waits for its commit."""
        return self.done >= self.next_offset - 1

    def rewind(self, offset: int) -> None:
        """Go on from another offset."""
        self.next_offset = offset
        self.rows.clear()
        self.incarnation = None
        self.maybe_ready = True


class AssignedConsumer(Consumer):
    """A member of an assigned group: whole partitions, each in order, fenced by epochs."""

    def __init__(self, reader: Reader):
        super().__init__(reader)
        self._shares: dict[int, Share] = {}
        self._turn: deque[int] = deque()
        self._rejoin_at = 0.0
        self._group_news: Subscription | None = None

    @property
    def assignment(self) -> list[int]:
        """The partitions that this consumer reads now."""
        return sorted(self._shares)

    def _forget(self) -> None:
        self._shares.clear()
        self._rejoin_at = 0.0

    async def _next_of(self, topic: Topic) -> Batch | None:
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
                calls.commit(self.topic, self.group, share.partition, share.epoch, 0)
            )
        share.in_doubt = False

    def _readable(self) -> list[Share]:
        return [share for share in self._shares.values() if share.surplus_since is None]

    async def _next_ready(self) -> Batch | None:
        for _ in range(len(self._turn)):
            self._turn.rotate(-1)
            share = self._shares.get(self._turn[0])
            if share is None or share.surplus_since is not None or not share.maybe_ready:
                continue
            if not share.rows:
                await self._fetch(share)
            if share.rows:
                with suppress(LeaseLost):  # of an at-most-once group: it is not ours to hand out
                    return await self._hand_out(share)
        return None

    async def _fetch(self, share: Share) -> None:
        asked_for = share.next_offset
        try:
            rows = await self._reader.db.run(
                calls.fetch(
                    self.topic,
                    share.partition,
                    asked_for,
                    max_messages=max(self._reader.max_messages, 100_000),
                    max_bytes=self._reader.fetch_bytes,
                    incarnation=share.incarnation,
                )
            )
        except PositionTrimmed:
            self._rejoin_at = 0.0  # perhaps somebody answers it with a seek
            raise
        if share.next_offset == asked_for:  # else a batch was released meanwhile
            share.rows.extend(rows)
            share.maybe_ready = bool(rows)

    async def _hand_out(self, share: Share) -> Batch:
        first = share.next_offset
        try:
            parts, last = _cut(share.rows, self._reader.max_messages)
        except BaseException:  # a damaged row: what was cut off with it is to be fetched again
            share.rows.clear()
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
        if self._reader.at_most_once:
            await self.settle(batch, self._commit(batch), None)
        return batch

    async def _rejoin(self) -> None:
        newcomer = self._group_news is None
        if self._group_news is None:
            self._group_news = await self._subscribe(self._group_key)
        try:
            rows = await self._reader.db.run(
                calls.join(
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
        before = set(self._shares)
        self._shares = {row.partition: self._share(row) for row in rows}
        if before != set(self._shares):
            self._turn = deque(sorted(self._shares))
            logger.debug("partitions", topic=self.topic, group=self.group, ours=self.assignment)
        await self._give_back()

    def _share(self, row: Assignment) -> Share:
        """The share that a row speaks of: the one that is there, if it is the same."""
        share = self._shares.get(row.partition)
        if share is None or share.epoch != row.epoch:
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
            calls.leave(
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
        await self._reader.db.run(
            calls.leave(self.topic, self.group, self.process, member=self._reader.member)
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
        return calls.commit(self.topic, self.group, batch.partition, batch.token, batch.last_offset)

    def settled(self, batch: Batch) -> None:
        if share := self._share_of(batch):
            share.done = max(share.done, batch.last_offset)
            if share.surplus_since is not None and share.settled:
                self._rejoin_at = 0.0  # somebody waits for it

    def lost(self, batch: Batch) -> None:
        if self._share_of(batch):
            del self._shares[batch.partition]
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
        self._turn = 0
        self._held_claim: HeldClaim | None = None
        self._cache: dict[int, deque[DecodedBatch]] = {}
        self._previous: dict[int, int] = {}

    async def _next_of(self, topic: Topic) -> Batch | None:
        if batch := await self._take_up():
            return batch
        for _ in range(topic.partitions):
            partition = self._turn % topic.partitions
            self._turn += 1
            while claim := await self._claim(partition):
                until = time.monotonic() + self._reader.deadline.total_seconds()
                self._held_claim = HeldClaim(partition, claim, until)
                if batch := await self._take_up():
                    return batch
        return None

    async def _take_up(self) -> Batch | None:
        """Hand out the claim that is held: a new one, or one that a poll cut short left behind."""
        held = self._held_claim
        if held is None or (held.until < time.monotonic() and not self._reader.at_most_once):
            return None
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
        self._cache.clear()

    async def _batch_of(self, partition: int, claim: Claim) -> Batch | None:
        """A claim as a batch; None when it was a dead letter, or compaction has emptied it."""
        if claim.attempts > self._reader.max_attempts:
            await self._bury(partition, claim)
            parts = []
        else:
            parts = await self._read(partition, claim)
        if not parts and not self._reader.at_most_once:
            with suppress(LeaseLost):  # it took too long, and somebody else does the same
                await self._reader.db.run(calls.ack(self.topic, self.group, partition, claim.claim))
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

    async def _claim(self, partition: int) -> Claim | None:
        reader = self._reader
        claims = await reader.db.run(
            calls.claim(
                self.topic,
                self.group,
                partition,
                max_messages=reader.max_messages,
                deadline=None if reader.at_most_once else reader.deadline,
                max_attempts=reader.max_attempts,
                process=self.process,
                start=reader.start,
            )
        )
        return claims[0] if claims else None

    async def _read(self, partition: int, claim: Claim) -> list[DecodedBatch]:
        """The claimed messages, out of batches that are decoded already where possible."""
        cache = self._cache.setdefault(partition, deque())
        if claim.first_offset <= self._previous.get(partition, 0):
            cache.clear()  # it went back: perhaps these offsets hold something else by now
        self._previous[partition] = claim.last_offset
        while cache and cache[0].last_offset < claim.first_offset:
            cache.popleft()
        reach = cache[-1].last_offset + 1 if cache else claim.first_offset
        while reach <= claim.last_offset:
            rows = await self._reader.db.run(
                calls.fetch(
                    self.topic,
                    partition,
                    reach,
                    max_messages=claim.last_offset - reach + 1,
                    max_bytes=self._reader.fetch_bytes,
                )
            )
            if not rows:
                break
            cache.extend(whole.window(0, whole.n) for whole in map(decode, rows))
            reach = cache[-1].last_offset + 1
        return [
            part for row in cache if (part := _between(row, claim.first_offset, claim.last_offset))
        ]

    async def _bury(self, partition: int, claim: Claim) -> None:
        """Move messages that failed too often to ``<topic>.dead``, each with its reason."""
        dead = f"{self.topic}.dead"
        with suppress(Conflict):  # it is there, with settings of somebody's choice
            await self._reader.db.run(calls.create(dead))
        topic_id = (await self._reader.db.run(calls.settings(self.topic))).topic_id
        for part in await self._read(partition, claim):
            for offset, key, value, headers in zip(
                part.offsets, part.keys, part.values, part.headers, strict=True
            ):
                origin = f"{topic_id}/{self.group}/{partition}/{offset}"
                about = {
                    "topic": self.topic,
                    "group": self.group,
                    "partition": partition,
                    "offset": offset,
                    "attempts": claim.attempts - 1,
                    "reason": claim.reason or "its consumer did not acknowledge it in time",
                }
                batch = pack(
                    [b"" if value is None else value],
                    keys=[key],
                    headers=[{**(headers or {}), "dead": about}],
                )
                # the id is made of the origin: burying twice buries once
                await self._reader.db.run(
                    calls.append_batch(
                        dead, 0, batch, producer_id=uuid5(NAMESPACE_OID, origin), producer_seq=1
                    )
                )
                logger.warning("dead letter", **about)

    async def _leave(self) -> None:
        held, at_most_once = self._held_claim, self._reader.at_most_once
        self._forget()
        if held is not None and not at_most_once:
            await self._reader.db.run(
                calls.release(self.topic, self.group, held.partition, held.claim.claim)
            )

    def settlement(self, batch: Batch) -> Call[None] | None:
        if self._reader.at_most_once:
            return None
        return calls.ack(self.topic, self.group, batch.partition, batch.token)

    async def release(self, batch: Batch, reason: str | None, retry_after: float) -> None:
        if self._reader.at_most_once:
            return
        await self._reader.db.run(
            calls.release(
                self.topic,
                self.group,
                batch.partition,
                batch.token,
                retry_after=timedelta(seconds=retry_after),
                reason=reason,
            )
        )

    async def extend(self, batch: Batch, deadline: timedelta) -> None:
        await self._reader.db.run(
            calls.extend(self.topic, self.group, batch.partition, batch.token, deadline)
        )


def _cut(rows: deque[StoredBatch | DecodedBatch], most: int) -> tuple[list[DecodedBatch], int]:
    """Take up to ``most`` messages off the front; the parts, and the last offset they cover."""
    parts: list[DecodedBatch] = []
    last = 0
    while rows and most > 0:
        front = rows.popleft()
        row = decode(front) if isinstance(front, StoredBatch) else front
        if len(row) > most:
            parts.append(row.window(row.skip, most))
            rows.appendleft(row.window(row.skip + most, len(row) - most))
            last = parts[-1].offsets[-1]
            break
        parts.append(row)
        most -= len(row)
        last = row.last_offset if row.skip + row.take == row.n else row.offsets[-1]
    return parts, last


def _between(row: DecodedBatch, first: int, last: int) -> DecodedBatch | None:
    """The window of a whole row that lies between two offsets, or None when it is empty."""
    if first <= row.base_offset and row.last_offset <= last:
        return row if len(row) else None
    offsets = row.offsets
    begin = bisect_left(offsets, first)
    end = bisect_left(offsets, last + 1)
    return row.window(begin, end - begin) if end > begin else None
