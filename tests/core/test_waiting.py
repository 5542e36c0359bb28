"""What is under way when somebody is told to stop goes on for a while, and no longer."""

from __future__ import annotations

import asyncio

import pytest

from trunkline.core.waiting import cut_off


async def test_a_block_ends_where_it_is_a_while_after_it_was_told_to() -> None:
    told = asyncio.get_running_loop().create_future()
    told.set_result(None)
    reached = []
    async with cut_off(0.02, after=told):
        await asyncio.sleep(0)
        reached.append("some of it")
        await asyncio.Event().wait()
    assert reached == ["some of it"]


async def test_a_block_that_nobody_stops_takes_its_time_and_its_errors_are_its_own() -> None:
    never = asyncio.get_running_loop().create_future()
    async with cut_off(0, after=never):
        await asyncio.sleep(0.02)
    with pytest.raises(TimeoutError, match="of its own"):
        async with cut_off(0, after=never):
            raise TimeoutError("of its own")


async def test_who_is_told_as_the_block_ends_is_not_cut_off_later() -> None:
    told = asyncio.get_running_loop().create_future()
    async with cut_off(0, after=told):
        told.set_result(None)
    await asyncio.sleep(0.01)


async def test_a_block_that_is_cancelled_is_cancelled() -> None:
    never = asyncio.get_running_loop().create_future()

    async def work() -> None:
        async with cut_off(10, after=never):
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
