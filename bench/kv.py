"""The key-value store measured against the design of its seed, in one run: ``make bench``.

The baseline is a table of keys with an indexed time, a function that tries UPDATE and then INSERT
while the stored time is not newer, and a replication that calls it for every row of a window of
time. It has no counters, no expiry on reads and no feed of changes; it loses what commits late.
"""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.conninfo import make_conninfo

import trunkline
from trunkline.core import migrate
from trunkline.core.service import Supervisor
from trunkline.kv.puller import Puller
from trunkline.log import bench as log_bench
from trunkline.log.bench.measure import Row, Slice, Target, calling, compare, percentile

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

    from trunkline import Platform
    from trunkline.log.bench.lab import Lab

_KEYS = 10_000
_VALUE = json.dumps({"user": "u" * 120, "cart": list(range(20)), "seen": True})
_SEED = """
drop schema if exists bench_kv cascade;
create schema bench_kv;
create table bench_kv.entry (
  key text collate "C" primary key, value json, changed timestamptz not null, peer int not null);
create index on bench_kv.entry (changed);
create table bench_kv.target (like bench_kv.entry including all);
create function bench_kv.store(place regclass, k text, v json, at timestamptz, origin int)
returns text language plpgsql as $$
declare
  touched int;
begin
  for attempt in 1 .. 5 loop
    execute format('update %s set value = $1, changed = $2, peer = $3'
                   ' where key = $4 and changed <= $2', place) using v, at, origin, k;
    get diagnostics touched = row_count;
    if touched > 0 then
      return 'UPDATE';
    end if;
    begin
      execute format('insert into %s (key, value, changed, peer) values ($1, $2, $3, $4)', place)
        using k, v, at, origin;
      return 'INSERT';
    exception when unique_violation then
      execute format('select 1 from %s where key = $1 and changed > $2', place)
         into touched using k, at;
      if touched is not null then
        return 'CONFLICT';
      end if;
    end;
  end loop;
  raise exception 'no luck';
end $$;
"""


def run(
    dsn: str,
    *,
    quick: bool = False,
    full: bool = False,
    only: str | None = None,
    runs: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Measure all cells, or those that ``only`` names; as `trunkline.log.bench.run`."""
    return log_bench.run(
        dsn, quick=quick, full=full, only=only, runs=runs, progress=progress, cells=CELLS
    )


async def put(lab: Lab) -> AsyncGenerator[Row]:
    """One key in each transaction, and a thousand in one."""
    async with _seed(lab) as connection:
        yield await compare(
            lab,
            "put",
            "250 B, one key per transaction, update",
            ours=calling(_single(connection, "select trunkline.kv_put('default', %s, %s::jsonb)")),
            baseline=calling(_single(connection, _STORE)),
            target=Target(at_least=0.7),
        )
        yield await compare(
            lab,
            "put",
            "250 B, 1000 keys per transaction, update",
            ours=calling(_many(connection, _OURS_MANY)),
            baseline=calling(_many(connection, _SEED_MANY)),
            target=Target(at_least=1.0),
        )


async def get(lab: Lab) -> AsyncGenerator[Row]:
    """One key, which is shown only while it lives."""
    async with _seed(lab) as connection:
        yield await compare(
            lab,
            "get",
            "250 B, one key",
            ours=calling(_read(connection, "select trunkline.kv_get('default', %s)")),
            baseline=calling(_read(connection, "select value from bench_kv.entry where key = %s")),
            target=Target(at_least=0.7),
        )


async def replicate(lab: Lab) -> AsyncGenerator[Row]:
    """Ten thousand keys that changed: from their commit until they are in the other copy."""
    n = 2_000 if lab.quick else _KEYS
    async with _seed(lab) as connection, _zones(lab) as (east, west):
        (peer,) = await west.kv.peers()
        puller = Puller(west.db, west._lease, "west/s", peer)  # noqa: SLF001 - as `up` makes it
        values = {f"key {key}": {"n": "x" * 200} for key in range(n)}

        async def pull() -> None:
            while await east.kv.tick():
                pass
            while await puller.run_once():
                pass

        async def ours(_seconds: float) -> Slice:
            await east.kv.put_many(values)
            begin = time.perf_counter()
            await pull()
            took = time.perf_counter() - begin
            return Slice(n, took, [took])

        async def seed(_seconds: float) -> Slice:
            await connection.execute(_SEED_MANY, [[f"key {key}" for key in range(n)], [_VALUE] * n])
            begin = time.perf_counter()
            await connection.execute(
                "select bench_kv.store('bench_kv.target', key, value, changed, peer)"
                " from bench_kv.entry where changed > now() - interval '5 seconds'"
            )
            took = time.perf_counter() - begin
            return Slice(n, took, [took])

        await pull()
        try:
            yield await compare(
                lab,
                "replicate",
                f"{n} changed keys of 250 B to another copy",
                ours=ours,
                baseline=seed,
                target=Target(at_least=1.0),
            )
        finally:
            await puller.close()


async def delay(lab: Lab) -> AsyncGenerator[Row]:
    """From the commit of a put until another zone shows it; the seed waits for 1 to 2 seconds."""
    times = 20 if lab.quick else 300
    async with _zones(lab) as (east, west):
        supervisors = [Supervisor(node.kv.services()) for node in (east, west)]
        tasks = [asyncio.create_task(each.run()) for each in supervisors]
        took: list[float] = []
        try:
            async with _session_of(west) as session:
                for n in range(times + 5):
                    await east.kv.put("delayed", n)
                    begin = time.perf_counter()
                    await _until_shown(session, n)
                    took.append(time.perf_counter() - begin)
        finally:
            for each in supervisors:
                await each.stop()
            await asyncio.gather(*tasks)
        took = sorted(took[5:])
        for share, target in ((0.5, 100), (0.99, 300)):
            yield Row(
                "delay",
                f"put to visible in another zone, p{share * 100:g}",
                percentile(took, share),
                "ms",
                Target(at_most=target),
            )


CELLS = {"put": put, "get": get, "replicate": replicate, "delay": delay}

_STORE = "select bench_kv.store('bench_kv.entry', %s, %s::json, clock_timestamp(), 1)"
_OURS_MANY = "select trunkline.kv_put_many('default', %s::text[], %s::jsonb[])"
_SEED_MANY = (
    "select bench_kv.store('bench_kv.entry', u.k, u.v::json, clock_timestamp(), 1)"
    " from unnest(%s::text[], %s::text[]) u (k, v)"
)


async def _until_shown(session: psycopg.AsyncConnection[Any], n: int) -> None:
    shown = None
    while shown != (n,):
        found = await session.execute("select trunkline.kv_get('default', 'delayed')", prepare=True)
        shown = await found.fetchone()
        await asyncio.sleep(0.001)


@asynccontextmanager
async def _session_of(node: Platform) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    connection = await psycopg.AsyncConnection.connect(node.dsn, autocommit=True)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def _seed(lab: Lab) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """Both stores with ten thousand keys each."""
    connection = await psycopg.AsyncConnection.connect(lab.dsn, autocommit=True)
    try:
        await connection.execute(_SEED)
        keys = [f"key {n}" for n in range(_KEYS)]
        for statement in (_OURS_MANY, _SEED_MANY):
            await connection.execute(statement, [keys, [_VALUE] * _KEYS])
        await connection.execute("analyze bench_kv.entry")
        yield connection
    finally:
        await connection.execute("drop schema bench_kv cascade")
        await connection.execute("delete from trunkline.kv_entry where namespace = 'default'")
        await connection.close()


@asynccontextmanager
async def _zones(lab: Lab) -> AsyncIterator[tuple[Platform, Platform]]:
    """Two zones in databases of their own."""
    places = {zone: f"{lab.prefix}.{zone}".replace(".", "_") for zone in ("east", "west")}
    dsns = {zone: make_conninfo(lab.dsn, dbname=name) for zone, name in places.items()}
    nodes: list[Platform] = []
    try:
        for name in places.values():
            lab.watcher.execute(f'create database "{name}"')
        for dsn in dsns.values():
            migrate.install(dsn)
            nodes.append(await trunkline.connect(dsn))
        for zone, node in zip(dsns, nodes, strict=True):
            for each, dsn in dsns.items():
                await node.kv.instance_put(each, "s", dsn)
            await node.kv.instance_here(zone, "s")
        east, west = nodes
        yield east, west
    finally:
        for node in nodes:
            await node.close()
        for name in places.values():
            lab.watcher.execute(f'drop database if exists "{name}" with (force)')


def _single(
    connection: psycopg.AsyncConnection[Any], statement: str
) -> Callable[[], Awaitable[int]]:
    turn = 0

    async def work() -> int:
        nonlocal turn
        turn += 1
        await connection.execute(
            statement.encode(), [f"key {turn * 7919 % _KEYS}", _VALUE], prepare=True
        )
        return 1

    return work


def _many(connection: psycopg.AsyncConnection[Any], statement: str) -> Callable[[], Awaitable[int]]:
    keys, values = [f"key {n}" for n in range(1000)], [_VALUE] * 1000

    async def work() -> int:
        await connection.execute(statement.encode(), [keys, values], prepare=True)
        return len(keys)

    return work


def _read(connection: psycopg.AsyncConnection[Any], statement: str) -> Callable[[], Awaitable[int]]:
    turn = 0

    async def work() -> int:
        nonlocal turn
        turn += 1
        await connection.execute(statement.encode(), [f"key {turn * 7919 % _KEYS}"], prepare=True)
        return 1

    return work
