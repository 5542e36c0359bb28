"""`Log` and `SyncLog`: the log's functions as methods, one line per call."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from trunkline.core.calls import AsyncFace, SyncFace, awaited, blocking
from trunkline.core.errors import BadRequest, Invalid
from trunkline.log import calls
from trunkline.log.batches import decode
from trunkline.log.consumer import AssignedConsumer, Batch, Consumer, Reader, SharedConsumer
from trunkline.log.models import Appended, Delivery, Message, Mode, Start
from trunkline.log.producer import Producer
from trunkline.log.topics import Topics

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import psycopg
    import pyarrow as pa

    from trunkline.core.db import AsyncDb, Db
    from trunkline.core.lease import ProcessLease
    from trunkline.core.listen import Listener, Notifier
    from trunkline.core.portal import Portal


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
    seek = awaited(calls.seek)
    groups = awaited(calls.groups)
    lag = awaited(calls.lag)
    delete_group = awaited(calls.delete_group)
    trim = awaited(calls.trim)
    compact = awaited(calls.compact)
    verify = awaited(calls.verify)

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
        self._opened.add(producer)
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
        self._opened.add(consumer)
        return consumer

    async def read(
        self,
        topic: str,
        partition: int = 0,
        *,
        start: int = 1,
        limit: int | None = None,
        fetch_bytes: int = 4 << 20,
    ) -> AsyncIterator[Message]:
        """The messages of a partition from an offset on, up to what is there now; no group."""
        left = limit
        incarnation = None
        while left is None or left > 0:
            rows = await self._db.run(
                calls.fetch(
                    topic,
                    partition,
                    start,
                    max_messages=100_000 if left is None else left,
                    max_bytes=fetch_bytes,
                    incarnation=incarnation,
                )
            )
            if not rows:
                return
            for part in map(decode, rows):
                for message in _messages(topic, partition, part):
                    yield message
                left = None if left is None else left - len(part)
                incarnation = part.incarnation
            start = rows[-1].last_offset + 1

    async def close(self) -> None:
        """Flush what is being appended and leave every group."""
        for opened in (*self._opened, self._appender):
            await opened.close()
        self._opened.clear()


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
    seek = blocking(calls.seek)
    groups = blocking(calls.groups)
    lag = blocking(calls.lag)
    delete_group = blocking(calls.delete_group)
    trim = blocking(calls.trim)
    compact = blocking(calls.compact)
    verify = blocking(calls.verify)

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
        self, topic: str, partition: int = 0, *, start: int = 1, limit: int | None = None
    ) -> Iterator[Message]:
        """As `Log.read`."""
        left = limit
        while left is None or left > 0:
            rows = self._db.run(
                calls.fetch(topic, partition, start, max_messages=100_000 if left is None else left)
            )
            if not rows:
                return
            for part in map(decode, rows):
                yield from _messages(topic, partition, part)
                left = None if left is None else left - len(part)
            start = rows[-1].last_offset + 1


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

    def to_arrow(self) -> pa.Table:
        """A table of offset, timestamp, key, value and headers."""
        return self._batch.to_arrow()

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
        self._db = db
        self._consumer = consumer
        self.call = portal.call

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
            self._db.run(call, on=on)
            self._consumer.settled(batch)

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


def _messages(topic: str, partition: int, part: Any) -> Iterator[Message]:
    columns = zip(part.offsets, part.keys, part.values, part.headers, strict=True)
    for offset, key, value, headers in columns:
        yield Message(topic, partition, offset, part.at, key, value, headers)


def _refuse_transaction() -> NoReturn:
    raise BadRequest(
        "append() cannot join your transaction: it would hold the partition until you commit.",
        hint="Use broker.publish() for messages that belong to a transaction.",
    )
