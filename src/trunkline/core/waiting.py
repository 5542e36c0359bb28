"""Waiting for an event, for a while. No task is made for it: those who wait do so all the time."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


async def set_within(event: asyncio.Event, timeout: float | None) -> bool:
    """Wait for an event; False when that takes too long."""
    try:
        async with asyncio.timeout(timeout):
            await event.wait()
    except TimeoutError:
        return False
    return True


async def cancelled() -> NoReturn:
    """Be cancelled, as one was whose cancellation somebody has caught meanwhile.

    A scope of anyio knows its own by their words, and cancels again with them who waits again.
    """
    await asyncio.sleep(0)
    raise asyncio.CancelledError


@asynccontextmanager
async def cut_off(seconds: float, *, after: asyncio.Future[Any]) -> AsyncIterator[None]:
    """Let what is under way in the block go on for so long after that; then it ends where it is.

    Whoever is told to stop may wait for a server that does not answer.
    """
    clock = asyncio.get_running_loop()
    within = asyncio.timeout(None)

    def hurry(_told: asyncio.Future[Any]) -> None:
        with suppress(RuntimeError):  # the block has ended
            within.reschedule(clock.time() + seconds)

    try:
        async with within:
            after.add_done_callback(hurry)
            try:
                yield
            finally:
                after.remove_done_callback(hurry)
    except TimeoutError:
        if not within.expired():
            raise
