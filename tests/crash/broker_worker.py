"""An app in a process of its own: ``python broker_worker.py DSN``.

``count`` is exactly once. ``note`` is at least once, in the order of keys. ``kill`` dies over one
event. All begin with the history, so that nothing depends on who starts first.
"""

import asyncio
import os
import signal
import sys
from typing import Any

import psycopg

import trunkline

app = trunkline.App(sys.argv[1], name="victim")


@app.on("orders", group="g", name="count", from_position=1, retry=[0] * 5)
async def count(event: trunkline.Delivered, connection: psycopg.AsyncConnection[Any]) -> None:
    await connection.execute(
        "insert into counted (name, n) values (%s, 1)"
        " on conflict (name) do update set n = counted.n + 1",
        [event.payload["name"]],
    )
    if event.payload["n"] % 7 == 0 and event.attempt == 1:
        raise ValueError("after the effect, before the commit")


@app.on("orders", group="g", name="note", from_position=1, retry=[0] * 5)
async def note(event: trunkline.Delivered) -> None:
    if event.payload["n"] % 5 == 0 and event.attempt == 1:
        raise ValueError("not now")
    async with app.platform.transaction() as connection:
        await connection.execute(
            "insert into noted (key, n) values (%s, %s)", [event.key, event.payload["n"]]
        )


@app.on("poison", group="g", name="kill", from_position=1, retry=[0])
async def kill(event: trunkline.Delivered) -> None:
    if event.payload == "deadly":
        os.kill(os.getpid(), signal.SIGKILL)
    async with app.platform.transaction() as connection:
        await connection.execute("insert into survived (name) values (%s)", [event.payload])


print("ready", flush=True)
asyncio.run(app.run())
