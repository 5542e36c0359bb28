"""`Log` and `SyncLog`: the log's functions as methods, one line per call."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from trunkline.core.arguments import checked
from trunkline.core.calls import AsyncFace, SyncFace, awaited, blocking
from trunkline.core.errors import BadRequest, Invalid
from trunkline.log import calls, dead_calls, group_calls
from trunkline.log.archived import ArchivedReader, fetch, fetch_blocking
from trunkline.log.assigned import AssignedConsumer
from trunkline.log.blocking import SyncConsumer, SyncProducer
from trunkline.log.columns import keys_of
from trunkline.log.consumer import Consumer, Reader
from trunkline.log.models import Appended, Delivery, Message, Mode, Start
from trunkline.log.producer import Producer
from trunkline.log.reading import Reading
from trunkline.log.shared import SharedConsumer
from trunkline.log.topics import Topics, noticed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import psycopg

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

    create = noticed(awaited(calls.create))
    alter = noticed(awaited(calls.alter))
    delete = noticed(awaited(calls.delete))
    list = awaited(calls.list_topics)
    describe = awaited(calls.describe)
    offset_at = awaited(calls.offset_at)
    seek = awaited(group_calls.seek)
    groups = awaited(group_calls.groups)
    lag = awaited(group_calls.lag)
    behind = awaited(group_calls.behind)
    group_delete = awaited(group_calls.group_delete)
    dead_list = awaited(dead_calls.dead_list)
    dead_show = awaited(dead_calls.dead_show)
    dead_retry = awaited(dead_calls.dead_retry)
    dead_discard = awaited(dead_calls.dead_discard)
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
        key: bytes | str | None = None,
        keys: Any = None,
        headers: Any = None,
        partition: int | None = None,
        codec: str | None = None,
        on: psycopg.AsyncConnection[Any] | None = None,
    ) -> Receipts:
        """Append messages and wait until they are durable; one answer per partition.

        ``messages`` is one message (bytes or text), a list of them, of `Outgoing`, or Arrow: an
        array of values, or a table with columns ``value``, ``key`` and ``headers``. ``key`` is that
        of one message, ``keys`` has one for each. A key chooses the partition; messages without
        one go together. Each partition's share is stored whole or
        not at all, in order, and once, however often the connection breaks. Concurrent calls share
        commits.
        """
        if on is not None:
            _refuse_transaction()
        self._check_open()
        return await self._appender.append(
            topic,
            messages,
            keys=keys_of(messages, key, keys),
            headers=headers,
            partition=partition,
            codec=codec,
        )

    @checked
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
        self._check_open()
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

    @checked
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
        group_calls.start_text(start)  # nobody else looks at it where the group is there already
        self._check_open()
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

    def _check_open(self) -> None:
        if self._appender.closed:
            raise Invalid("the connection is closed.")

    def _remember(self, opened: Consumer | Producer) -> None:
        self._opened = {opened, *(other for other in self._opened if not other.closed)}

    @checked
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
        if not isinstance(first, int) or isinstance(first, bool):
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
        self._topics = log._topics  # noqa: SLF001 - its twin's

    create = noticed(blocking(calls.create))
    alter = noticed(blocking(calls.alter))
    delete = noticed(blocking(calls.delete))
    list = blocking(calls.list_topics)
    describe = blocking(calls.describe)
    offset_at = blocking(calls.offset_at)
    seek = blocking(group_calls.seek)
    groups = blocking(group_calls.groups)
    lag = blocking(group_calls.lag)
    behind = blocking(group_calls.behind)
    group_delete = blocking(group_calls.group_delete)
    dead_list = blocking(dead_calls.dead_list)
    dead_show = blocking(dead_calls.dead_show)
    dead_retry = blocking(dead_calls.dead_retry)
    dead_discard = blocking(dead_calls.dead_discard)
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
        key: bytes | str | None = None,
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
                topic,
                messages,
                key=key,
                keys=keys,
                headers=headers,
                partition=partition,
                codec=codec,
            )
        )

    def consume(self, topic: str, group: str, **options: Any) -> SyncConsumer:
        """As `Log.consume`: ``for batch in tl.log.consume("orders", "billing")``."""
        consumer = self._portal.ask(self._log.consume, topic, group, **options)
        return SyncConsumer(self._db, self._portal, consumer)

    def producer(self, topic: str | None = None, **options: Any) -> SyncProducer:
        """As `Log.producer`."""
        return SyncProducer(self._portal, self._portal.ask(self._log.producer, topic, **options))

    @checked
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
        if not isinstance(first, int) or isinstance(first, bool):
            first = self._db.run(calls.place(topic, partition, first))
        last = self._db.run(calls.last_offset(topic, partition))
        reading = Reading(topic, partition, first, limit, fetch_bytes, since=start, last=last)
        archived = ArchivedReader()
        while call := reading.next_call():
            for row in fetch_blocking(self._db, call, archived):
                yield from reading.messages(row)


def _refuse_transaction() -> NoReturn:
    raise BadRequest(
        "append() cannot join your transaction: it would hold the partition until you commit.",
        hint="Use broker.publish() for messages that belong to a transaction.",
    )
