"""A worker in a process of its own: ``python tube_worker.py DSN``."""

import asyncio
import sys

import trunkline
from trunkline.core.service import Loop
from trunkline.tube.pace import Pace
from trunkline.tube.services import TubeSequencer


async def main(dsn: str) -> None:
    async with trunkline.connect(dsn, name="victim") as tl:
        stop = asyncio.Event()
        pace = Pace(batch=20, poll_interval=0.02)
        worker = tl.tube.worker("items", ("postgres", {"table": "copied"}), pace=pace)
        numbering = asyncio.create_task(Loop(TubeSequencer(tl.db)).run(stop))
        print("ready", flush=True)
        await worker.run(stop)
        await numbering


asyncio.run(main(sys.argv[1]))
