"""`Consumer` and `Batch`: what members of an assigned group and readers of a shared one share.

Both fetch whole record batches, decode each once, and hand out windows of at most
``max_messages``, so small batches cost no further fetch. Memory is bounded whatever the backlog: in
an assigned group per partition by ``fetch_bytes`` as stored plus what is handed out next decoded,
in a shared one per partition by what was claimed; both in whole record batches. Batches that are
to be committed soon come on top: sixteen at most, then a poll waits for one of them.

An idle consumer only reads: it is woken by the listener, and looks for itself every
``poll_interval`` seconds at the latest.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Self, SupportsFloat, SupportsIndex

from trunkline.core import telemetry
from trunkline.core.arguments import checked
from trunkline.core.backoff import Backoff
from trunkline.core.errors import (
    Invalid,
    LeaseLost,
    NotFound,
    PositionTrimmed,
    TrunklineError,
    Unavailable,
)
from trunkline.core.extras import needed_for
from trunkline.core.lease import GOODBYE_WITHIN
from trunkline.log.settling import Settling

if TYPE_CHECKING:
    from uuid import UUID

    import psycopg
    import pyarrow as pa

    from trunkline.core.calls import Call
    from trunkline.core.db import AsyncDb
    from trunkline.core.lease import ProcessLease
    from trunkline.core.listen import Listener, Notifier, Subscription
    from trunkline.log.decoding import DecodedBatch
    from trunkline.log.models import Message, Start, Topic
    from trunkline.log.topics import Topics

logger = telemetry.get_logger(__name__)

_FIRST_WAIT = 0.005


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
        found = (part.messages(self.topic, self.partition) for part in self._parts)
        return [*chain.from_iterable(found)]

    @property
    def values(self) -> list[bytes | None]:
        """The values alone: quicker than `messages`."""
        return [*chain.from_iterable(part.values for part in self._parts)]

    @property
    def offsets(self) -> list[int]:
        """The offsets alone."""
        return [*chain.from_iterable(part.offsets for part in self._parts)]

    def to_arrow(self) -> pa.Table:
        """A table of offset, timestamp, key, value and headers; no message is copied."""
        with needed_for("to_arrow()", "arrow"):
            from trunkline.log import arrow

        return arrow.table(self._parts)

    @checked
    def written_by(self, offset: int) -> int:
        """The incarnation of the server that wrote what stands at an offset of this batch."""
        for part in reversed(self._parts):
            if part.base_offset <= offset:
                return part.incarnation
        raise Invalid(f"offset {offset} is before those of this batch.")

    async def commit(self, *, on: psycopg.AsyncConnection[Any] | None = None) -> None:
        """Everything up to here is done; with ``on``, when that transaction commits.

        `LeaseLost` when somebody else took over, `PositionTrimmed` when the server that gave it is
        gone and its successor lacks it: the effect must not count either.
        """
        call = self._consumer.settlement(self)
        if call is not None:
            await self._consumer.settle(self, call, on)

    def commit_soon(self) -> None:
        """Everything up to here is done, and committed while you go on; `Consumer.flush` waits.

        Until then a crash delivers it again, as if it were not done. When it is refused because
        somebody else took over, `flush` and the log tell so.
        """
        self._consumer.settle_soon(self)

    @checked
    async def release(self, *, reason: str | None = None, retry_after: float = 0) -> None:
        """Not done: deliver it again, after some seconds in a shared group."""
        await self._consumer.release(self, reason, retry_after)

    @checked
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
            if not isinstance(value, SupportsIndex) or value < 1:
                raise Invalid(f"{name} must be a whole number of at least 1, got {value!r}.")
        if not isinstance(reader.deadline, timedelta):
            raise Invalid(
                f"a deadline is a timedelta, got {reader.deadline!r}.",
                hint="For example timedelta(seconds=30).",
            )
        if reader.deadline <= timedelta(0):
            raise Invalid(f"a deadline must be positive, got {reader.deadline}.")
        interval = reader.poll_interval
        if not isinstance(interval, SupportsFloat) or not interval > 0:  # nor NaN
            raise Invalid(f"poll_interval must be a positive number of seconds, got {interval!r}.")
        self.topic = reader.topic
        self.group = reader.group
        self._reader = reader
        self._process: UUID | None = None
        self._held = AsyncExitStack()
        self._subscription: Subscription | None = None
        self._polling = asyncio.Lock()
        self._topic_id: int | None = None
        self._soon = Settling(room=self._wake)
        self._goodbye: asyncio.Task[None] | None = None
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

    @checked
    async def poll(self, timeout: float | None = None) -> Batch | None:
        """The next batch; None when ``timeout`` seconds brought none, or after `close`."""
        longest = self._reader.poll_interval
        give_up = None if timeout is None else time.monotonic() + float(timeout)
        idle = Backoff(first=min(_FIRST_WAIT, longest), longest=longest, jitter=0.1)
        away = Backoff(first=0.1, longest=5.0)
        while not self.closed:
            async with self._polling:
                subscription = await self._open()
                try:
                    idle_now = self.closed or self._soon.crowded
                    batch = None if idle_now else await self._next_of(await self._same_topic())
                    wait = idle.next()
                    away.reset()
                except NotFound:
                    self._reader.topics.forget(self.topic)
                    raise
                except Unavailable as error:
                    logger.warning("server away, waiting", topic=self.topic, error=str(error))
                    self._count("log_failed_polls")
                    batch, wait = None, away.next()
                else:
                    self._count("log_empty_polls" if batch is None else "log_consumed_batches")
            if batch is not None:
                self._count("log_consumed_messages", len(batch))
                return batch
            if give_up is not None:
                rest = give_up - time.monotonic()
                if rest <= 0:
                    return None
                wait = min(wait, rest)
            await subscription.wait(wait)
        return None

    def _count(self, what: str, n: int = 1) -> None:
        telemetry.counter(what, topic=self.topic, group=self.group).inc(n)

    async def flush(self) -> None:
        """Wait until what was left to `Batch.commit_soon` is durable; raises what was refused."""
        await self._soon.flush()

    async def close(self) -> None:
        """Leave: others take over at once. Safe to call twice. Commits first what is done."""
        self.closed = True
        if self._goodbye is None:
            self._wake()
            self._goodbye = asyncio.create_task(self._say_goodbye(), name=f"leave {self.topic}")
        await asyncio.shield(self._goodbye)  # who stops waiting does not keep it from being said

    async def _say_goodbye(self) -> None:
        async with self._polling:  # or a poll under way would join again after we left
            await self._soon.close(GOODBYE_WITHIN)
            if self._subscription is not None:
                with suppress(TrunklineError, TimeoutError):
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
        except (LeaseLost, PositionTrimmed) as error:
            self.lost(batch, error)
            raise
        self.settled(batch)

    def settle_soon(self, batch: Batch) -> None:
        """Settle a batch while the caller goes on; called by it."""
        if self.closed:
            raise LeaseLost("the consumer is closed: what it did not commit comes again.")
        if self.settlement(batch) is not None:
            self._soon.add(batch)

    def _wake(self) -> None:
        if self._subscription is not None:
            self._subscription.wake()

    def settled(self, batch: Batch) -> None:
        """A batch was settled."""

    def lost(self, batch: Batch, error: TrunklineError) -> None:
        """A batch turned out to be somebody else's, or of another history."""

    @abstractmethod
    async def release(self, batch: Batch, reason: str | None, retry_after: float) -> None:
        """Give a batch back; called by it."""

    @abstractmethod
    async def extend(self, batch: Batch, deadline: timedelta) -> None:
        """Ask for more time for a batch; called by it."""
