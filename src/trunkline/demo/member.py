"""A member of the group *counters* in a process of its own, to be killed: see `scenario`.

The database comes in the environment; topic and schema are arguments. It ends with its parent.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading

import trunkline
from trunkline.demo.workers import COUNTERS, count_views

NAME = "the member that is killed"


def main() -> None:
    """Count until somebody ends it."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    asyncio.run(_count(*sys.argv[1:]))


async def _count(topic: str, schema: str) -> None:
    async with trunkline.connect(name=NAME) as platform:
        await count_views(platform, platform.log.consume(topic, COUNTERS), schema)


def _end_with_parent() -> None:
    os.read(0, 1)  # nobody writes: it returns when the other end is closed
    os._exit(0)


if __name__ == "__main__":
    main()
