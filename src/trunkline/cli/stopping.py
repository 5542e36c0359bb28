"""Commands that work until they are told to stop, and then stop soon."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any

_STEP = 0.5  # seconds that each goodbye may take once a server has been silent for too long


async def until_told(work: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    """Run work until control-C or SIGTERM sets its event; the second time it is meant.

    It may end in good order. If that takes too long, because the server does not answer, each
    step of it is cut off, one after the other: leases run out by themselves.
    """
    from trunkline.core.lease import GOODBYE_WITHIN

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def told() -> None:
        stop.set()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told)
    working = asyncio.create_task(work(stop))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait({working}, timeout=GOODBYE_WITHIN)
        while not working.done():
            working.cancel()
            await asyncio.wait({working}, timeout=_STEP)
    finally:
        stopping.cancel()
    if not working.cancelled():
        working.result()
