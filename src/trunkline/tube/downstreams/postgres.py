"""A table in the same or another Postgres: one row per key, with document and version.

To read it as the table it mirrors, lay a view over it::

    create view mirrored_orders as
    select r.* from trunkline_documents d, jsonb_populate_record(null::orders, d.document) r
    where d.relation = 'orders' and d.document is not null;

A deleted row stays ``tombstone_seconds`` with a NULL document and its version.

No index holds a column that changes when a document is written anew, and half of each page is left
free when rows come: the next version of a row fits beside it, and no index is written.
"""

from __future__ import annotations

import re
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from trunkline.core.acting import become
from trunkline.core.db import AsyncDb
from trunkline.core.errors import (
    DatabaseError,
    Forbidden,
    Invalid,
    NotFound,
    Unavailable,
    from_database,
)
from trunkline.core.execution import translated
from trunkline.tube import calls
from trunkline.tube.downstreams.base import Downstream, Page, halved, newest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from trunkline.tube.downstreams.base import Mirror
    from trunkline.tube.models import Change, KeyId, Version

_PRESENT = "select to_regclass(%s) is not null"
# Two that find nothing at the same time must not both create it: that can fail in the catalogue.
# All in one message, so that a process that stops in between keeps nobody waiting.
_CREATE = """
do $create$ begin
  perform pg_advisory_xact_lock(hashtextextended({name}, 0));
  create table if not exists {table} (
    relation text not null,
    shard int not null,
    key text not null,
    document jsonb,
    version bigint not null,
    written_at timestamptz not null default clock_timestamp(),
    gone_at timestamptz generated always as (case when document is null then written_at end) stored,
    primary key (relation, shard, key)
  ) with (fillfactor = 50);
  if not exists
    (select from pg_index i where i.indrelid = {name}::regclass and i.indpred is not null)
  then
    create index on {table} (gone_at) where gone_at is not null;
  end if;
end $create$"""
# One statement for a whole batch. In the order of keys, so that two batches never deadlock.
_WRITE = """
insert into {table} as t (relation, shard, key, document, version)
select u.relation, u.shard, u.key, u.document::jsonb, u.version
from unnest(%(names)b::text[], %(shards)b::int[], %(keys)b::text[], %(documents)b::text[],
            %(numbers)b::bigint[])
     as u (relation, shard, key, document, version)
order by u.relation, u.shard, u.key
on conflict (relation, shard, key) do update
set document = excluded.document, version = excluded.version, written_at = clock_timestamp()
where t.version <= excluded.version"""
_OLDER = """
select shard, key from {table}
where relation = (%(names)b::text[])[1]
  and (shard, key) > ((%(shards)b::int[])[1], (%(keys)b::text[])[1])
  and ((%(shards)b::int[])[2] is null or shard = (%(shards)b::int[])[2])
  and document is not null and version < (%(numbers)b::bigint[])[1]
order by shard, key limit (%(numbers)b::bigint[])[2]"""
# It waits for nobody, and so cannot deadlock with those who write in the order of keys.
_FORGET = """
delete from {table} where (relation, shard, key) in (
  select relation, shard, key from {table}
  where gone_at < clock_timestamp() - make_interval(secs => {seconds})
  limit 10000 for update skip locked)"""
# A name is taken as it is, or in quotes as SQL has it, which a dot or a quote inside needs.
_PART = r'(?:"(?:[^"]|"")+"|[^".]+)'
_NAME = re.compile(rf"{_PART}(\.{_PART})?")
# What `_run_as` answers: arrays of texts and numbers.
_LISTED = """
select array_agg(o.key order by o.shard, o.key), null::text[],
       array_agg(o.shard order by o.shard, o.key), count(*)
from ({listing}) o"""
_COUNTED = """
with done as ({change} returning 1)
select null::text[], null::text[], null::int[], count(*) from done"""
_NUMBERED = {"keys": "$1", "shards": "$2", "documents": "$3", "numbers": "$4", "names": "$5"}
_PLACE = re.compile(r"%\((\w+)\)b")
_RUN_AS = (
    "select d.texts, d.places from trunkline._run_as(%(role)s, %(statement)s, %(keys)b::text[],"
    " %(shards)b::int[], %(documents)b::text[], %(numbers)b::bigint[], %(names)b::text[],"
    " keep => true, answers => %(answers)s) d"
)
_WRITER = b"select writer, plain from trunkline._tube_writer(%s, %s)"
_START = "-2147483648:"  # below every shard and key
_FORGET_EVERY = 600.0  # seconds
# SQLSTATE classes that speak of the values: cardinality, data, constraints, view checks, limits of
# the program, and what triggers of the table raise.
_OF_THE_VALUES = {"21", "22", "23", "44", "54", "P0"}


class _Refused(Exception):
    """A value of the batch cannot be stored."""


class PostgresDownstream(Downstream):
    """Rows (relation, shard, key, document, version, written_at, gone_at)."""

    def __init__(
        self,
        *,
        dsn: str,
        table: str = "trunkline_documents",
        create: bool = True,
        tombstone_seconds: float = 86_400,
        connect_timeout: float = 10,
        prepare: bool = True,
        author: str | None = None,
    ):
        """``author`` is the role that configured it and writes; None: that of the session."""
        if not _NAME.fullmatch(table):
            raise Invalid(
                f"a table is named as name or schema.name, got '{table}'.",
                hint='A part with a dot or a quote in it is written as in SQL: schema."my.table".',
            )
        if tombstone_seconds <= 0:
            raise Invalid(f"tombstone_seconds must be above 0, got {tombstone_seconds}.")
        self._name = table
        self._table = sql.Identifier(*map(_unquoted, re.findall(_PART, table)))
        self._create = create
        self._author = author
        self._writer: str | None = None
        self._plain = True
        self._tombstone_seconds = tombstone_seconds
        self._connection: dict[str, Any] = {
            "dsn": dsn,
            "connect_timeout": connect_timeout,
            "prepare": prepare,
        }
        self._db: AsyncDb | None = None
        self._forget_at = 0.0

    async def open(self) -> None:
        if self._db is not None:
            return
        db = AsyncDb(pool_max=8, **self._connection)
        try:
            with translated():
                async with db.connection() as connection:
                    await self._prepare(connection)
        except BaseException:
            await db.close()
            raise
        self._db = db

    async def close(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            await db.close()

    async def upsert(self, changes: Sequence[Change]) -> Mapping[Change, str]:
        return await halved(newest(changes), self._write, refusals=(_Refused,))

    async def delete(self, changes: Sequence[Change]) -> Mapping[Change, str]:
        await self._forget()
        return await halved(newest(changes), self._write, refusals=(_Refused,))

    def mirror_of(self, dsn: str) -> Mirror | None:
        return self._mirror if dsn == self._connection["dsn"] else None

    async def older_than(
        self, relation: str, shard: int | None, version: Version, after: str | None, limit: int
    ) -> Page:
        after_shard, _, after_key = (after or _START).partition(":")
        keys = await self._list(
            _OLDER,
            _values(
                names=[relation],
                shards=[int(after_shard), shard],
                keys=[after_key],
                numbers=[version.number, limit],
            ),
        )
        return Page(keys, f"{keys[-1][0]}:{keys[-1][1]}" if len(keys) == limit else None)

    async def _prepare(self, connection: psycopg.AsyncConnection[Any]) -> None:
        """Have the table, with all that writing to it needs."""
        name = self._table.as_string(connection)
        await self._find_role(connection, name)
        if not await _answer(connection, _PRESENT, [name]):
            if not self._create:
                raise NotFound(
                    f'there is no table "{self._name}" to write documents to.',
                    hint='Make it, or let it be made with the option "create": true.',
                )
            create = sql.SQL(_CREATE).format(table=self._table, name=name).as_string(connection)
            if self._plain:
                await connection.execute(create.encode())
            else:
                await self._run_as(connection, create, _values(), answers=False)
            await self._find_role(connection, name)
        try:
            if self._plain:
                await connection.execute(self._statement("explain " + _WRITE), _values())
                await connection.execute(self._statement("explain " + _FORGET), _values())
            else:
                for change in (_WRITE, _FORGET):
                    await self._run_as(connection, _COUNTED.format(change=change), _values())
        except psycopg.errors.InsufficientPrivilege as error:
            raise Forbidden(
                f'table "{self._name}" cannot be written: {error.diag.message_primary}.',
                hint="The role needs select, insert, update and delete on it.",
            ) from error
        except (psycopg.ProgrammingError, psycopg.NotSupportedError) as error:
            raise Invalid(
                f'table "{self._name}" cannot take documents: {error.diag.message_primary}.',
                hint="It needs relation text, shard int, key text (together its primary key),"
                " document jsonb, version bigint, written_at timestamptz with a default, and"
                " gone_at timestamptz generated as written_at where document is null.",
            ) from error

    async def _mirror(self, attachment: int, ids: Sequence[KeyId]) -> None:
        await self._forget()
        call = calls.mirror(attachment, ids, documents=self._table.as_string())
        db = self._opened()
        if self._writer is None:
            await db.run(call)
            return
        async with db.transaction() as connection:
            with translated(connection):
                await become(connection, self._writer)
                await db.run(call, on=connection)

    async def _forget(self) -> None:
        if time.monotonic() >= self._forget_at:
            self._forget_at = time.monotonic() + _FORGET_EVERY
            await self._change(_FORGET, _values())

    async def _write(self, changes: Sequence[Change]) -> Mapping[Change, str]:
        await self._change(
            _WRITE,
            _values(
                names=[change.relation for change in changes],
                shards=[change.shard for change in changes],
                keys=[change.key for change in changes],
                documents=[change.document for change in changes],
                numbers=[change.version.number for change in changes],
            ),
        )
        return {}

    async def _change(self, text: str, values: dict[str, Any]) -> None:
        async with self._judging() as connection:
            if self._plain:
                await connection.execute(self._statement(text), values)
            else:
                await self._run_as(connection, _COUNTED.format(change=text), values)

    async def _list(self, text: str, values: dict[str, Any]) -> list[tuple[int, str]]:
        async with self._judging() as connection:
            if self._plain:
                cursor = await connection.execute(self._statement(text), values)
                return [(row[0], row[1]) for row in await cursor.fetchall()]
            keys, shards = await self._run_as(connection, _LISTED.format(listing=text), values)
            return list(zip(shards or (), keys or (), strict=True))

    @asynccontextmanager
    async def _judging(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        async with self._opened().connection() as connection:
            try:
                yield connection
            except (psycopg.Error, UnicodeError) as error:
                raise _judged(error) from error

    async def _find_role(self, connection: psycopg.AsyncConnection[Any], name: str) -> None:
        """Who writes, and whether the session may do so as it is."""
        if self._author is not None:
            cursor = await connection.execute(_WRITER, [self._author, name])
            self._writer, self._plain = await cursor.fetchone() or (None, False)

    async def _run_as(
        self,
        connection: psycopg.AsyncConnection[Any],
        text: str,
        values: dict[str, Any],
        *,
        answers: bool = True,
    ) -> tuple[list[str] | None, list[int] | None]:
        """Run a statement of ours as the role: triggers, policies and defaults of the table too."""
        statement = text
        if answers:
            statement = _PLACE.sub(lambda found: _NUMBERED[found[1]], self._formatted(text))
        cursor = await connection.execute(
            _RUN_AS.encode(),
            {**values, "role": self._writer, "statement": statement, "answers": answers},
            prepare=False,
        )
        row = await cursor.fetchone()
        return row if row is not None else (None, None)

    def _opened(self) -> AsyncDb:
        if self._db is None:
            raise Unavailable("the downstream is not open.")
        return self._db

    def _statement(self, text: str) -> bytes:
        """A statement with values: a percent sign in the name is none of their places."""
        return self._formatted(text, percent="%%").encode()

    def _formatted(self, text: str, percent: str = "%") -> str:
        table = self._table.as_string().replace("%", percent)
        return text.format(table=table, seconds=float(self._tombstone_seconds))


def _unquoted(part: str) -> str:
    return part[1:-1].replace('""', '"') if part[0] == '"' else part


async def _answer(connection: psycopg.AsyncConnection[Any], query: str, values: list[Any]) -> Any:
    cursor = await connection.execute(query.encode(), values)
    row = await cursor.fetchone()
    return row and row[0]


def _values(**arrays: list[Any]) -> dict[str, Any]:
    """The arrays of a statement; those not named are empty."""
    return {name: arrays.get(name, []) for name in _NUMBERED}


def _judged(error: psycopg.Error | UnicodeError) -> Exception:
    """Is it the values, or is it the server?"""
    if isinstance(error, UnicodeError) or (
        error.sqlstate is None and isinstance(error, psycopg.DataError)  # the driver's own word
    ):
        return _Refused(str(error))
    if (error.sqlstate or "")[:2] in _OF_THE_VALUES:
        said = (error.diag.message_primary, error.diag.message_detail)
        return _Refused(": ".join(part for part in said if part) or str(error))
    known = from_database(error)
    if isinstance(known, Unavailable):
        return known
    state = known.sqlstate if isinstance(known, DatabaseError) else known.code
    return Unavailable(f"the table refuses every document: {known.message} ({state})")
