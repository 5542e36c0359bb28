"""A table in the same or another Postgres: one row per key, with document and version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg import sql

from trunkline.core.db import AsyncDb, translated
from trunkline.core.errors import Invalid
from trunkline.tube.downstreams.base import Downstream

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trunkline.tube.models import Change, Version

_CREATE = """
create table if not exists {table} (
  relation text not null,
  shard int not null,
  key text not null,
  document jsonb,
  version bigint not null,
  written_at timestamptz not null default clock_timestamp(),
  primary key (relation, shard, key)
)"""
# One statement for a whole batch. In the order of keys, so that two batches never deadlock.
_WRITE = """
insert into {table} as t (relation, shard, key, document, version)
select u.relation, u.shard, u.key, u.document::jsonb, u.version
from unnest(%b::text[], %b::int[], %b::text[], %b::text[], %b::bigint[])
     as u (relation, shard, key, document, version)
order by u.relation, u.shard, u.key
on conflict (relation, shard, key) do update
set document = excluded.document, version = excluded.version, written_at = clock_timestamp()
where t.version <= excluded.version"""
_OLDER = """
select shard, key from {table}
where relation = %s and (%s::int is null or shard = %s) and document is not null and version < %s
  and (%s::text is null or key > %s) order by key limit %s"""
_FORGET = """
delete from {table} where document is null and written_at < clock_timestamp() - interval '1 day'"""


class PostgresDownstream(Downstream):
    """Rows (relation, shard, key, document, version); a deleted one stays a day as a tombstone."""

    def __init__(self, *, dsn: str, table: str = "trunkline_documents", create: bool = True):
        parts = table.split(".")
        if not all(parts) or len(parts) > 2:
            raise Invalid(f'a table is "name" or "schema.name", got "{table}".')
        self._table = sql.Identifier(*parts)
        self._create = create
        self._db = AsyncDb(dsn, pool_max=8)

    async def open(self) -> None:
        if self._create:
            await self._execute(_CREATE)
        await self._execute(_FORGET)

    async def close(self) -> None:
        await self._db.close()

    async def upsert(self, changes: Sequence[Change]) -> Mapping[Change, str]:
        return await self._write(changes)

    async def delete(self, changes: Sequence[Change]) -> Mapping[Change, str]:
        return await self._write(changes)

    async def older_than(
        self, relation: str, shard: int | None, version: Version, after: str | None, limit: int
    ) -> Sequence[tuple[int, str]]:
        values = [relation, shard, shard, version.number, after, after, limit]
        return [(row[0], row[1]) for row in await self._execute(_OLDER, values)]

    async def _write(self, changes: Sequence[Change]) -> Mapping[Change, str]:
        await self._execute(
            _WRITE,
            [
                [change.relation for change in changes],
                [change.shard for change in changes],
                [change.key for change in changes],
                [change.document for change in changes],
                [change.version.number for change in changes],
            ],
        )
        return {}

    async def _execute(self, text: str, values: Sequence[Any] | None = None) -> list[Any]:
        statement = sql.SQL(text).format(table=self._table)  # type: ignore[arg-type]
        async with self._db.connection() as connection:
            with translated():
                cursor = await connection.execute(statement, values)
                return await cursor.fetchall() if cursor.description else []
