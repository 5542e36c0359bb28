"""Cell `watch`: what watching a table costs those who write to it, against a bare table."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from trunkline.broker import watch_calls
from trunkline.log.bench.measure import Contender, Slice, Target, calling, compare_all

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from trunkline.log.bench.lab import Lab
    from trunkline.log.bench.measure import Row, Side

_COLUMNS = "id bigint primary key, customer int, status text, total numeric, note text"
_ROWS = (
    "select nextval('bench_watch.ids'), g %% 1000, 'open', g * 1.5, 'a note of some length ' || g"
    " from generate_series(1, %s) g"
)
_SHAPES = (
    (100, 1, Target(at_least=1 / 1.5)),
    (1, 1, None),
    (1, 8, Target(at_least=0.65)),
)


# The least that keeping rows by a trigger can cost: JSON and a time, no index, no topic, no id.
_KEEP = """
create table bench_watch.rows (at timestamptz not null default clock_timestamp(), payload jsonb);
create function bench_watch.keep() returns trigger language plpgsql as $$
begin
  insert into bench_watch.rows (payload) select to_jsonb(a) from added a;
  return null;
end $$;
create trigger keep after insert on bench_watch.kept referencing new table as added
  for each statement execute function bench_watch.keep();
"""


async def watch(lab: Lab) -> AsyncGenerator[Row]:
    """Inserts into a watched table, and into one that is watched no longer.

    What the least of all triggers costs is shown beside it.
    """
    lab.watcher.execute("drop schema if exists bench_watch cascade")
    lab.watcher.execute("create schema bench_watch")
    lab.watcher.execute("create sequence bench_watch.ids cache 100")
    for name in ("bare", "kept", "watched", "unwatched"):
        lab.watcher.execute(
            sql.SQL("create table {} ({})").format(
                sql.Identifier("bench_watch", name), sql.SQL(_COLUMNS)
            )
        )
        if name in ("watched", "unwatched"):
            lab.db.run(watch_calls.watch(f"bench_watch.{name}"))
    lab.db.run(watch_calls.unwatch("bench_watch.unwatched"))
    lab.watcher.execute(_KEEP)
    # as autovacuum leaves them; it is off while we measure
    lab.watcher.execute("vacuum trunkline.ring, trunkline.incarnation")
    try:
        for rows, writers, target in _SHAPES:
            async with AsyncExitStack() as stack:
                connections = [
                    await stack.enter_async_context(
                        await psycopg.AsyncConnection.connect(lab.dsn, autocommit=True)
                    )
                    for _ in range(writers)
                ]
                shape = f"insert of {rows} rows per statement, {writers} writers"
                contenders = {f"{shape}, watched vs bare": _side(connections, "watched", rows)}
                targets = [target]
                if rows > 1:
                    unwatched = _side(connections, "unwatched", rows)
                    contenders[f"{shape}, unwatched vs bare"] = unwatched
                    targets.append(Target(at_least=0.95))
                    least = _side(connections, "kept", rows)
                    contenders[f"{shape}, kept as JSON by a bare trigger vs bare"] = least
                    targets.append(None)
                measured = {
                    what: Contender(side, wanted)
                    for (what, side), wanted in zip(contenders.items(), targets, strict=True)
                }
                bare = _side(connections, "bare", rows)
                for row in await compare_all(lab, "watch", measured, baseline=bare):
                    yield row
    finally:
        lab.watcher.execute("drop schema bench_watch cascade")


def _side(connections: Sequence[psycopg.AsyncConnection[Any]], table: str, rows: int) -> Side:
    """All writers at once, in sessions that stay."""
    statement = f"insert into bench_watch.{table} {_ROWS}".encode()

    def writer(connection: psycopg.AsyncConnection[Any]) -> Side:
        async def work() -> int:
            await connection.execute(statement, [rows], prepare=True)
            return rows

        return calling(work)

    async def side(seconds: float) -> Slice:
        parts = await asyncio.gather(*(writer(connection)(seconds) for connection in connections))
        return Slice(
            sum(part.messages for part in parts),
            max(part.seconds for part in parts),
            [latency for part in parts for latency in part.latencies],
        )

    return side
