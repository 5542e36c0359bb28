"""Cell `held`: a transaction that published stays open, a snapshot too, and nothing gets slower."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg

from trunkline.broker.bench.baseline import SCHEMA, baseline
from trunkline.broker.bench.deliver import CONDITION, EVENTS, PARAMS, TENANTS, THEIRS
from trunkline.broker.bench.ground import TABLES, ours
from trunkline.log.bench.measure import Row, Target, percentile

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

    from trunkline.broker.bench.baseline import Baseline
    from trunkline.broker.bench.ground import Ours
    from trunkline.log.bench.lab import Lab

_EVERY = 0.05  # seconds between two polls
_BURST = 20  # events between two polls: 400 a second
_PARTS = 6
_DEAD = """
  select coalesce(sum(n_dead_tup), 0) from pg_stat_user_tables
   where schemaname = %s and relname ~ %s
"""


async def held(lab: Lab) -> AsyncGenerator[Row]:
    """Polls in turns, ours and the baseline's, at 400 events a second, with many events behind."""
    seconds = 60 if lab.full else 10 if lab.quick else 30
    behind = 1_000_000 if lab.full else 10_000 if lab.quick else 100_000
    with ours(lab) as mine, baseline(lab.dsn, THEIRS) as plain:
        mine.subscribe("held", CONDITION, PARAMS, TENANTS)
        plain.subscribe("held", PARAMS, TENANTS)
        with _snapshot(lab.dsn):
            for _ in range(behind // 10_000):
                mine.publish(EVENTS, 10_000)
                mine.settle()
            with _open_transactions(lab.dsn):
                found = _polls(mine, plain, seconds)
                for connection in (mine.connection, plain.connection):
                    connection.execute("select pg_stat_force_next_flush()")
                dead = int(lab.ask(_DEAD, "trunkline", TABLES))
                dead_baseline = int(lab.ask(_DEAD, SCHEMA, ""))
    for name, times in found.items():
        curve = _curve(times)
        yield Row(
            "held",
            f"{name}: poll after {seconds} s vs at first, {behind} events behind",
            round(curve[-1] / curve[0], 2),
            target=Target(at_most=1.2) if name == "ours" else None,
            details={"p50_ms": curve, "polls": len(times)},
            note=f"p50 of a poll in ms: {', '.join(f'{point:g}' for point in curve)}",
        )
    yield Row(
        "held",
        "dead rows where events pass",
        dead,
        unit="rows",
        target=Target(at_most=0),
        note=f"baseline: {dead_baseline}",
    )


def _polls(mine: Ours, plain: Baseline, seconds: float) -> dict[str, list[float]]:
    """How long each poll took, on both sides."""

    def poll_ours() -> None:
        mine.tick()
        mine.match()

    times: dict[str, list[float]] = {"ours": [], "baseline": []}
    begin = time.perf_counter()
    while (now := time.perf_counter()) - begin < seconds:
        mine.publish(EVENTS, _BURST)
        times["ours"].append(_timed(poll_ours))
        plain.publish(EVENTS, _BURST)
        times["baseline"].append(_timed(plain.poll))
        time.sleep(max(0.0, now + _EVERY - time.perf_counter()))
    return times


def _timed(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _curve(times: list[float]) -> list[float]:
    """The p50 in each sixth, in milliseconds."""
    size = max(1, len(times) // _PARTS)
    return [
        percentile(sorted(times[place : place + size]), 0.5)
        for place in range(0, size * _PARTS, size)
    ]


@contextmanager
def _snapshot(dsn: str) -> Iterator[None]:
    with psycopg.connect(dsn) as holder:
        holder.execute("set transaction isolation level repeatable read, read only")
        holder.execute("select 1")
        yield


@contextmanager
def _open_transactions(dsn: str) -> Iterator[None]:
    """Each design has an event in a transaction that does not end."""
    with psycopg.connect(dsn) as holder:
        holder.execute("insert into trunkline.event (topic, payload) values ('held', '1')")
        holder.execute("insert into bench_broker.events (topic, payload) values ('held', '1')")
        yield
        holder.rollback()
