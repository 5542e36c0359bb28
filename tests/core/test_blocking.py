"""Blocking loops over what comes asynchronously."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from trunkline.core.blocking import SyncIterator
from trunkline.core.portal import Portal
from trunkline.testing import wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator


@pytest.fixture
def portal() -> Iterator[Portal]:
    portal = Portal()
    yield portal
    portal.close()


class Source:
    """Numbers that come when they are told; `None` is the end."""

    def __init__(self, portal: Portal):
        self._portal = portal
        self._numbers: asyncio.Queue[int | Exception | None] = asyncio.Queue()
        self.waiting = threading.Event()
        self.ended = threading.Event()

    def tell(self, *numbers: int | Exception | None) -> None:
        for number in numbers:
            self._portal.ask(self._numbers.put_nowait, number)

    async def items(self) -> AsyncGenerator[int, None]:
        try:
            while True:
                self.waiting.set()
                number = await self._numbers.get()
                if number is None:
                    return
                if isinstance(number, Exception):
                    raise number
                yield number
        finally:
            self.ended.set()


@pytest.fixture
def source(portal: Portal) -> Source:
    return portal.ask(Source, portal)


@pytest.fixture
def numbers(portal: Portal, source: Source) -> SyncIterator[int]:
    return SyncIterator(portal, source.items())


def test_a_loop_gets_every_item_and_goes_on_where_it_was_left(
    source: Source, numbers: SyncIterator[int]
) -> None:
    source.tell(1, 2, 3, 4, None)
    for number in numbers:
        if number == 2:
            break
    assert list(numbers) == [3, 4]
    assert list(numbers) == []


def test_a_failure_is_raised_once_and_is_the_end(
    source: Source, numbers: SyncIterator[int]
) -> None:
    source.tell(1, LookupError("not here"), 2)
    assert next(numbers) == 1
    with pytest.raises(LookupError, match="not here"):
        next(numbers)
    assert list(numbers) == []


def test_control_c_loses_no_item(source: Source, numbers: SyncIterator[int]) -> None:
    def interrupt() -> None:
        source.waiting.wait(10)
        os.kill(os.getpid(), signal.SIGINT)

    # a shell that started us in the background has had it ignored
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with ThreadPoolExecutor(1) as threads, pytest.raises(KeyboardInterrupt):
            threads.submit(interrupt)
            next(numbers)
    finally:
        signal.signal(signal.SIGINT, before)
    assert not source.ended.is_set()
    source.tell(1, 2)
    assert [next(numbers), next(numbers)] == [1, 2]


def test_threads_that_share_a_loop_get_each_item_once(
    source: Source, numbers: SyncIterator[int]
) -> None:
    with ThreadPoolExecutor(4) as threads:
        found = [threads.submit(lambda: list(numbers)) for _ in range(4)]
        source.tell(*range(100), None)
        assert sorted(n for each in found for n in each.result(10)) == list(range(100))


def test_closing_ends_the_loop_of_another_thread(
    source: Source, numbers: SyncIterator[int]
) -> None:
    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(lambda: list(numbers))
        assert source.waiting.wait(10)
        numbers.close()
        assert reading.result(10) == []
    assert source.ended.is_set()
    numbers.close()
    assert list(numbers) == []


def test_the_end_of_the_portal_is_the_end_of_loops(
    portal: Portal, source: Source, numbers: SyncIterator[int]
) -> None:
    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(lambda: list(numbers))
        assert source.waiting.wait(10)
        portal.close()
        assert reading.result(10) == []
    assert list(SyncIterator(portal, source.items())) == []
    numbers.close()


def test_what_nobody_holds_any_more_is_closed_in_the_loop(portal: Portal, source: Source) -> None:
    source.tell(1)
    for _number in SyncIterator(portal, source.items()):
        break
    gc.collect()
    wait_until(source.ended.is_set)
