"""Keys in two zones, each with a database of its own, also while the line between them is cut.

Both take writes all the time. When they hear of each other again, the last word about a key counts,
and what both have counted adds up.
"""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import psycopg
from psycopg.conninfo import make_conninfo

import trunkline
from trunkline.core.service import Supervisor
from trunkline.testing import eventually

ZONES = ("east", "west")


@asynccontextmanager
async def zones(server: str):
    """A platform for each zone; the databases are dropped at the end."""
    dsns = {zone: make_conninfo(server, dbname=f"trunkline_example_{zone}") for zone in ZONES}
    async with AsyncExitStack() as stack:
        admin = await psycopg.AsyncConnection.connect(server, autocommit=True)
        await stack.enter_async_context(admin)
        for zone in ZONES:
            drop = f"drop database if exists trunkline_example_{zone} with (force)"
            await admin.execute(drop)
            await admin.execute(f"create database trunkline_example_{zone}")
            stack.push_async_callback(admin.execute, drop)
        nodes = {
            zone: await stack.enter_async_context(trunkline.connect(dsn, install=True))
            for zone, dsn in dsns.items()
        }
        for here, node in nodes.items():
            for zone, dsn in dsns.items():
                await node.kv.instance_put(zone, "main", dsn)
            await node.kv.instance_here(here, "main")
        yield nodes.values()


@asynccontextmanager
async def line(*nodes: trunkline.Platform):
    """While it is there each zone pulls from the other, as `trunkline up` does."""
    supervisors = [Supervisor(node.kv.services()) for node in nodes]
    running = [asyncio.create_task(supervisor.run()) for supervisor in supervisors]
    yield
    for supervisor in supervisors:
        await supervisor.stop()
    await asyncio.gather(*running)


async def main() -> None:
    async with trunkline.connect() as tl, zones(tl.dsn) as (east, west):

        async def same() -> bool:
            return await east.kv.scan() == await west.kv.scan()

        async with line(east, west):
            await east.kv.put("user:1", {"name": "Ann"})
            await eventually(same, timeout=30)
            print("put in the east, read in the west:", await west.kv.get("user:1"))

        await east.kv.put("motto", "east was first")
        await west.kv.put("motto", "west was last")
        await west.kv.delete("user:1")
        await east.kv.patch_numeric("page:1", {"views": 3})
        await west.kv.patch_numeric("page:1", {"views": 4, "likes": 1})
        for name, zone in (("east", east), ("west", west)):
            print(f"cut off, {name}:", await zone.kv.get("motto"), await zone.kv.get("page:1"))

        async with line(east, west):
            await eventually(same, timeout=30)
        print("together again:", {entry.key: entry.value for entry in await east.kv.scan()})


asyncio.run(main())
