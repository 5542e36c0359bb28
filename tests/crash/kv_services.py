"""Runs the services of one instance of a parade until it is killed."""

from __future__ import annotations

import asyncio
import sys

import trunkline
from trunkline.core.service import Supervisor


async def main(dsn: str) -> None:
    async with trunkline.connect(dsn) as tl:
        print("ready", flush=True)
        await Supervisor(tl.kv.services()).run()


asyncio.run(main(sys.argv[1]))
