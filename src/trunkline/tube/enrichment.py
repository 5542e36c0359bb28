"""Enrichment: from keys to documents, in sets.

Each enricher answers with one JSON text per key, or None where the row is gone. Where it reads a
replica it waits until that has replayed the version; one that is late or away leaves the primary.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any, Protocol

from trunkline.core.errors import Invalid, Unavailable
from trunkline.core.execution import translated
from trunkline.tube import calls

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from trunkline.core.db import AsyncDb
    from trunkline.tube.models import Touch, Version

    EnrichFunction = Callable[[Sequence[Touch]], Awaitable[Mapping[str, Any]]]

_REPLAYED = "select not pg_is_in_recovery() or pg_last_wal_replay_lsn() >= ('0/0'::pg_lsn + %s)"
_REPLICA_PATIENCE = 5.0
_REPLICA_POLL = 0.01


class Enricher(Protocol):
    """Documents of touches that share an attachment; no key is among them twice."""

    async def __call__(
        self, attachment: int, touches: Sequence[Touch], version: Version
    ) -> Mapping[str, str | None]: ...


class RowEnricher:
    """The attached row as JSON."""

    def __init__(self, db: AsyncDb, *, replica: AsyncDb | None = None):
        self._db = db
        self._replica = replica
        self._source = Source(db, replica)

    def reads_only(self, db: AsyncDb) -> bool:
        """Whether that is the one database it reads from, in whatever role."""
        return self._replica is None and self._db.dsn == db.dsn

    async def __call__(
        self, attachment: int, touches: Sequence[Touch], version: Version
    ) -> Mapping[str, str | None]:
        db = await self._source.at(version)
        keys = [touch.key for touch in touches]
        shards = [touch.shard for touch in touches]
        return await db.run(calls.enrich(attachment, keys, shards=shards))


class QueryEnricher:
    """A query of the user's: takes ``%(keys)s`` (text[]), gives columns key and document.

    It knows no shards: of a row that moved, the document in the shard of before has to go.
    """

    def __init__(self, db: AsyncDb, query: str, *, replica: AsyncDb | None = None):
        if "%(keys)s" not in query:
            raise Invalid("an enrichment query needs the parameter %(keys)s, an array of texts.")
        self._source = Source(db, replica)
        self._query = query.encode()

    async def __call__(
        self, attachment: int, touches: Sequence[Touch], version: Version
    ) -> Mapping[str, str | None]:
        keys = [touch.key for touch in touches]
        db = await self._source.at(version)
        async with db.connection() as connection:
            with translated():
                # prepared, it would be refused once a column that it selects has another type
                cursor = await connection.execute(self._query, {"keys": keys}, prepare=False)
                rows = await cursor.fetchall()
        found = {str(row[0]): as_text(row[1]) for row in rows}
        moved = await db.run(calls.moved(attachment, keys, [touch.shard for touch in touches]))
        return {key: found.get(key) for key in keys} | dict.fromkeys(moved)


class StoredQueryEnricher:
    """A stored query, as `QueryEnricher`; the database runs it as the role that ``db`` acts as."""

    def __init__(self, db: AsyncDb, query: str):
        self._db = db
        self._query = numbered(query)

    async def __call__(
        self, attachment: int, touches: Sequence[Touch], version: Version
    ) -> Mapping[str, str | None]:
        keys = [touch.key for touch in touches]
        found = await self._db.run(calls.query(self._query, keys))
        moved = await self._db.run(calls.moved(attachment, keys, [t.shard for t in touches]))
        return {key: found.get(key) for key in keys} | dict.fromkeys(moved)


class FunctionEnricher:
    """An async function of the user's: touches in, documents by key out; a missing key is gone."""

    def __init__(self, function: EnrichFunction):
        self._function = function

    async def __call__(
        self, attachment: int, touches: Sequence[Touch], version: Version
    ) -> Mapping[str, str | None]:
        found = await self._function(touches)
        return {touch.key: as_text(found.get(touch.key)) for touch in touches}


class Source:
    """The database to read from: the replica once it has what we need, else the primary."""

    def __init__(self, primary: AsyncDb, replica: AsyncDb | None):
        self._primary = primary
        self._replica = replica

    async def at(self, version: Version) -> AsyncDb:
        """A database that has replayed the version."""
        if self._replica is None:
            return self._primary
        try:
            async with asyncio.timeout(_REPLICA_PATIENCE):
                while not await self._replayed(self._replica, version):  # noqa: ASYNC110
                    await asyncio.sleep(_REPLICA_POLL)
        except (TimeoutError, Unavailable):
            return self._primary
        return self._replica

    @staticmethod
    async def _replayed(replica: AsyncDb, version: Version) -> bool:
        async with replica.connection() as connection:
            with translated():
                cursor = await connection.execute(_REPLAYED, [version.lsn])
                row = await cursor.fetchone()
        return bool(row and row[0])


def numbered(query: str) -> str:
    """A query with ``%(keys)s`` as the server takes it: with $1."""
    if not isinstance(query, str) or "%(keys)s" not in query:
        raise Invalid("an enrichment query needs the parameter %(keys)s, an array of texts.")

    def place(found: re.Match[str]) -> str:
        if found[0] == "%":
            raise Invalid("a percent sign in an enrichment query is written %%.")
        return "%" if found[0] == "%%" else "$1::text[]"

    return re.sub(r"%%|%\(keys\)s|%", place, query).strip().rstrip(";")


def as_text(document: Any) -> str | None:
    """A document as JSON text; text is taken as it is."""
    if document is None or isinstance(document, str):
        return document
    return json.dumps(document, ensure_ascii=False, default=str)
