"""Live tables measured against the design of their seed, in one run: ``make bench``.

The baseline writes the row before, the row after and what differs into a table of events by a
statement trigger. A reader copies a chunk of it into a temporary table and runs one query for each
distinct condition, which joins it with the subscriptions. It tells nobody of rows that leave a
condition, asks no policy, and remembers how far it came before anybody was told.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import psycopg

import trunkline
from trunkline.core.service import Supervisor
from trunkline.log import bench as log_bench
from trunkline.log.bench.measure import Row, Target, calling, compare, percentile

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
    from uuid import UUID

    from trunkline import Platform
    from trunkline.log.bench.lab import Lab

_EVENTS = 1_000  # that one read looks at
_TABLE = "id bigint primary key, org_id int not null, name text not null, score int"
_SETUP = f"""
drop schema if exists bench_live cascade;
create schema bench_live;
create table bench_live.ours ({_TABLE});
create table bench_live.seed ({_TABLE});
create table bench_live.event (id bigint generated always as identity primary key, topic text,
  row_before jsonb, row_data jsonb, diff jsonb);
create index on bench_live.event (topic, id);
create table bench_live.subscription (id bigint generated always as identity primary key,
  device text, topic text, condition text, params text[]);
create index on bench_live.subscription (device, condition, topic);
create function bench_live.differs(old jsonb, new jsonb) returns jsonb language sql immutable as $$
  select jsonb_object_agg(n.key, n.value) from jsonb_each(new) n
   where n.value is distinct from old -> n.key and n.value <> 'null';
$$;
create function bench_live.capture() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' then
    insert into bench_live.event (topic, row_data)
      select 'seed.insert', to_jsonb(n) from new_rows n;
  else
    insert into bench_live.event (topic, row_before, row_data, diff)
      select 'seed.update', to_jsonb(o), to_jsonb(n),
             bench_live.differs(to_jsonb(o), to_jsonb(n))
        from old_rows o join new_rows n using (id);
  end if;
  return null;
end $$;
create trigger captured_insert after insert on bench_live.seed
  referencing new table as new_rows for each statement execute function bench_live.capture();
create trigger captured_update after update on bench_live.seed
  referencing old table as old_rows new table as new_rows
  for each statement execute function bench_live.capture();
create function bench_live.read(device_ text, after bigint, many int)
returns table (id bigint, row_data jsonb, diff jsonb, subscriptions bigint[])
language plpgsql as $$
declare
  asked text;
begin
  create temp table if not exists tmp_event (like bench_live.event);
  insert into tmp_event
    select * from bench_live.event e where e.id > after order by e.id limit many;
  for asked in select distinct s.condition from bench_live.subscription s where s.device = device_
  loop
    return query execute format(
      'select e.id, e.row_data, e.diff, array_agg(s.id) from tmp_event e'
      ' join bench_live.subscription s on s.device = $1 and s.topic = e.topic and s.condition = $2'
      ' and %s group by e.id, e.row_data, e.diff', asked) using device_, asked;
  end loop;
  delete from tmp_event;
end $$;
"""
_CONDITION = "e.row_data ->> ''org_id'' = s.params[1]"


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


async def write(lab: Lab) -> AsyncGenerator[Row]:
    """What it costs to write to a table that somebody may follow."""
    async with _tables(lab) as (_, connection):
        for many, target in ((1, 0.85), (1000, 0.85)):
            yield await compare(
                lab,
                "write",
                f"update of {many} row{'s' * (many > 1)} per transaction",
                ours=calling(_updating(connection, "ours", many)),
                baseline=calling(_updating(connection, "seed", many)),
                target=Target(at_least=target),
            )


async def read(lab: Lab) -> AsyncGenerator[Row]:
    """A thousand events for the subscriptions of one process, each for one organisation."""
    for many, target in ((1_000, 0.5), (2_000 if lab.quick else 20_000, 1.0)):
        async with _tables(lab) as (platform, connection):
            process = await platform._lease.hold()  # noqa: SLF001 - as streams do
            await _subscribe(connection, process, many)
            while await platform.broker.tick():
                pass
            after = await platform.broker.head()
            for table in ("ours", "seed"):
                await connection.execute(
                    f"insert into bench_live.{table}"
                    f" select 100000 + n, n %% {many}, 'new', n from generate_series(1, %s) n",
                    [_EVENTS],
                )
            while await platform.broker.tick():
                pass
            first = await _one(connection, "select min(id) - 1 from bench_live.event")
            yield await compare(
                lab,
                "read",
                f"{_EVENTS} events, {many} subscriptions by equality",
                ours=calling(_asking(connection, _OURS, after, process)),
                baseline=calling(_asking(connection, _SEED, first, "device")),
                target=Target(at_least=target),
            )


async def latency(lab: Lab) -> AsyncGenerator[Row]:
    """From the commit of an update until a stream has told it, with a hundred others open."""
    times = 20 if lab.quick else 300
    async with _tables(lab) as (platform, connection):
        supervisor = Supervisor(platform.services())
        running = asyncio.create_task(supervisor.run())
        others = [asyncio.create_task(_follow(platform, {"org_id": org})) for org in range(1, 101)]
        took: list[float] = []
        try:
            async with platform.live.stream("bench_live.ours", condition={"org_id": 0}) as stream:
                batches = aiter(stream)
                for n in range(1, times + 6):
                    coming = asyncio.ensure_future(anext(batches))
                    await connection.execute(
                        "update bench_live.ours set score = %s where id = 100", [n], prepare=True
                    )
                    begin = time.perf_counter()
                    await coming
                    took.append(time.perf_counter() - begin)
        finally:
            for other in others:
                other.cancel()
            await asyncio.wait(others)
            await supervisor.stop()
            await running
        took = sorted(took[5:])
        for share, target in ((0.5, 50), (0.99, 150)):
            yield Row(
                "latency",
                f"commit to told, p{share * 100:g}; the seed looks every 500 ms",
                percentile(took, share),
                "ms",
                Target(at_most=target),
            )


CELLS = {"write": write, "read": read, "latency": latency}

_OURS = "select count(*) from trunkline.live_read(%s, process => %s, max_events => 1000)"
_SEED = "select count(*) from bench_live.read(device_ => %s, after => %s, many => 1000)"


async def _follow(platform: Platform, condition: dict[str, Any]) -> None:
    async with platform.live.stream("bench_live.ours", condition=condition) as stream:
        async for _ in stream:
            pass


async def _subscribe(connection: psycopg.AsyncConnection[Any], process: UUID, many: int) -> None:
    await connection.execute(
        "select trunkline.live_subscribe('bench_live.ours',"
        " jsonb_build_object('org_id', n), process => %s) from generate_series(0, %s) n",
        [process, many - 1],
    )
    await connection.execute(
        "insert into bench_live.subscription (device, topic, condition, params)"
        f" select 'device', 'seed.insert', '{_CONDITION}', array[n::text]"
        " from generate_series(0, %s) n",
        [many - 1],
    )
    await connection.execute("analyze trunkline.live_subscription; analyze bench_live.subscription")


def _updating(
    connection: psycopg.AsyncConnection[Any], table: str, many: int
) -> Callable[[], Awaitable[int]]:
    turn = 0

    async def work() -> int:
        nonlocal turn
        turn += 1
        first = turn * many * 7919 % 50_000
        await connection.execute(
            f"update bench_live.{table} set score = %s where id > %s and id <= %s".encode(),
            [turn, first, first + many],
            prepare=True,
        )
        return many

    return work


def _asking(
    connection: psycopg.AsyncConnection[Any], statement: str, after: int, whose: Any
) -> Callable[[], Awaitable[int]]:
    values = [after, whose] if statement is _OURS else [whose, after]

    async def work() -> int:
        assert await _one(connection, statement, values) >= _EVENTS
        return _EVENTS

    return work


async def _one(
    connection: psycopg.AsyncConnection[Any], statement: str, values: list[Any] | None = None
) -> int:
    found = await connection.execute(statement.encode(), values or [], prepare=True)
    row = await found.fetchone()
    assert row is not None
    return int(row[0])


@asynccontextmanager
async def _tables(
    lab: Lab,
) -> AsyncIterator[tuple[Platform, psycopg.AsyncConnection[Any]]]:
    """A live table and the seed's, with a hundred thousand rows each."""
    connection = await psycopg.AsyncConnection.connect(lab.dsn, autocommit=True)
    try:
        await connection.execute(_SETUP)
        for table in ("ours", "seed"):
            await connection.execute(
                f"insert into bench_live.{table}"
                " select n, n %% 100, 'name ' || n, 0 from generate_series(1, %s) n",
                [100_000],
            )
        await connection.execute("truncate bench_live.event; analyze bench_live.ours")
        async with trunkline.connect(lab.dsn) as platform:
            await platform.live.watch("bench_live.ours")
            yield platform, connection
            await platform.live.unwatch("bench_live.ours")
    finally:
        await connection.execute("drop schema bench_live cascade")
        await connection.close()
