"""Cell `subscriptions`: how much it matters how many there are, when the condition is equality."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING

from trunkline.broker.bench.deliver import CONDITION
from trunkline.broker.bench.ground import ours
from trunkline.log.bench.measure import Row, Target

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from trunkline.broker.bench.ground import Ours
    from trunkline.log.bench.lab import Lab

_FEW = 1_000
_EVENTS = "'order.placed', jsonb_build_object('tenant', g % {tenants}, 'note', repeat('x', 40))"
_PARAMS = "jsonb_build_object('tenant', g % {tenants})"


async def subscriptions(lab: Lab) -> AsyncGenerator[Row]:
    """Each event is wanted by one of 1,000, then by one of 100,000 subscriptions."""
    many = 5_000 if lab.quick else 100_000
    n = 2_000 if lab.quick else 10_000
    few_times, many_times = _measured(lab, _FEW, n), _measured(lab, many, n)
    for place, (case, target) in enumerate(
        (("matching", Target(at_most=3)), ("publish, number and match", Target(at_most=2)))
    ):
        costs = [median(turn[place] for turn in turns) for turns in (few_times, many_times)]
        yield Row(
            "subscriptions",
            f"{n} events, {case}: {many} subscriptions vs {_FEW}",
            round(costs[1] / costs[0], 2),
            target=target,
            runs=lab.runs,
            details={"ms": [round(1000 * cost, 1) for cost in costs]},
        )


def _measured(lab: Lab, tenants: int, n: int) -> list[tuple[float, float]]:
    """Of each turn, how long matching took, and all of it."""
    with ours(lab) as mine:
        params = _PARAMS.format(tenants=tenants)
        mine.subscribe(f"of{tenants}", CONDITION, params, tenants)
        return [_turn(mine, tenants, n) for _ in range(lab.runs + 1)][1:]


def _turn(mine: Ours, tenants: int, n: int) -> tuple[float, float]:
    before = mine.delivered()
    begin = time.perf_counter()
    mine.publish(_EVENTS.format(tenants=tenants), n)
    mine.tick()
    middle = time.perf_counter()
    while mine.match():
        pass
    end = time.perf_counter()
    assert mine.delivered() - before == n
    return end - middle, end - begin
