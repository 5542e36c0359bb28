"""Numbering and forwarding in a process of their own: ``python forwarding.py DSN``."""

import asyncio
import sys

from trunkline.broker import calls
from trunkline.broker.forwarder import BrokerForwarder
from trunkline.core.db import AsyncDb
from trunkline.core.listen import Listener


async def main(dsn: str) -> None:
    db = AsyncDb(dsn)
    forwarder = BrokerForwarder(db, Listener(db.connect), max_events=7)
    print("ready", flush=True)
    while True:
        await db.run(calls.tick())
        await forwarder.run_once()


asyncio.run(main(sys.argv[1]))
