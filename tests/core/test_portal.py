"""The loop behind the blocking twins."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from trunkline.core.errors import BadRequest
from trunkline.core.portal import Portal
from trunkline.testing import wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator


@pytest.fixture
def portal() -> Iterator[Portal]:
    portal = Portal()
    yield portal
    portal.close()


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


async def fail() -> None:
    raise LookupError("not here")


def threads_of_portals() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "trunkline"]


def test_a_call_gives_what_the_coroutine_returns(portal: Portal) -> None:
    assert portal.call(double(21)) == 42


def test_a_call_raises_what_the_coroutine_raises(portal: Portal) -> None:
    with pytest.raises(LookupError, match="not here"):
        portal.call(fail())


def test_calls_of_many_threads_run_in_one_loop(portal: Portal) -> None:
    async def running() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    with ThreadPoolExecutor(8) as threads:
        loops = set(threads.map(lambda _: portal.call(running()), range(64)))
    assert len(loops) == 1


def test_no_thread_runs_before_the_first_call_and_after_the_end() -> None:
    portal = Portal()
    assert threads_of_portals() == []
    portal.call(double(1))
    assert len(threads_of_portals()) == 1
    portal.close()
    portal.close()
    assert threads_of_portals() == []


def test_a_closed_portal_refuses_and_stays_closed() -> None:
    portal = Portal()
    portal.close()
    with pytest.raises(BadRequest, match="closed"):
        portal.call(double(1))
    assert threads_of_portals() == []


def test_closing_frees_those_who_wait(portal: Portal) -> None:
    started = threading.Event()
    ended = threading.Event()

    async def endless() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(portal.call, endless())
        assert started.wait(10)
        portal.close()
        assert ended.is_set()
        with pytest.raises(CancelledError):
            waiting.result(10)


def test_who_stops_waiting_stops_the_coroutine(portal: Portal) -> None:
    ended = threading.Event()

    async def interrupted() -> None:
        # a little later: by then the caller waits for us
        asyncio.get_running_loop().call_later(0.2, os.kill, os.getpid(), signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    # a shell that started us in the background has had it ignored
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            portal.call(interrupted())
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.wait(10)


def test_a_blocking_call_inside_the_loop_is_refused_and_does_not_hang(portal: Portal) -> None:
    async def nested() -> int:
        return portal.call(double(1))

    with pytest.raises(BadRequest, match="thread"):
        portal.call(nested())


def test_async_generators_are_closed_with_the_loop() -> None:
    portal = Portal()
    ended = threading.Event()

    async def numbers() -> AsyncGenerator[int, None]:
        try:
            yield 1
        finally:
            ended.set()

    generator = numbers()

    async def first() -> int:
        return await anext(generator)

    assert portal.call(first()) == 1
    portal.close()
    wait_until(ended.is_set)
