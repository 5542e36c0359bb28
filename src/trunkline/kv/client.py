"""`Kv` and `SyncKv`: the store's functions as methods, one line per call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trunkline.core.arguments import checked
from trunkline.core.blocking import SyncIterator
from trunkline.core.calls import (
    AsyncFace,
    SyncFace,
    awaited,
    awaited_on,
    blocking,
    blocking_on,
)
from trunkline.core.errors import Unavailable
from trunkline.kv import calls, parade_calls
from trunkline.kv.services import KvReplicator, KvSequencer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from trunkline.core.db import AsyncDb, Db
    from trunkline.core.lease import ProcessLease
    from trunkline.core.listen import Listener
    from trunkline.core.portal import Portal
    from trunkline.core.quiet import Commits
    from trunkline.core.service import Service
    from trunkline.kv.models import KvChange

_LOOK_EVERY = 1.0  # seconds, where a wake-up got lost


class Kv(AsyncFace):
    """Keys and values that every zone may write, converging everywhere."""

    def __init__(self, db: AsyncDb, *, lease: ProcessLease, listener: Listener):
        self._db = db
        self._lease = lease
        self._listener = listener
        self._closed = False

    get = awaited_on(calls.get)
    get_many = awaited_on(calls.get_many)
    put = awaited_on(calls.put)
    put_many = awaited_on(calls.put_many)
    delete = awaited_on(calls.delete)
    patch_numeric = awaited_on(calls.patch_numeric)
    scan = awaited(calls.scan)
    cuts = awaited(calls.cuts)
    changes = awaited(calls.changes)
    head = awaited(calls.head)
    ends = awaited(calls.ends)
    tick = awaited(calls.tick)
    instance_put = awaited(parade_calls.instance_put)
    instance_drop = awaited(parade_calls.instance_drop)
    instance_here = awaited(parade_calls.instance_here)
    namespace_put = awaited(parade_calls.namespace_put)
    policy_put = awaited(parade_calls.policy_put)
    policy_drop = awaited(parade_calls.policy_drop)
    policies = awaited(parade_calls.policies)
    topology = awaited(parade_calls.topology)
    peers = awaited(parade_calls.peers)
    status = awaited(parade_calls.status)
    held = awaited(parade_calls.held)

    @checked
    def watch(
        self, prefix: str = "", *, namespace: str = "default", after: int | None = None
    ) -> AsyncGenerator[KvChange, None]:
        """Keys that begin with a prefix, as they change in any zone: ``async for``.

        From now on, or after a change that was seen. A key that changes often is told with what it
        says last. `PositionTrimmed` when what follows ``after`` has left.
        """
        return self._watch(prefix, namespace, after)

    async def _watch(
        self, prefix: str, namespace: str, after: int | None
    ) -> AsyncGenerator[KvChange, None]:
        async with self._listener.subscribe("kv:") as woken:
            try:
                reached = await self._db.run(calls.head()) if after is None else after
                while not self._closed:
                    found, up_to = await self._db.run(
                        calls.changes(reached, prefix=prefix, namespace=namespace)
                    )
                    for change in found:
                        yield change
                    if up_to == reached:
                        await woken.wait(_LOOK_EVERY)
                    reached = up_to
            except Unavailable:
                if not self._closed:  # the end of the connection is the end of watching
                    raise

    def services(self, commits: Commits | None = None) -> Sequence[Service]:
        """The background work of the store that ``trunkline up`` runs."""
        return [
            KvSequencer(self._db, commits),
            KvReplicator(self._db, self._lease, self._listener),
        ]

    async def close(self) -> None:
        """End watching: those who loop stop after the changes at hand."""
        self._closed = True


class SyncKv(SyncFace):
    """The blocking twin of `Kv`."""

    def __init__(self, db: Db, portal: Portal, kv: Kv):
        self._db = db
        self._portal = portal
        self._kv = kv

    get = blocking_on(calls.get)
    get_many = blocking_on(calls.get_many)
    put = blocking_on(calls.put)
    put_many = blocking_on(calls.put_many)
    delete = blocking_on(calls.delete)
    patch_numeric = blocking_on(calls.patch_numeric)
    scan = blocking(calls.scan)
    cuts = blocking(calls.cuts)
    changes = blocking(calls.changes)
    head = blocking(calls.head)
    ends = blocking(calls.ends)
    tick = blocking(calls.tick)
    instance_put = blocking(parade_calls.instance_put)
    instance_drop = blocking(parade_calls.instance_drop)
    instance_here = blocking(parade_calls.instance_here)
    namespace_put = blocking(parade_calls.namespace_put)
    policy_put = blocking(parade_calls.policy_put)
    policy_drop = blocking(parade_calls.policy_drop)
    policies = blocking(parade_calls.policies)
    topology = blocking(parade_calls.topology)
    peers = blocking(parade_calls.peers)
    status = blocking(parade_calls.status)
    held = blocking(parade_calls.held)

    def watch(
        self, prefix: str = "", *, namespace: str = "default", after: int | None = None
    ) -> SyncIterator[KvChange]:
        """As `Kv.watch`: ``for change in tl.kv.watch("user:")``; `close` ends it."""
        made = self._portal.ask(self._kv.watch, prefix, namespace=namespace, after=after)
        return SyncIterator(self._portal, made)
