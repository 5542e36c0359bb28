"""The circuit of an endpoint: opens after failures, lets one try, closes when that goes well."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from trunkline.broker.circuit import Circuit
from trunkline.testing import eventually

if TYPE_CHECKING:
    from collections.abc import Callable


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def never() -> bool:
    return False


async def passes(circuit: Circuit) -> bool:
    """Whether one is let through without waiting."""
    try:
        async with asyncio.timeout(0.02), circuit.admitted(never) as admitted:
            return admitted
    except TimeoutError:
        return False


async def test_it_opens_after_so_many_failures_in_a_row_and_not_before() -> None:
    circuit = Circuit(failures=3, concurrency=2, clock=Clock())
    for _ in range(2):
        circuit.failed()
    circuit.succeeded()
    for _ in range(2):
        circuit.failed()
    assert await passes(circuit)
    circuit.failed()
    assert not await passes(circuit)


async def test_after_a_while_one_may_try_and_its_success_lets_all_go() -> None:
    clock = Clock()
    circuit = Circuit(failures=1, concurrency=4, clock=clock)
    circuit.failed()
    clock.now += 2
    async with circuit.admitted(never) as first:
        assert first
        assert not await passes(circuit)  # only one at a time
    circuit.succeeded()
    async with AsyncExitStack() as together:
        for _ in range(4):
            assert await together.enter_async_context(circuit.admitted(never))
        assert not await passes(circuit)  # no more than four


async def test_a_try_that_fails_makes_the_while_longer() -> None:
    clock = Clock()
    circuit = Circuit(failures=1, concurrency=1, clock=clock)
    circuit.failed()
    clock.now += 1
    assert await passes(circuit)
    circuit.failed()
    clock.now += 1
    assert not await passes(circuit)
    clock.now += 1
    assert await passes(circuit)


async def test_failures_of_what_was_under_way_do_not_make_it_longer() -> None:
    clock = Clock()
    circuit = Circuit(failures=1, concurrency=4, clock=clock)
    for _ in range(4):
        circuit.failed()
    clock.now += 1
    assert await passes(circuit)


async def test_an_endpoint_that_asks_for_a_rest_gets_it_without_having_failed() -> None:
    clock = Clock()
    circuit = Circuit(failures=5, concurrency=1, clock=clock)
    circuit.rest(30)
    circuit.succeeded()
    assert not await passes(circuit)
    assert not circuit.is_open
    clock.now += 30
    assert await passes(circuit)


@pytest.mark.parametrize("hold", [Circuit.failed, Circuit.shut])
async def test_who_waits_goes_when_there_is_nothing_to_wait_for(
    hold: Callable[[Circuit], None],
) -> None:
    circuit = Circuit(failures=1, concurrency=1)
    hold(circuit)
    stopping = False

    async def wait() -> bool:
        async with circuit.admitted(lambda: stopping) as admitted:
            return admitted

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    stopping = True
    circuit.look_again()
    await eventually(waiting.done)
    assert not await waiting


async def test_who_comes_to_a_circuit_that_is_shut_waits_instead_of_coming_again() -> None:
    circuit = Circuit(failures=5, concurrency=1)
    circuit.shut()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02), circuit.admitted(never):
            pass
