"""`Broker` and `SyncBroker`: the broker's functions as methods, one line per call."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from trunkline.broker import (
    calls,
    handler_calls,
    held,
    subscription_calls,
    watch_calls,
    webhook_calls,
)
from trunkline.broker.blocking import SyncStream
from trunkline.broker.enqueue import Enqueuer
from trunkline.broker.forwarder import BrokerForwarder
from trunkline.broker.handlers import Handler, condition_text
from trunkline.broker.matcher import BrokerMatcher
from trunkline.broker.models import NewEvent
from trunkline.broker.services import BrokerSequencer
from trunkline.broker.stream import EventStream
from trunkline.broker.webhooks import BrokerWebhooks
from trunkline.broker.worker import HandlerWorker
from trunkline.core.arguments import checked
from trunkline.core.calls import AsyncFace, SyncFace, awaited, blocking
from trunkline.core.errors import BadRequest, Invalid

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    import psycopg

    from trunkline.broker.attempts import Attempt, Shared
    from trunkline.broker.handlers import Condition, Pattern
    from trunkline.broker.stream import StreamEvent
    from trunkline.core.db import AsyncDb, Db
    from trunkline.core.lease import ProcessLease
    from trunkline.core.listen import Listener
    from trunkline.core.portal import Portal
    from trunkline.core.quiet import Commits
    from trunkline.core.service import Service


class Broker(AsyncFace):
    """Events that belong to your transaction, delivered to whoever asked by a condition."""

    def __init__(self, db: AsyncDb, *, lease: ProcessLease, listener: Listener):
        self._db = db
        self._lease = lease
        self._listener = listener
        self._enqueuers: list[Enqueuer] = []
        self._streams: WeakSet[EventStream] = WeakSet()
        self._members = 0
        self._closed = False

    async def publish(
        self,
        topic: str,
        payload: Any,
        *,
        key: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        deliver_at: datetime | None = None,
        subscription: int | None = None,
        on: psycopg.AsyncConnection[Any] | None = None,
    ) -> int:
        """Publish one event and return its id.

        With ``on``, inside the transaction of that connection: the event exists when, and only
        when, the transaction commits.
        """
        call = calls.publish(
            topic,
            payload,
            key=key,
            metadata=metadata,
            deliver_at=deliver_at,
            subscription=subscription,
        )
        return await self._db.run(call, on=on)

    async def publish_many(
        self, events: Iterable[NewEvent], *, on: psycopg.AsyncConnection[Any] | None = None
    ) -> list[int]:
        """Publish events, all or none, in order; their ids. ``on`` as in `publish`."""
        return await self._db.run(calls.publish_many(events), on=on)

    async def enqueue(
        self,
        topic: str,
        payload: Any,
        *,
        key: str | None = None,
        metadata: dict[str, Any] | None = None,
        deliver_at: datetime | None = None,
        subscription: int | None = None,
    ) -> asyncio.Future[int]:
        """Publish in the background, together with what others enqueue meanwhile.

        Waits only while too much is in flight. Await the answer for the id of the event, or its
        error. `flush` and the end of the connection raise an error that no caller has seen.
        """
        event = NewEvent(topic, payload, key, metadata, deliver_at, subscription)
        return await self._enqueuer.enqueue(event)

    async def flush(self) -> None:
        """Wait until everything enqueued is published; raise the first error no caller has seen."""
        for enqueuer in self._enqueuers:
            await enqueuer.flush()

    @checked
    def enqueuer(
        self,
        *,
        batch_events: int = 1_000,
        linger: float = 0.01,
        in_flight: int = 10_000,
        patience: float = 30.0,
    ) -> Enqueuer:
        """An `Enqueuer` of its own: ``answer = await enqueuer.enqueue(NewEvent(...))``.

        A batch goes out when it has ``batch_events``, ``linger`` seconds after its first event, or
        on ``flush``; ``in_flight`` events at most wait. While the server is away a batch is tried
        again for ``patience`` seconds.
        """
        if self._closed:
            raise BadRequest("the connection is closed.")
        made = Enqueuer(
            self._db,
            batch_events=batch_events,
            linger=linger,
            in_flight=in_flight,
            patience=patience,
        )
        self._enqueuers.append(made)
        return made

    @cached_property
    def _enqueuer(self) -> Enqueuer:
        return self.enqueuer()

    async def subscribe(
        self,
        group_name: str,
        condition: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        expiry: timedelta | None = None,
        from_position: int | None = None,
        from_time: datetime | None = None,
        handler: str | None = None,
        ordering: str | None = None,
        lanes: int | None = None,
        replace: bool = False,
        on: psycopg.AsyncConnection[Any] | None = None,
    ) -> int:
        """Subscribe a group to the events for which a condition holds; the subscription's number.

        The condition is SQL over ``e`` and ``s``, or a dict in the JSON form; None asks for every
        event. The same group, condition and params are the same subscription. With ``expiry`` this
        process holds it while it lives; not held for that long, it ends.
        ``from_position`` and ``from_time`` begin with the history. A ``handler`` has one
        subscription: another one raises `Conflict`, unless ``replace`` is true. With ``on``, inside
        the transaction of that connection.
        """
        call = subscription_calls.subscribe(
            group_name,
            condition,
            params,
            expiry=expiry,
            from_position=from_position,
            from_time=from_time,
            process=None if expiry is None else await self.process(),
            handler=handler,
            ordering=ordering,
            lanes=lanes,
            replace=replace,
        )
        return await self._db.run(call, on=on)

    async def hold(self, subscription: int) -> None:
        """Keep a subscription from expiring as long as this process lives."""
        await self._db.run(subscription_calls.hold(subscription, await self.process()))

    async def process(self) -> UUID:
        """The id under which this process holds what it holds."""
        return await self._lease.hold()

    topic = awaited(calls.topic)
    events = awaited(calls.events)
    head = awaited(calls.head)
    tick = awaited(calls.tick)
    release = awaited(calls.release)
    next_due = awaited(calls.next_due)
    forward = awaited(calls.forward)
    forwardable = awaited(calls.forwardable)
    unforwarded = awaited(calls.unforwarded)
    unforwarded_discard = awaited(calls.unforwarded_discard)
    ends = awaited(calls.ends)
    source = awaited(calls.source)
    match = awaited(calls.match)
    catch_up = awaited(calls.catch_up)
    conditions = awaited(calls.conditions)
    group = awaited(calls.group)
    group_delete = awaited(calls.group_delete)
    groups = awaited(calls.groups)
    held = awaited(held.held)
    lag = awaited(calls.lag)
    why = awaited(calls.why)
    read = awaited(calls.read)
    watch = awaited(watch_calls.watch)
    unwatch = awaited(watch_calls.unwatch)
    watched = awaited(watch_calls.watched)
    seek = awaited(calls.seek)
    schedule = awaited(calls.schedule)
    scheduled = awaited(calls.scheduled)
    unsubscribe = awaited(subscription_calls.unsubscribe)
    subscriptions = awaited(subscription_calls.subscriptions)
    explain = awaited(subscription_calls.explain)
    resume = awaited(subscription_calls.resume)

    def services(self, commits: Commits | None = None) -> Sequence[Service]:
        """The background work of the broker that ``trunkline up`` runs."""
        return [
            BrokerSequencer(self._db.alone(), commits),
            BrokerMatcher(self._db.alone(), self._listener),
            BrokerForwarder(self._db, self._listener),
            BrokerWebhooks(self._db, self._lease, self._listener),
            held.BrokerHoldWatch(self._db),
        ]

    handler_delete = awaited(handler_calls.handler_delete)
    dead_list = awaited(handler_calls.dead_list)
    dead_show = awaited(handler_calls.dead_show)
    dead_retry = awaited(handler_calls.dead_retry)
    dead_discard = awaited(handler_calls.dead_discard)
    webhook_add = awaited(webhook_calls.add)
    webhook_list = awaited(webhook_calls.webhooks)
    webhook_rotate = awaited(webhook_calls.rotate)
    webhook_pause = awaited(webhook_calls.pause)
    webhook_resume = awaited(webhook_calls.resume)
    webhook_remove = awaited(webhook_calls.remove)
    webhook_log = awaited(webhook_calls.log)

    @checked
    def worker(
        self,
        handler: Handler,
        *,
        read_ahead: int = 10,
        shared: Shared | None = None,
        tell: Callable[[Attempt], None] | None = None,
    ) -> HandlerWorker:
        """A worker of this process for a handler: ``await worker.run(stop)``."""
        if not isinstance(handler, Handler):
            raise Invalid(
                f"handler is one that an App has registered, got {handler!r:.100}.",
                hint="For example app.handlers[0].",
            )
        self._members += 1
        return HandlerWorker(
            self._db,
            self._lease,
            self._listener,
            handler,
            member=f"worker {self._members}",
            read_ahead=read_ahead,
            shared=shared,
            tell=tell,
        )

    @checked
    def stream(
        self,
        pattern: Pattern = None,
        *,
        condition: Condition = None,
        params: Mapping[str, Any] | None = None,
        after: str | None = None,
        heartbeat: float = 15.0,
        json_text: bool = False,
    ) -> EventStream:
        """Events for whoever looks: from now on, or after the token of an event.

        Nothing is kept for the reader; the token works on any node as long as the history is there.
        With ``json_text`` payload and metadata are JSON as the server writes it.
        """
        made = EventStream(
            self._db,
            self._listener,
            condition=condition_text("the stream", pattern, condition),
            params=params or {},
            after=after,
            heartbeat=heartbeat,
            json_text=json_text,
        )
        self._streams.add(made)
        return made

    async def close(self) -> None:
        """End streams, publish what is enqueued; raise the first error no caller has seen."""
        self._closed = True
        for stream in self._streams:
            await stream.close()
        async with AsyncExitStack() as last:
            for enqueuer in self._enqueuers:
                last.push_async_callback(enqueuer.close)


class SyncBroker(SyncFace):
    """The blocking twin of `Broker`."""

    def __init__(self, db: Db, portal: Portal, broker: Broker):
        self._db = db
        self._portal = portal
        self._broker = broker

    def publish(
        self,
        topic: str,
        payload: Any,
        *,
        key: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        deliver_at: datetime | None = None,
        subscription: int | None = None,
        on: psycopg.Connection[Any] | None = None,
    ) -> int:
        """As `Broker.publish`."""
        call = calls.publish(
            topic,
            payload,
            key=key,
            metadata=metadata,
            deliver_at=deliver_at,
            subscription=subscription,
        )
        return self._db.run(call, on=on)

    def publish_many(
        self, events: Iterable[NewEvent], *, on: psycopg.Connection[Any] | None = None
    ) -> list[int]:
        """As `Broker.publish_many`."""
        return self._db.run(calls.publish_many(events), on=on)

    def enqueue(
        self,
        topic: str,
        payload: Any,
        *,
        key: str | None = None,
        metadata: dict[str, Any] | None = None,
        deliver_at: datetime | None = None,
        subscription: int | None = None,
    ) -> None:
        """As `Broker.enqueue`, without the answer: `flush` tells failures."""
        self._portal.call(
            self._broker.enqueue(
                topic,
                payload,
                key=key,
                metadata=metadata,
                deliver_at=deliver_at,
                subscription=subscription,
            )
        )

    def flush(self) -> None:
        """Wait until everything enqueued is published; raise the first error no caller has seen."""
        self._portal.call(self._broker.flush())

    def subscribe(
        self,
        group_name: str,
        condition: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        expiry: timedelta | None = None,
        from_position: int | None = None,
        from_time: datetime | None = None,
        handler: str | None = None,
        ordering: str | None = None,
        lanes: int | None = None,
        replace: bool = False,
        on: psycopg.Connection[Any] | None = None,
    ) -> int:
        """As `Broker.subscribe`."""
        call = subscription_calls.subscribe(
            group_name,
            condition,
            params,
            expiry=expiry,
            from_position=from_position,
            from_time=from_time,
            process=None if expiry is None else self._portal.call(self._broker.process()),
            handler=handler,
            ordering=ordering,
            lanes=lanes,
            replace=replace,
        )
        return self._db.run(call, on=on)

    def hold(self, subscription: int) -> None:
        """As `Broker.hold`."""
        self._portal.call(self._broker.hold(subscription))

    topic = blocking(calls.topic)
    events = blocking(calls.events)
    head = blocking(calls.head)
    tick = blocking(calls.tick)
    release = blocking(calls.release)
    next_due = blocking(calls.next_due)
    forward = blocking(calls.forward)
    forwardable = blocking(calls.forwardable)
    unforwarded = blocking(calls.unforwarded)
    unforwarded_discard = blocking(calls.unforwarded_discard)
    ends = blocking(calls.ends)
    source = blocking(calls.source)
    match = blocking(calls.match)
    catch_up = blocking(calls.catch_up)
    conditions = blocking(calls.conditions)
    group = blocking(calls.group)
    group_delete = blocking(calls.group_delete)
    groups = blocking(calls.groups)
    held = blocking(held.held)
    lag = blocking(calls.lag)
    why = blocking(calls.why)
    read = blocking(calls.read)
    watch = blocking(watch_calls.watch)
    unwatch = blocking(watch_calls.unwatch)
    watched = blocking(watch_calls.watched)
    seek = blocking(calls.seek)
    schedule = blocking(calls.schedule)
    scheduled = blocking(calls.scheduled)
    handler_delete = blocking(handler_calls.handler_delete)
    dead_list = blocking(handler_calls.dead_list)
    dead_show = blocking(handler_calls.dead_show)
    dead_retry = blocking(handler_calls.dead_retry)
    dead_discard = blocking(handler_calls.dead_discard)
    webhook_add = blocking(webhook_calls.add)
    webhook_list = blocking(webhook_calls.webhooks)
    webhook_rotate = blocking(webhook_calls.rotate)
    webhook_pause = blocking(webhook_calls.pause)
    webhook_resume = blocking(webhook_calls.resume)
    webhook_remove = blocking(webhook_calls.remove)
    webhook_log = blocking(webhook_calls.log)
    unsubscribe = blocking(subscription_calls.unsubscribe)
    subscriptions = blocking(subscription_calls.subscriptions)
    explain = blocking(subscription_calls.explain)
    resume = blocking(subscription_calls.resume)

    def stream(
        self,
        pattern: Pattern = None,
        *,
        condition: Condition = None,
        params: Mapping[str, Any] | None = None,
        after: str | None = None,
        heartbeat: float = 15.0,
        json_text: bool = False,
    ) -> SyncStream[StreamEvent]:
        """As `Broker.stream`: ``for event in tl.broker.stream("orders.*")``."""
        made = self._portal.ask(
            self._broker.stream,
            pattern,
            condition=condition,
            params=params,
            after=after,
            heartbeat=heartbeat,
            json_text=json_text,
        )
        return SyncStream(self._portal, made)
