"""`Kv` and `SyncKv`: the store's functions as methods, one line per call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trunkline.core.arguments import checked
from trunkline.core.calls import (
    AsyncFace,
    SyncFace,
    awaited,
    awaited_on,
    blocking,
    blocking_on,
)
from trunkline.kv import calls, parade_calls
from trunkline.kv.services import KvReplicator, KvSequencer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from trunkline.core.db import AsyncDb, Db
    from trunkline.core.lease import ProcessLease
    from trunkline.core.listen import Listener
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
    ) -> AsyncIterator[KvChange]:
        """Keys that begin with a prefix, as they change in any zone: ``async for``.

        From now on, or after a change that was seen. A key that changes often is told with what it
        says last. `PositionTrimmed` when what follows ``after`` has left.
        """
        return self._watch(prefix, namespace, after)

    async def _watch(
        self, prefix: str, namespace: str, after: int | None
    ) -> AsyncIterator[KvChange]:
        async with self._listener.subscribe("kv:") as woken:
            reached = await self._db.run(calls.head()) if after is None else after
            while True:
                found, up_to = await self._db.run(
                    calls.changes(reached, prefix=prefix, namespace=namespace)
                )
                for change in found:
                    yield change
                if up_to == reached:
                    await woken.wait(_LOOK_EVERY)
                reached = up_to

    def services(self, commits: Commits | None = None) -> Sequence[Service]:
        """The background work of the store that ``trunkline up`` runs."""
        return [
            KvSequencer(self._db, commits),
            KvReplicator(self._db, self._lease, self._listener),
        ]


class SyncKv(SyncFace):
    """The blocking twin of `Kv`, without watching."""

    def __init__(self, db: Db):
        self._db = db

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
