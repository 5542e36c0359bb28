"""`Live` and `SyncLive`: live tables' functions as methods, one line per call."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from trunkline.broker.blocking import SyncStream
from trunkline.core.arguments import checked
from trunkline.core.calls import AsyncFace, SyncFace, awaited, awaited_on, blocking, blocking_on
from trunkline.core.errors import BadRequest, TrunklineError
from trunkline.live import calls
from trunkline.live.hub import Hub
from trunkline.live.services import LiveTagger
from trunkline.live.stream import LiveStream

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trunkline.core.db import AsyncDb, Db
    from trunkline.core.lease import ProcessLease
    from trunkline.core.listen import Listener
    from trunkline.core.portal import Portal
    from trunkline.core.service import Service
    from trunkline.live.models import LiveBatch


class Live(AsyncFace):
    """Tables whose changes clients subscribe to, as far as row-level security lets them see."""

    def __init__(self, db: AsyncDb, *, lease: ProcessLease, listener: Listener):
        self._db = db
        self._lease = lease
        self._hub = Hub(db, lease, listener)
        self._streams: WeakSet[LiveStream] = WeakSet()
        self._closed = False

    watch = awaited(calls.watch)
    unwatch = awaited(calls.unwatch)
    watch_tagged = awaited(calls.watch_tagged)
    allow = awaited(calls.allow)
    forbid = awaited(calls.forbid)
    tables = awaited(calls.tables)
    access = awaited(calls.access)
    subscribe = awaited_on(calls.subscribe)
    unsubscribe = awaited(calls.unsubscribe)
    subscriptions = awaited(calls.subscriptions)
    read = awaited(calls.read)
    visible = awaited(calls.visible)
    visible_many = awaited(calls.visible_many)

    @checked
    def stream(
        self,
        relation: str,
        *,
        condition: Mapping[str, Any] | None = None,
        changes: Iterable[str] | None = None,
        columns: Iterable[str] | None = None,
        after: str | None = None,
        role: str | None = None,
        settings: Mapping[str, str] | None = None,
        heartbeat: float = 15.0,
    ) -> LiveStream:
        """The changes of a live table: from now on, or after the token of a batch.

        ``condition`` is by column: ``{"org_id": {"eq": 7}}``. With ``columns``, an update is told
        only when one of them changed. ``role`` and ``settings`` are whom it is for: what that role
        may select, and what policies let it see with these settings, is told::

            async with tl.live.stream("app.contacts", condition={"org_id": 7}) as stream:
                async for batch in stream:
                    for change in batch.changes:
                        print(change.change, change.key, change.row)
        """
        if self._closed:
            raise BadRequest("the connection is closed.")
        made = LiveStream(
            self._db,
            self._lease,
            self._hub,
            relation,
            condition=condition,
            changes=changes,
            columns=columns,
            after=after,
            role=role,
            settings=settings or {},
            heartbeat=heartbeat,
        )
        self._streams.add(made)
        return made

    def services(self) -> Sequence[Service]:
        """The background work of live tables that ``trunkline up`` runs."""
        return [LiveTagger(self._db)]

    async def close(self) -> None:
        """End all streams, and their subscriptions with one call. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        used = self._hub.used
        await self._hub.close()
        for stream in self._streams:
            stream.end()
        if used:
            with suppress(TrunklineError):  # they end with the lease
                await self._lease.leave(calls.leave(self._lease.process))  # type: ignore[arg-type]


class SyncLive(SyncFace):
    """The blocking twin of `Live`."""

    def __init__(self, db: Db, portal: Portal, live: Live):
        self._db = db
        self._portal = portal
        self._live = live

    watch = blocking(calls.watch)
    unwatch = blocking(calls.unwatch)
    watch_tagged = blocking(calls.watch_tagged)
    allow = blocking(calls.allow)
    forbid = blocking(calls.forbid)
    tables = blocking(calls.tables)
    access = blocking(calls.access)
    subscribe = blocking_on(calls.subscribe)
    unsubscribe = blocking(calls.unsubscribe)
    subscriptions = blocking(calls.subscriptions)
    read = blocking(calls.read)
    visible = blocking(calls.visible)
    visible_many = blocking(calls.visible_many)

    def stream(
        self,
        relation: str,
        *,
        condition: Mapping[str, Any] | None = None,
        changes: Iterable[str] | None = None,
        columns: Iterable[str] | None = None,
        after: str | None = None,
        role: str | None = None,
        settings: Mapping[str, str] | None = None,
        heartbeat: float = 15.0,
    ) -> SyncStream[LiveBatch]:
        """As `Live.stream`: ``for batch in tl.live.stream("app.contacts")``."""
        made = self._portal.ask(
            self._live.stream,
            relation,
            condition=condition,
            changes=changes,
            columns=columns,
            after=after,
            role=role,
            settings=settings,
            heartbeat=heartbeat,
        )
        return SyncStream(self._portal, made)
