"""Cell `deliver`: from committed events to deliveries, and what that writes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from trunkline.broker.bench.baseline import SCHEMA, baseline, table_bytes
from trunkline.broker.bench.ground import TABLES, ours
from trunkline.log.bench.measure import Row, Slice, Target, figures, interleave, ratio

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from trunkline.broker.bench.baseline import Baseline
    from trunkline.broker.bench.ground import Ours
    from trunkline.log.bench.lab import Lab
    from trunkline.log.bench.measure import Side

TENANTS = 1_000
EVENTS = (
    "'order.placed', jsonb_build_object('tenant', g % 1000, 'note', repeat('x', 20) || g,"
    " 'total', g * 1.5, 'status', 'open')"
)
CONDITION = "e.payload ->> 'tenant' = s.params ->> 'tenant'"
PARAMS = "jsonb_build_object('tenant', g % 1000)"
THEIRS = "s.params @> jsonb_build_object('tenant', e.payload -> 'tenant')"
EVENTS_ALONE = r"^event_\d+$"
_STATEMENT = 100  # events
_FASTER, _SMALLER = Target(at_least=1.8), Target(at_most=0.5)


async def deliver(lab: Lab) -> AsyncGenerator[Row]:
    """Events that each one, and each four of a thousand subscriptions per group want."""
    n = 2_000 if lab.quick else 10_000
    for groups in (1, 4):
        case = f"{n} events, each for {groups} of {groups * TENANTS} subscriptions"
        with ours(lab) as mine, baseline(lab.dsn, THEIRS) as plain:
            for number in range(groups):
                mine.subscribe(f"group{number}", CONDITION, PARAMS, TENANTS)
                plain.subscribe(f"group{number}", PARAMS, TENANTS)
            wanted = n * groups
            before = _bytes(plain)
            found = await interleave(
                lab,
                {"baseline": _baseline_side(plain, n, wanted), "ours": _our_side(mine, n, wanted)},
            )
            after = _bytes(plain)
        yield Row(
            "deliver",
            f"{case}: committed to delivered",
            ratio(found["ours"], found["baseline"]),
            target=_FASTER,
            ours=figures(found["ours"]),
            baseline=figures(found["baseline"]),
            runs=lab.runs,
        )
        wal = [figures(found[side]).wal_bytes_per_message or 0.0 for side in ("ours", "baseline")]
        yield _smaller(f"{case}: WAL, publishing included", wal, _SMALLER)
        per_event = [
            (end - begin) / (n * (lab.runs + 1)) for begin, end in zip(before, after, strict=True)
        ]
        mine_all, events_alone, theirs = per_event
        yield _smaller(f"{case}: bytes in tables and indexes", [mine_all, theirs], _SMALLER)
        yield _smaller(f"{case}: bytes of the events alone", [events_alone, theirs], None)


def _smaller(case: str, per_event: list[float], target: Target | None) -> Row:
    mine, plain = per_event
    return Row(
        "deliver",
        case,
        round(mine / plain, 2),
        target=target,
        details={"bytes_per_event": round(mine, 1), "baseline": round(plain, 1)},
    )


def _our_side(mine: Ours, n: int, wanted: int) -> Side:
    def work() -> None:
        before = mine.delivered()
        mine.tick()
        while mine.match():
            pass
        found = mine.delivered() - before
        assert found == wanted, f"{found} deliveries, expected {wanted}"

    return _side(mine.publish, work, n)


def _baseline_side(plain: Baseline, n: int, wanted: int) -> Side:
    def work() -> None:
        found = 0
        while part := plain.poll():
            found += part
        assert found == wanted, f"{found} deliveries, expected {wanted}"

    return _side(plain.publish, work, n)


def _side(publish: Callable[[str, int], None], work: Callable[[], None], n: int) -> Side:
    async def side(_seconds: float) -> Slice:
        for _ in range(n // _STATEMENT):
            publish(EVENTS, _STATEMENT)
        begin = time.perf_counter()
        work()
        took = time.perf_counter() - begin
        return Slice(n, took, [took])

    return side


def _bytes(plain: Baseline) -> list[int]:
    """What both designs have on disk: all of ours, our events alone, and all of the other."""
    theirs = "^(events|unread_events|subscription_events)$"
    return [
        table_bytes(plain.connection, "trunkline", TABLES),
        table_bytes(plain.connection, "trunkline", EVENTS_ALONE),
        table_bytes(plain.connection, SCHEMA, theirs),
    ]
