"""`Log` and `SyncLog`: the log's functions as methods, one line per call."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from trunkline.core.calls import AsyncFace, SyncFace, awaited, blocking
from trunkline.core.errors import BadRequest, Invalid, LeaseLost
from trunkline.log import calls, group_calls
from trunkline.log.archived import ArchivedReader, fetch, fetch_blocking
from trunkline.log.assigned import AssignedConsumer
from trunkline.log.consumer import Batch, Consumer, Reader
from trunkline.log.decoding import decode
from trunkline.log.models import Appended, Delivery, Message, Mode, Start
from trunkline.log.producer import Producer
from trunkline.log.shared import SharedConsumer
from trunkline.log.topics import Topics

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    import psycopg
    import pyarrow as pa

    from trunkline.core.calls import Call
    from trunkline.core.db import AsyncDb, Db
    from trunkline.core.lease import ProcessLease
    from trunkline.core.listen import Listener, Notifier
    from trunkline.core.portal import Portal
    from trunkline.log.batches import StoredBatch


_MODES = frozenset(Mode)
_DELIVERIES = frozenset(Delivery)

Receipts = list[Appended]  # the name `list` is a method below


class Log(AsyncFace):
    """Topics of messages with gapless offsets, and groups that consume them."""

    def __init__(self, db: AsyncDb, *, lease: ProcessLease, listener: Listener, notifier: Notifier):
        self._db = db
        self._lease = lease
        self._listener = listener
        self._notifier = notifier
        self._topics = Topics(db)
        self._appender = Producer(db, self._topics, notifier)
        self._opened: set[Consumer | Producer] = set()
        self._members = 0

    create = awaited(calls.create)
    alter = awaited(calls.alter)
    delete = awaited(calls.delete)
    list = awaited(calls.list_topics)
    describe = awaited(calls.describe)
    offset_at = awaited(calls.offset_at)
    seek = awaited(group_calls.seek)
    groups = awaited(group_calls.groups)
    lag = awaited(group_calls.lag)
    delete_group = awaited(group_calls.delete_group)
    trim = awaited(calls.trim)
    compact = awaited(calls.compact)
    verify = awaited(calls.verify)
    archivable = awaited(calls.archivable)
    archives = awaited(calls.archives)
    archive_add = awaited(calls.archive_add)

    async def append(
        self,
        topic: str,
        messages: Any,
        *,
        keys: Any = None,
        headers: Any = None,
        partition: int | None = None,
        codec: str | None = None,
        on: psycopg.AsyncConnection[Any] | None = None,
    ) -> Receipts:
        """Append messages and wait until they are durable; one answer per partition.

        ``messages`` is one message (bytes or text), a list of them, of `Outgoing`, or Arrow: an
        array of values, or a table with columns ``value``, ``key`` and ``headers``. A key chooses
        the partition; messages without one go together. Each partition's share is stored whole or
        not at all, in order, and once, however often the connection breaks. Concurrent calls share
        commits.
        """
        if on is not None:
            _refuse_transaction()
        return await self._appender.append(
            topic, messages, keys=keys, headers=headers, partition=partition, codec=codec
        )

    def producer(
        self,
        topic: str | None = None,
        *,
        linger: float = 0.005,
        batch_messages: int = 5_000,
        batch_bytes: int = 1 << 20,
        in_flight_bytes: int = 64 << 20,
        codec: str | None = None,
        idempotent: bool = True,
    ) -> Producer:
        """A `Producer` that sends in the background, with back-pressure."""
        producer = Producer(
            self._db,
            self._topics,
            self._notifier,
            topic=topic,
            linger=linger,
            batch_messages=batch_messages,
            batch_bytes=batch_bytes,
            in_flight_bytes=in_flight_bytes,
            codec=codec,
            idempotent=idempotent,
        )
        self._remember(producer)
        return producer

    def consume(
        self,
        topic: str,
        group: str,
        *,
        mode: str = Mode.ASSIGNED,
        delivery: str = Delivery.AT_LEAST_ONCE,
        start: Start = "earliest",
        max_messages: int = 1_000,
        deadline: timedelta = timedelta(minutes=1),
        max_attempts: int = 5,
        fetch_bytes: int = 4 << 20,
        poll_interval: float = 0.25,
    ) -> Consumer:
        """Read a topic for a group: ``async for batch in tl.log.consume("orders", "billing")``.

        *assigned*: partitions are shared out among the group's members, each read in order.
        *shared*: many readers claim ranges of every partition; a claim that is not committed
        before its ``deadline`` comes back, and after ``max_attempts`` its messages go to
        ``<topic>.dead``. ``start`` counts when the group is new.
        """
        kinds = {Mode.ASSIGNED: AssignedConsumer, Mode.SHARED: SharedConsumer}
        if mode not in _MODES or delivery not in _DELIVERIES:
            raise Invalid(
                f'mode is "assigned" or "shared", delivery "at-least-once" or "at-most-once";'
                f' got "{mode}" and "{delivery}".'
            )
        self._members += 1
        consumer: Consumer = kinds[Mode(mode)](
            Reader(
                db=self._db,
                topics=self._topics,
                lease=self._lease,
                listener=self._listener,
                notifier=self._notifier,
                topic=topic,
                group=group,
                member=str(self._members),
                start=start,
                max_messages=max_messages,
                fetch_bytes=fetch_bytes,
                poll_interval=poll_interval,
                at_most_once=delivery == Delivery.AT_MOST_ONCE,
                deadline=deadline,
                max_attempts=max_attempts,
            )
        )
        self._remember(consumer)
        return consumer

    def _remember(self, opened: Consumer | Producer) -> None:
        self._opened = {opened, *(other for other in self._opened if not other.closed)}

    async def read(
        self,
        topic: str,
        partition: int = 0,
        *,
        start: Start = "earliest",
        limit: int | None = None,
        fetch_bytes: int = 4 << 20,
    ) -> AsyncIterator[Message]:
        """The messages of one partition from a start on, up to what is there now; no group.

        What is archived comes from its files, and then the rest from the database: one topic.
        """
        first = start
        if not isinstance(first, int):
            first = await self._db.run(calls.place(topic, partition, first))
        last = await self._db.run(calls.last_offset(topic, partition))
        reading = Reading(topic, partition, first, limit, fetch_bytes, since=start, last=last)
        archived = ArchivedReader()
        while call := reading.next_call():
            for row in await fetch(self._db, call, archived):
                for message in reading.messages(row):
                    yield message

    async def close(self) -> None:
        """Flush what is being appended and leave every group; raises the first failure, if any."""
        opened, self._opened = self._opened, set()
        results = await asyncio.gather(
            *(each.close() for each in (*opened, self._appender)), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result


class SyncLog(SyncFace):
    """The blocking twin of `Log`."""

    def __init__(self, db: Db, portal: Portal, log: Log):
        self._db = db
        self._portal = portal
        self._log = log

    create = blocking(calls.create)
    alter = blocking(calls.alter)
    delete = blocking(calls.delete)
    list = blocking(calls.list_topics)
    describe = blocking(calls.describe)
    offset_at = blocking(calls.offset_at)
    seek = blocking(group_calls.seek)
    groups = blocking(group_calls.groups)
    lag = blocking(group_calls.lag)
    delete_group = blocking(group_calls.delete_group)
    trim = blocking(calls.trim)
    compact = blocking(calls.compact)
    verify = blocking(calls.verify)
    archivable = blocking(calls.archivable)
    archives = blocking(calls.archives)
    archive_add = blocking(calls.archive_add)

    def append(
        self,
        topic: str,
        messages: Any,
        *,
        keys: Any = None,
        headers: Any = None,
        partition: int | None = None,
        codec: str | None = None,
        on: psycopg.Connection[Any] | None = None,
    ) -> Receipts:
        """As `Log.append`; calls from many threads share commits."""
        if on is not None:
            _refuse_transaction()
        return self._portal.call(
            self._log.append(
                topic, messages, keys=keys, headers=headers, partition=partition, codec=codec
            )
        )

    def consume(self, topic: str, group: str, **options: Any) -> SyncConsumer:
        """As `Log.consume`: ``for batch in tl.log.consume("orders", "billing")``."""

        async def make() -> Consumer:
            return self._log.consume(topic, group, **options)

        return SyncConsumer(self._db, self._portal, self._portal.call(make()))

    def producer(self, topic: str | None = None, **options: Any) -> SyncProducer:
        """As `Log.producer`."""

        async def make() -> Producer:
            return self._log.producer(topic, **options)

        return SyncProducer(self._portal, self._portal.call(make()))

    def read(
        self,
        topic: str,
        partition: int = 0,
        *,
        start: Start = "earliest",
        limit: int | None = None,
        fetch_bytes: int = 4 << 20,
    ) -> Iterator[Message]:
        """As `Log.read`."""
        first = start
        if not isinstance(first, int):
            first = self._db.run(calls.place(topic, partition, first))
        last = self._db.run(calls.last_offset(topic, partition))
        reading = Reading(topic, partition, first, limit, fetch_bytes, since=start, last=last)
        archived = ArchivedReader()
        while call := reading.next_call():
            for row in fetch_blocking(self._db, call, archived):
                yield from reading.messages(row)


class Reading:
    """How far a plain read has come; the same for both faces."""

    def __init__(
        self,
        topic: str,
        partition: int,
        start: int,
        limit: int | None,
        fetch_bytes: int,
        *,
        since: Start | None = None,
        last: int | None = None,
    ):
        self._topic = topic
        self._partition = partition
        self._next_offset = start
        self._left = limit
        self._fetch_bytes = fetch_bytes
        self._incarnation: int | None = None
        self._asked_for: int | None = None
        self._since = since.astimezone() if isinstance(since, datetime) else None
        self._last = last

    def next_call(self) -> Call[list[StoredBatch]] | None:
        """What to ask for now; None at the end."""
        asked = self._asked_for is not None  # once in any case: a start beyond the end is refused
        over = asked and self._last is not None and self._next_offset > self._last
        if self._left == 0 or over or self._asked_for == self._next_offset:
            return None
        self._asked_for = self._next_offset
        return calls.fetch(
            self._topic,
            self._partition,
            self._next_offset,
            max_messages=100_000 if self._left is None else min(self._left, 100_000),
            max_bytes=self._fetch_bytes,
            incarnation=self._incarnation,
        )

    def messages(self, row: StoredBatch) -> Iterator[Message]:
        """The messages of a row that was asked for."""
        if self._last is not None and row.base_offset > self._last:
            return  # it came after we began
        part = decode(row)
        wanted = self._since is None or part.at >= self._since  # among archived ones it is coarse
        if wanted:
            yield from part.messages(self._topic, self._partition)
        whole = part.skip + part.take == part.n
        self._next_offset = 1 + (part.last_offset if whole else part.offsets[-1])
        if self._left is not None and wanted:
            self._left -= len(part)
        self._incarnation = part.incarnation


class SyncBatch:
    """The blocking twin of `Batch`."""

    def __init__(self, consumer: SyncConsumer, batch: Batch):
        self._consumer = consumer
        self._batch = batch
        self.topic = batch.topic
        self.partition = batch.partition
        self.first_offset = batch.first_offset
        self.last_offset = batch.last_offset
        self.attempts = batch.attempts

    def __len__(self) -> int:
        return len(self._batch)

    @property
    def messages(self) -> list[Message]:
        """Every message as a value of its own."""
        return self._batch.messages

    @property
    def values(self) -> list[bytes | None]:
        """The values alone."""
        return self._batch.values

    @property
    def offsets(self) -> list[int]:
        """The offsets alone."""
        return self._batch.offsets

    def to_arrow(self) -> pa.Table:
        """A table of offset, timestamp, key, value and headers."""
        return self._batch.to_arrow()

    def written_by(self, offset: int) -> int:
        """The incarnation of the server that wrote what stands at an offset of this batch."""
        return self._batch.written_by(offset)

    def commit(self, *, on: psycopg.Connection[Any] | None = None) -> None:
        """Everything up to here is done; with ``on``, when that transaction commits."""
        self._consumer.commit(self._batch, on)

    def release(self, *, reason: str | None = None, retry_after: float = 0) -> None:
        """Not done: deliver it again."""
        self._consumer.call(self._batch.release(reason=reason, retry_after=retry_after))

    def extend(self, deadline: timedelta) -> None:
        """More time, in a shared group."""
        self._consumer.call(self._batch.extend(deadline))


class SyncConsumer:
    """The blocking twin of `Consumer`."""

    def __init__(self, db: Db, portal: Portal, consumer: Consumer):
        self.topic = consumer.topic
        self.group = consumer.group
        self._db = db
        self._consumer = consumer
        self.call = portal.call

    @property
    def assignment(self) -> list[int]:
        """The partitions that this consumer reads now."""
        return self._consumer.assignment

    def __iter__(self) -> Iterator[SyncBatch]:
        while (batch := self.poll()) is not None:
            yield batch

    def __enter__(self) -> SyncConsumer:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def poll(self, timeout: float | None = None) -> SyncBatch | None:
        """The next batch; None when ``timeout`` seconds brought none."""
        batch = self.call(self._consumer.poll(timeout))
        return None if batch is None else SyncBatch(self, batch)

    def commit(self, batch: Batch, on: psycopg.Connection[Any] | None) -> None:
        """Settle a batch; called by it."""
        if on is None:
            self.call(batch.commit())
        elif (call := self._consumer.settlement(batch)) is not None:
            try:
                self._db.run(call, on=on)
            except LeaseLost:
                self.call(_told(self._consumer.lost, batch))
                raise
            self.call(_told(self._consumer.settled, batch))

    def close(self) -> None:
        """Leave: others take over at once."""
        self.call(self._consumer.close())


class SyncProducer:
    """The blocking twin of `Producer`."""

    def __init__(self, portal: Portal, producer: Producer):
        self._producer = producer
        self._call = portal.call

    def __enter__(self) -> SyncProducer:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def send(
        self,
        value: bytes | str | None,
        *,
        key: bytes | str | None = None,
        headers: dict[str, Any] | None = None,
        partition: int | None = None,
        topic: str | None = None,
    ) -> None:
        """Hand over one message; waits only when too much is in flight. `flush` tells failures."""
        self._call(
            self._producer.send(value, key=key, headers=headers, partition=partition, topic=topic)
        )

    def flush(self) -> None:
        """Wait until everything handed over is durable."""
        self._call(self._producer.flush())

    def close(self) -> None:
        """Flush and refuse further sends."""
        self._call(self._producer.close())


async def _told(hear: Callable[[Batch], None], batch: Batch) -> None:
    hear(batch)


def _refuse_transaction() -> NoReturn:
    raise BadRequest(
        "append() cannot join your transaction: it would hold the partition until you commit.",
        hint="Use broker.publish() for messages that belong to a transaction.",
    )
