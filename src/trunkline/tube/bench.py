"""Tubes measured against bare tables, in one run: ``trunkline tube bench``, ``make bench``."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, asynccontextmanager
from statistics import median
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from trunkline.core.db import AsyncDb
from trunkline.core.lease import ProcessLease
from trunkline.core.listen import Listener
from trunkline.log import bench as log_bench
from trunkline.log.bench.measure import (
    Row,
    Slice,
    Target,
    calling,
    compare,
    figures,
    interleave,
    percentile,
    ratio,
)
from trunkline.tube import backfill_calls, calls
from trunkline.tube.client import Tubes

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence

    from trunkline.log.bench.lab import Lab
    from trunkline.log.bench.measure import Side

_COLUMNS = "id bigint primary key, customer int, status text, total numeric, note text"
_POINTS = 20  # of a curve
_READ_EVERY = 0.02  # seconds
_ROWS = (
    "select nextval('bench_tube.ids'), g %% 1000, 'open', g * 1.5, 'a note of some length ' || g"
    " from generate_series(1, %s) g"
)


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


async def capture(lab: Lab) -> AsyncGenerator[Row]:
    """What attaching costs those who write."""
    async with _tables(lab) as connect:
        # single rows first: small entries would fill what large ones have left of their pages
        yield await _captured(lab, connect, 1, Target(at_least=1 / 1.6))
        async with AsyncExitStack() as stack:
            writers = [await stack.enter_async_context(connect()) for _ in range(8)]
            found = await interleave(
                lab, {"ours": _writers(writers, "attached"), "baseline": _writers(writers, "bare")}
            )
        yield Row(
            "capture",
            "insert of 1 row, 8 writers, attached vs bare",
            ratio(found["ours"], found["baseline"]),
            target=Target(at_least=0.65),
            ours=figures(found["ours"]),
            baseline=figures(found["baseline"]),
            runs=lab.runs,
        )
        yield await _captured(lab, connect, 100, Target(at_least=0.75))


async def deliver(lab: Lab) -> AsyncGenerator[Row]:
    """One worker into a table, enrichment included, against INSERT ... SELECT of the same rows."""
    n = 10_000 if lab.quick else 50_000
    async with _tables(lab) as connect, connect() as connection, _tubes(lab) as tubes:
        worker = tubes.worker(_tube(lab), ("postgres", {"table": "bench_tube.documents"}))
        await connection.execute(f"insert into bench_tube.attached {_ROWS}", [n])

        async def ours(_seconds: float) -> Slice:
            await connection.execute("update bench_tube.attached set total = total + 1")
            begin = time.perf_counter()
            await tubes.tick()
            delivered = await worker.run_once()
            took = time.perf_counter() - begin
            return Slice(delivered, took, [took])

        async def copied(_seconds: float) -> Slice:
            await connection.execute("truncate bench_tube.copied")
            begin = time.perf_counter()
            await connection.execute(
                "insert into bench_tube.copied select * from bench_tube.attached"
            )
            took = time.perf_counter() - begin
            return Slice(n, took, [took])

        yield await compare(
            lab,
            "deliver",
            f"{n} changed rows through one worker vs INSERT ... SELECT",
            ours=ours,
            baseline=copied,
            target=Target(at_least=0.15),
        )


async def backfill(lab: Lab) -> AsyncGenerator[Row]:
    """Keys per second into entries, and what live inserts feel of it."""
    n = 100_000 if lab.quick else 1_000_000
    async with _tables(lab) as connect, connect() as connection, connect() as writer:
        await connection.execute(f"insert into bench_tube.bare {_ROWS}", [n])
        await connection.execute("analyze bench_tube.bare")
        live = _insert(writer, "attached", 1)
        quiet = [await _timed(live) for _ in range(200)]
        lab.db.run(calls.attach(_tube(lab), "bench_tube.bare"))
        [number] = lab.db.run(
            backfill_calls.schedule(_tube(lab), relation="bench_tube.bare", chunk=20_000)
        )
        busy: list[float] = []
        begin = time.perf_counter()
        steps = asyncio.create_task(asyncio.to_thread(_steps, lab, number))
        while not steps.done():
            busy.append(await _timed(live))
        took = time.perf_counter() - begin
        await steps
        yield Row(
            "backfill",
            f"{n} rows into entries",
            round(n / took),
            "keys/s",
            Target(at_least=100_000),
        )
        yield Row(
            "backfill",
            "p50 of live single inserts meanwhile vs before",
            round(median(busy) / median(quiet), 2),
            target=Target(at_most=2),
            details={
                "p50_ms": [percentile(sorted(quiet), 0.5), percentile(sorted(busy), 0.5)],
                "p99_ms": [percentile(sorted(quiet), 0.99), percentile(sorted(busy), 0.99)],
            },
        )


async def held(lab: Lab) -> AsyncGenerator[Row]:
    """Reading under a pinned horizon: the cost of a read shows no slope."""
    seconds = 600 if lab.full else (5 if lab.quick else 30)
    async with _tables(lab) as connect, connect() as writer, connect() as holder:
        await holder.execute("begin isolation level repeatable read")
        await holder.execute("select 1")
        insert = _insert(writer, "attached", 1)
        costs: list[float] = []
        begin = read_at = time.perf_counter()
        done = 0
        while (now := time.perf_counter()) - begin < seconds:
            if now >= read_at:
                read_at = now + _READ_EVERY
                lab.db.run(calls.tick())
                head = lab.db.run(calls.head())
                lab.db.run(calls.read(_tube(lab), 0, 0, max(1, head - 100), head))
                costs.append(time.perf_counter() - now)
            elif done < (now - begin) * 1_000:
                done += await insert()
            else:
                await asyncio.sleep(0.0005)
        fifth = max(1, len(costs) // 5)
        first, last = (percentile(sorted(part), 0.5) for part in (costs[:fifth], costs[-fifth:]))
        point = max(1, len(costs) // _POINTS)
        curve = [
            percentile(sorted(costs[place : place + point]), 0.5)
            for place in range(0, len(costs), point)
        ]
        yield Row(
            "held",
            f"tick and read at up to 1,000 touches/s for {seconds} s, last fifth vs first",
            round(last / first, 2),
            target=Target(at_most=1.2),
            details={"curve_ms": curve, "touches": done, "reads": len(costs)},
        )


CELLS = {"capture": capture, "deliver": deliver, "backfill": backfill, "held": held}


@asynccontextmanager
async def _tubes(lab: Lab) -> AsyncIterator[Tubes]:
    db = AsyncDb(lab.dsn)
    lease, listener = ProcessLease(db, name="bench"), Listener(db.connect)
    try:
        yield Tubes(db, lease=lease, listener=listener)
    finally:
        await lease.close()
        await listener.close()
        await db.close()


def _tube(lab: Lab) -> str:
    return f"{lab.prefix}.tube"


@asynccontextmanager
async def _tables(
    lab: Lab,
) -> AsyncIterator[Callable[[], Any]]:
    """A bare and an attached table in a schema of their own."""
    lab.watcher.execute("drop schema if exists bench_tube cascade")
    lab.watcher.execute("create schema bench_tube")
    lab.watcher.execute("create sequence bench_tube.ids cache 100")
    for name in ("bare", "attached", "copied"):
        lab.watcher.execute(
            sql.SQL("create table {} ({})").format(
                sql.Identifier("bench_tube", name), sql.SQL(_COLUMNS)
            )
        )
    lab.db.run(calls.ensure(_tube(lab)))
    lab.db.run(calls.attach(_tube(lab), "bench_tube.attached"))

    @asynccontextmanager
    async def connect() -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        connection = await psycopg.AsyncConnection.connect(lab.dsn, autocommit=True)
        try:
            yield connection
        finally:
            await connection.close()

    try:
        yield connect
    finally:
        lab.db.run(calls.drop(_tube(lab), force=True))
        lab.watcher.execute("drop schema bench_tube cascade")


async def _captured(lab: Lab, connect: Callable[[], Any], rows: int, target: Target) -> Row:
    async with connect() as connection:
        return await compare(
            lab,
            "capture",
            f"insert of {rows} rows per statement, 1 writer, attached vs bare",
            ours=calling(_insert(connection, "attached", rows)),
            baseline=calling(_insert(connection, "bare", rows)),
            target=target,
        )


def _insert(connection: psycopg.AsyncConnection[Any], table: str, rows: int) -> Any:
    statement = f"insert into bench_tube.{table} {_ROWS}".encode()

    async def work() -> int:
        await connection.execute(statement, [rows], prepare=True)
        return rows

    return work


def _writers(connections: Sequence[psycopg.AsyncConnection[Any]], table: str) -> Side:
    """All at once, in sessions that stay: what a session has to load comes with the warm-up."""

    async def side(seconds: float) -> Slice:
        parts = await asyncio.gather(
            *(calling(_insert(connection, table, 1))(seconds) for connection in connections)
        )
        return Slice(
            sum(part.messages for part in parts),
            max(part.seconds for part in parts),
            [latency for part in parts for latency in part.latencies],
        )

    return side


def _steps(lab: Lab, number: int) -> None:
    with psycopg.connect(lab.dsn, autocommit=True) as connection:
        more = True
        while more:
            row = connection.execute("select trunkline.tube_backfill_step(%s)", [number]).fetchone()
            more = bool(row and row[0])


async def _timed(work: Any) -> float:
    begin = time.perf_counter()
    await work()
    return time.perf_counter() - begin
