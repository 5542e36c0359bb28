"""Waiting for an event, for a while. No task is made for it: those who wait do so all the time."""

from __future__ import annotations

import asyncio


async def set_within(event: asyncio.Event, timeout: float | None) -> bool:
    """Wait for an event; False when that takes too long."""
    try:
        async with asyncio.timeout(timeout):
            await event.wait()
    except TimeoutError:
        return False
    return True
