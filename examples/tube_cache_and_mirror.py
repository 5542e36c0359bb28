"""A Redis cache and a second database follow a table while four writers change it.

Each gets a tube of its own, so neither waits for the other. At the end both are compared with the
table, row by row. The cache needs `redis-server` (Debian has it) and the Python package `redis`;
without the server only the mirror is kept.
"""

import asyncio
import os
import random
import shutil
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import redis.asyncio
from psycopg.conninfo import make_conninfo

import trunkline
from trunkline.core.service import Supervisor
from trunkline.testing import eventually

WRITERS, CHANGES, PRODUCTS = 4, 150, 400
MIRROR = "trunkline_example_mirror"
PREFIX = "shop:"


async def clean(tl: trunkline.Platform) -> None:
    for tube in {listed.tube for listed in await tl.tube.list()} & {"cache", "mirror"}:
        await tl.tube.drop(tube, force=True)
    async with await psycopg.AsyncConnection.connect(tl.dsn, autocommit=True) as connection:
        await connection.execute("drop table if exists product")
        await connection.execute(f"drop database if exists {MIRROR} with (force)")


async def prepare(tl: trunkline.Platform) -> None:
    async with await psycopg.AsyncConnection.connect(tl.dsn, autocommit=True) as connection:
        await connection.execute(
            "create table product (id int primary key, name text, price numeric, stock int)"
        )
        await connection.execute(
            "insert into product select i, 'product ' || i, i * 1.10, 0"
            f" from generate_series(1, {PRODUCTS // 2}) i"
        )
        await connection.execute(f"create database {MIRROR}")


async def follow(tl: trunkline.Platform, tube: str, kind: str, **options: str) -> None:
    """Send a table where it is to go: what is in it now, and every change from now on."""
    await tl.tube.ensure(tube)
    await tl.tube.attach(tube, "product")
    await tl.tube.downstream(tube, kind, options)
    await tl.tube.backfill_schedule(tube)


async def write(tl: trunkline.Platform, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(CHANGES):
        product = chance.randrange(PRODUCTS)
        statement = chance.choice(
            [
                "insert into product values (%(id)s, 'new', 9.90, 1) on conflict do nothing",
                "update product set stock = stock + 1, price = price * 1.01 where id = %(id)s",
                "update product set name = name || '!' where id = %(id)s",
                "delete from product where id = %(id)s",
            ]
        )
        async with tl.transaction() as connection:
            await connection.execute(statement, {"id": product})


async def table(tl: trunkline.Platform) -> dict[str, str]:
    async with tl.transaction() as connection:
        cursor = await connection.execute("select id::text, to_jsonb(product)::text from product")
        return dict(await cursor.fetchall())


async def mirrored(dsn: str) -> dict[str, str]:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        cursor = await connection.execute(
            "select key, document::text from trunkline_documents where document is not null"
        )
        return dict(await cursor.fetchall())


async def cached(url: str) -> dict[str, str]:
    found = {}
    async with redis.asyncio.from_url(url, decode_responses=True) as client:
        async for name in client.scan_iter(f"{PREFIX}product:*"):
            if (document := await client.get(name)) is not None:
                found[name.rpartition(":")[2]] = document
    return found


async def compare(tl: trunkline.Platform, name: str, read) -> None:
    """Wait until everything has arrived, then say how the rows compare."""
    rows = await table(tl)

    async def arrived() -> bool:
        return await read() == rows

    await eventually(arrived, timeout=30)
    copies = await read()
    equal = sum(copies[key] == row for key, row in rows.items())
    left_over = len(copies.keys() - rows.keys())
    print(f"{name}: {equal} of {len(rows)} rows are equal, {left_over} are left over")


@asynccontextmanager
async def redis_server():
    """The address of a server that lives as long as the block; None when there is no program."""
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as place:
        socket = Path(place, "redis.sock")
        process = await asyncio.create_subprocess_exec(
            *[program, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", place],
            stdout=asyncio.subprocess.DEVNULL,
        )
        try:
            await eventually(lambda: socket.exists())
            yield f"unix://{socket}"
        finally:
            process.terminate()
            await process.wait()


async def main() -> None:
    async with redis_server() as cache, trunkline.connect() as tl:
        await clean(tl)
        await prepare(tl)
        mirror = make_conninfo(tl.dsn, dbname=MIRROR)
        os.environ["TRUNKLINE_DOWNSTREAM_MIRROR"] = mirror  # the worker reads it, nothing stores it
        await follow(tl, "mirror", "postgres", dsn="${TRUNKLINE_DOWNSTREAM_MIRROR}")
        if cache is not None:
            await follow(tl, "cache", "redis", url=cache, prefix=PREFIX)

        supervisor = Supervisor(tl.services())  # as `trunkline up` does
        running = asyncio.create_task(supervisor.run())
        await asyncio.gather(*(write(tl, seed) for seed in range(WRITERS)))
        print(f"{WRITERS} writers made {WRITERS * CHANGES} changes")
        await compare(tl, "mirror", lambda: mirrored(mirror))
        if cache is None:
            print("cache: left out, there is no redis-server here")
        else:
            await compare(tl, "cache", lambda: cached(cache))
        print("parked:", len(await tl.tube.parked()))
        await supervisor.stop()
        await running
        await clean(tl)


asyncio.run(main())
