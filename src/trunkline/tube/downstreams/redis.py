"""Redis (or Valkey): a cache that follows a table, by value or by invalidation.

The document of a key is a plain string under ``{prefix}{relation}:{shard}:{key}``, so that any
client reads it with one GET, or many with MGET; with a hash of version and document it could not.
The version lies beside it under ``{prefix}#{relation}:{shard}:{key}``. A script compares and writes
both at once. A deleted key leaves its version behind as a tombstone for ``tombstone_seconds``.

In mode *invalidate* the documents are the application's: it fills the cache when it misses, and a
change of the row removes what it has put there and leaves the version for ``tombstone_seconds``. A
reader that must not put back what it read before the change watches that version::

    WATCH {prefix}#orders:0:17       -- then read the row
    MULTI, SET {prefix}orders:0:17 ..., EXEC      -- nil: it changed meanwhile, read again

Documents that Redis evicts are missing until their row changes, or a backfill: read the table then.
One server (or what speaks for one, such as a primary behind a proxy), not a cluster: a script
touches keys of many slots.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from hashlib import sha1
from typing import TYPE_CHECKING, Any

import redis.asyncio as client
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError

from trunkline.core.errors import Invalid, Unavailable
from trunkline.tube.downstreams.base import Downstream, Page, chunks, identity, named

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trunkline.tube.models import Change, Version

# KEYS: place and mark of each change. ARGV: seconds, then version and document of each; an empty
# document removes. Versions have a fixed width: as numbers they would lose their last bits here.
_SCRIPT = b"""
for i = 1, #KEYS / 2 do
  local place, mark = KEYS[2 * i - 1], KEYS[2 * i]
  local version, document = ARGV[2 * i], ARGV[2 * i + 1]
  local known = redis.pcall('get', mark)
  if type(known) ~= 'string' or known <= version then
    if document == '' then
      redis.call('del', place)
      redis.call('set', mark, version, 'ex', ARGV[1])
    else
      redis.call('set', place, document)
      redis.call('set', mark, version)
    end
  end
end
"""
_SCRIPT_NAME = sha1(_SCRIPT, usedforsecurity=False).hexdigest()
_SCRIPT_KEYS = 250  # a script stops the whole server: about a millisecond
_SCRIPT_BYTES = 1 << 20
_LARGEST = 512 << 20  # bytes of a string, a limit of Redis
_SCAN = 1_000
_SCANS_PER_PAGE = 100
_GLOB = re.compile(r"([\\*?\[\]^])")


class RedisDownstream(Downstream):
    """Strings under ``{prefix}{relation}:{shard}:{key}``; see the module for modes."""

    def __init__(
        self,
        *,
        url: str = "redis://localhost:6379/0",
        prefix: str = "",
        mode: str = "value",
        tombstone_seconds: int = 86_400,
        timeout: float = 10,
    ):
        if mode not in {"value", "invalidate"}:
            raise Invalid(f'mode is "value" or "invalidate", got "{mode}".')
        if not isinstance(tombstone_seconds, int) or tombstone_seconds < 1:
            raise Invalid(f"tombstone_seconds is a whole number above 0, got {tombstone_seconds}.")
        self._prefix = prefix
        self._keeps_documents = mode == "value"
        self._tombstone_seconds = tombstone_seconds
        self._url = url
        self._timeout = timeout
        self._redis = self._connect()

    async def close(self) -> None:
        await self._redis.aclose()

    async def upsert(self, changes: Sequence[Change]) -> Mapping[Change, str]:
        return await self._write(changes)

    async def delete(self, changes: Sequence[Change]) -> Mapping[Change, str]:
        return await self._write(changes)

    async def older_than(
        self, relation: str, shard: int | None, version: Version, after: str | None, limit: int
    ) -> Page:
        """Walks all names of the database: give the cache one of its own if there are many others.

        A document without a version counts as older.
        """
        start = f"{self._prefix}{named(relation)}:"
        pattern = _GLOB.sub(r"\\\1", start) + ("*" if shard is None else f"{shard}:*")
        cursor = int(after or 0)
        found: list[tuple[int, str]] = []
        for _ in range(_SCANS_PER_PAGE):
            with _answered():
                cursor, names = await self._redis.scan(cursor, match=pattern, count=_SCAN)
            found += await self._older(names, start, version)
            if cursor == 0 or len(found) >= limit:
                break
        return Page(found, str(cursor) if cursor else None)

    async def _older(
        self, names: Sequence[Any], start: str, version: Version
    ) -> list[tuple[int, str]]:
        places = [place for name in names if (place := _place(name, start)) is not None]
        if not places:
            return []
        marks = [f"{self._prefix}#{start[len(self._prefix) :]}{s}:{key}" for s, key in places]
        with _answered():
            versions: list[Any] = await self._redis.mget(marks)
        bound = _width(version)
        pairs = zip(places, versions, strict=True)
        return [place for place, known in pairs if known is None or known < bound]

    async def _write(self, changes: Sequence[Change]) -> Mapping[Change, str]:
        documents: dict[Change, bytes] = {}
        failures: dict[Change, str] = {}
        for change in changes:
            try:
                documents[change] = self._document(change)
            except ValueError as error:
                failures[change] = str(error)
        parts = chunks(
            list(documents),
            map(len, documents.values()),
            most=_SCRIPT_KEYS,
            most_bytes=_SCRIPT_BYTES,
        )
        calls = [self._arguments(part, documents) for part in parts]
        with _answered():
            try:
                await self._call(calls)
            except NoScriptError:
                await self._redis.script_load(_SCRIPT)
                await self._call(calls)
        return failures

    def _document(self, change: Change) -> bytes:
        """What to store; nothing to remove. ValueError when it cannot be stored."""
        identity(change).encode()
        if change.document is None:
            return b""
        document = change.document.encode()
        if not 0 < len(document) <= _LARGEST:
            raise ValueError(f"a document has 1 to {_LARGEST} bytes, got {len(document)}.")
        return document if self._keeps_documents else b""

    def _arguments(self, part: Sequence[Change], documents: Mapping[Change, bytes]) -> list[Any]:
        keys: list[Any] = []
        values: list[Any] = [self._tombstone_seconds]
        for change in part:
            name = identity(change)
            keys += [f"{self._prefix}{name}", f"{self._prefix}#{name}"]
            values += [_width(change.version), documents[change]]
        return [len(keys), *keys, *values]

    async def _call(self, calls: Sequence[Sequence[Any]]) -> None:
        async with self._redis.pipeline(transaction=False) as pipeline:
            for arguments in calls:
                pipeline.evalsha(_SCRIPT_NAME, *arguments)
            await pipeline.execute()

    def _connect(self) -> client.Redis:
        try:
            return client.Redis.from_url(
                self._url,
                socket_timeout=self._timeout,
                socket_connect_timeout=self._timeout,
                retry=Retry(NoBackoff(), 1),  # for a connection that broke while it was idle
            )
        except ValueError as error:
            raise Invalid(f"this is no address of a Redis: {error}") from None


@contextmanager
def _answered() -> Iterator[None]:
    """Whatever Redis complains of (away, loading, full, read-only), it is not about one key."""
    try:
        yield
    except (RedisError, OSError) as error:
        raise Unavailable(f"Redis: {error or type(error).__name__}") from error


def _place(name: bytes, start: str) -> tuple[int, str] | None:
    """Shard and key of a name; None when it is somebody else's."""
    try:
        shard, colon, key = name.decode().removeprefix(start).partition(":")
        return (int(shard), key) if colon else None
    except ValueError:
        return None


def _width(version: Version) -> bytes:
    return b"%019d" % version.number
