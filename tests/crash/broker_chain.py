"""Parts of the broker in a process of their own: ``python broker_chain.py DSN services|worker``."""

import asyncio
import sys
from typing import Any

import psycopg

import trunkline
from trunkline.broker.models import Event
from trunkline.core.service import Supervisor

EFFECT = "insert into effect (key, n, event_id) values (%s, %s, %s)"


async def services(dsn: str) -> None:
    async with trunkline.connect(dsn, name="services") as tl:
        print("ready", flush=True)
        await Supervisor(tl.broker.services()).run(asyncio.Event())


async def worker(dsn: str) -> None:
    app = trunkline.App(dsn, name="worker")

    @app.on("orders", group="billing", name="effect", retry=[0.1] * 10)
    async def effect(event: Event, transaction: psycopg.AsyncConnection[Any]) -> None:
        await transaction.execute(EFFECT, [event.key, event.payload["n"], event.event_id])

    await app.register()
    print("ready", flush=True)
    await app.run(services=False)


asyncio.run({"services": services, "worker": worker}[sys.argv[2]](sys.argv[1]))
