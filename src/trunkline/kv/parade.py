"""`Parade`: one client for all shards and zones.

A key belongs to a shard by its hash; every zone has all shards. Calls go to the shard in one's own
zone, and to another zone while that cannot be reached. What was written is in the zone that
answered, and soon in all.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Self, TypeVar

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from trunkline.core.arguments import checked
from trunkline.core.db import AsyncDb
from trunkline.core.errors import NotFound, Unavailable
from trunkline.core.settings import normalise
from trunkline.kv import calls, parade_calls

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from datetime import timedelta

    from trunkline.core.calls import Call
    from trunkline.kv.models import KvEntry, KvInstance

T = TypeVar("T")

_LOOK_EVERY = 60.0  # seconds until the topology is read again
_AVOID_FOR = 5.0  # seconds for which an instance that was away is asked last
_CONNECT_WITHIN = 2.0  # seconds
_PLACE = ("host", "hostaddr", "port", "dbname")


def shard_of(key: str, shards: Sequence[str]) -> str:
    """The shard of a key: the first 8 bytes of its sha256, modulo, among the sorted names."""
    number = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big")
    return sorted(shards)[number % len(shards)]


class Parade:
    """Reads and writes keys wherever they belong: ``async with Parade(dsn, zone="east") as kv``.

    ``dsn`` is any instance of the parade. The others are reached at the places that the parade
    tells, with the user and all other settings of this DSN.
    """

    @checked
    def __init__(self, dsn: str, *, zone: str | None = None, pool_max: int = 10):
        self._dsn = normalise(dsn)
        self._zone = zone
        self._pool_max = pool_max
        self._first = self._open(self._dsn)
        self._known: dict[str, AsyncDb] = {}
        self._instances: list[KvInstance] = []
        self._looked_at = float("-inf")
        self._looking = asyncio.Lock()
        self._away_until: dict[str, float] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of all connections. Safe to call twice."""
        async with AsyncExitStack() as last:  # whatever fails, the rest is closed too
            for db in [self._first, *self._known.values()]:
                last.push_async_callback(db.close)

    @checked
    async def get(self, key: str, *, namespace: str = "default", default: Any = None) -> Any:
        """The value of a key; ``default`` when it is not there."""
        return await self._on_shard_of(key, calls.get(key, namespace=namespace, default=default))

    @checked
    async def put(
        self,
        key: str,
        value: Any,
        *,
        namespace: str = "default",
        policy: str | None = None,
        ttl: timedelta | None = None,
        if_version: str | None = None,
    ) -> str:
        """Put a value under a key: ``INSERT``, ``UPDATE`` or ``CONFLICT``, as `Kv.put`."""
        call = calls.put(
            key, value, namespace=namespace, policy=policy, ttl=ttl, if_version=if_version
        )
        return await self._on_shard_of(key, call)

    @checked
    async def delete(
        self, key: str, *, namespace: str = "default", if_version: str | None = None
    ) -> str:
        """Delete a key, everywhere."""
        call = calls.delete(key, namespace=namespace, if_version=if_version)
        return await self._on_shard_of(key, call)

    @checked
    async def patch_numeric(
        self,
        key: str,
        offsets: Mapping[str, Any],
        *,
        namespace: str = "default",
        policy: str | None = None,
        ttl: timedelta | None = None,
    ) -> str:
        """Add numbers to fields of a key, as `Kv.patch_numeric`.

        `Unavailable` when an instance left while it was asked: nobody knows whether it counted.
        """
        call = calls.patch_numeric(key, offsets, namespace=namespace, policy=policy, ttl=ttl)
        return await self._on_shard_of(key, call)

    @checked
    async def get_many(
        self, keys: Sequence[str], *, namespace: str = "default"
    ) -> dict[str, KvEntry]:
        """Keys that live, of those that are named."""
        found = await self._by_shard(keys, lambda part: calls.get_many(part, namespace=namespace))
        return {entry.key: entry for entries in found for entry in entries}

    @checked
    async def put_many(
        self,
        values: Mapping[str, Any],
        *,
        namespace: str = "default",
        policy: str | None = None,
        ttl: timedelta | None = None,
    ) -> dict[str, str]:
        """Put many values: an answer for each key. One transaction for each shard."""
        answers = await self._by_shard(
            values,
            lambda part: calls.put_many(
                {key: values[key] for key in part}, namespace=namespace, policy=policy, ttl=ttl
            ),
        )
        return {key: answer for part in answers for key, answer in part.items()}

    @checked
    async def scan(
        self,
        prefix: str = "",
        *,
        namespace: str = "default",
        after_key: str = "",
        max_keys: int = 1000,
    ) -> list[KvEntry]:
        """Keys of all shards that live and begin with a prefix, in order."""
        call = calls.scan(prefix, namespace=namespace, after_key=after_key, max_keys=max_keys)
        parts = await _all(self._ask(shard, call) for shard in await self._shards())
        entries = [entry for part in parts for entry in part]
        return sorted(entries, key=lambda entry: entry.key.encode())[:max_keys]

    async def _on_shard_of(self, key: str, call: Call[T]) -> T:
        return await self._ask(shard_of(key, await self._shards()), call)

    async def _by_shard(self, keys: Iterable[str], make: Callable[[list[str]], Call[T]]) -> list[T]:
        shards = await self._shards()
        parts: dict[str, list[str]] = {}
        for key in keys:
            parts.setdefault(shard_of(key, shards), []).append(key)
        return await _all(self._ask(shard, make(part)) for shard, part in parts.items())

    async def _ask(self, shard: str, call: Call[T]) -> T:
        """Ask the nearest instance of a shard that answers."""
        trouble: Unavailable | None = None
        for instance in self._nearest(shard):
            db = self._db_of(instance)
            asked = False
            try:
                async with db.connection() as connection:
                    asked = True
                    return await db.run(call, on=connection)
            except Unavailable as error:
                self._away_until[_name(instance)] = time.monotonic() + _AVOID_FOR
                if asked and not call.safe_to_repeat:
                    raise
                trouble = error
        raise trouble or NotFound(f'the parade has no instance of shard "{shard}".')

    def _nearest(self, shard: str) -> list[KvInstance]:
        now = time.monotonic()
        return sorted(
            (each for each in self._instances if each.shard == shard),
            key=lambda each: (
                self._away_until.get(_name(each), 0.0) > now,
                each.zone != self._zone,
                each.zone,
            ),
        )

    def _db_of(self, instance: KvInstance) -> AsyncDb:
        place = conninfo_to_dict(normalise(instance.dsn or ""))
        where = {name: place[name] for name in _PLACE if name in place}
        if not where:
            raise NotFound(
                f'the parade does not tell where instance "{_name(instance)}" is.',
                hint="Put it again with host, port and database in its dsn.",
            )
        dsn = make_conninfo("", **{**conninfo_to_dict(self._dsn), **where})
        if dsn not in self._known:
            self._known[dsn] = self._open(dsn)
        return self._known[dsn]

    def _open(self, dsn: str) -> AsyncDb:
        return AsyncDb(dsn, pool_max=self._pool_max, patience=0, connect_timeout=_CONNECT_WITHIN)

    async def _shards(self) -> list[str]:
        async with self._looking:
            if time.monotonic() - self._looked_at > _LOOK_EVERY:
                await self._look()
        return sorted({each.shard for each in self._instances})

    async def _look(self) -> None:
        """Read the topology from the first instance that answers."""
        trouble: Unavailable | None = None
        for db in [self._first, *self._known.values()]:
            try:
                found = await db.run(parade_calls.topology())
            except Unavailable as error:
                trouble = error
                continue
            if not found:
                raise NotFound(
                    "the database belongs to no parade.",
                    hint="Make one with kv_instance_put(), or use connect() for a single database.",
                )
            self._instances = found
            self._looked_at = time.monotonic()
            return
        if not self._instances:
            raise trouble or Unavailable("no instance of the parade answers.")
        self._looked_at = time.monotonic()


def _name(instance: KvInstance) -> str:
    return f"{instance.zone}/{instance.shard}"


async def _all(asked: Iterable[Awaitable[T]]) -> list[T]:
    return list(await asyncio.gather(*asked))
