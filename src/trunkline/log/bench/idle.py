"""Cell `idle`: consumers that have nothing to do write nothing."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from trunkline.log.bench.measure import Row, Target

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from trunkline.log.bench.lab import Lab
    from trunkline.log.consumer import Consumer

_CONSUMERS = 20
_SETTLE = 12.0  # seconds until all have joined: a session that is idle tells what it wrote after 10
_LEASE = "lease"
_WRITTEN = """
  select coalesce(jsonb_object_agg(relname, n_tup_ins + n_tup_upd + n_tup_del), '{}')
    from pg_stat_user_tables where schemaname = 'trunkline'
"""


async def idle(lab: Lab) -> AsyncGenerator[Row]:
    """20 idle consumers in one process, half of them assigned, half shared."""
    seconds = 1.0 if lab.quick else 30.0
    topic = lab.create("idle", partitions=2)
    async with AsyncExitStack() as stack:
        consumers = [
            await stack.enter_async_context(
                lab.log.consume(topic, f"idle-{number}", mode=("assigned", "shared")[number % 2])
            )
            for number in range(_CONSUMERS)
        ]
        waiting = [asyncio.create_task(_wait(consumer)) for consumer in consumers]
        await asyncio.sleep(_SETTLE)
        lab.flush_statistics()
        before, transactions = _written(lab), _transactions(lab)
        await asyncio.sleep(seconds)
        after, polls = _written(lab), _transactions(lab) - transactions
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
    wrote = {
        table: n - before.get(table, 0) for table, n in after.items() if n != before.get(table, 0)
    }
    renewals = wrote.pop(_LEASE, 0)
    lab.baseline.start("idle")
    begin = lab.wal_position()
    for _ in range(1000):
        lab.baseline.claim("idle", 100)
    yield Row(
        "idle",
        f"rows written by {_CONSUMERS} idle consumers in {seconds:g} s",
        sum(wrote.values()),
        unit="rows",
        target=Target(at_most=0),
        note=f"about {polls} polls, {renewals} renewals of the one lease;"
        f" 1000 idle polls of the baseline write 1000 rows and"
        f" {(lab.wal_position() - begin) // 1000} bytes of WAL each",
        details=wrote,
    )


async def _wait(consumer: Consumer) -> None:
    batch = await consumer.poll()
    assert batch is None, "there is nothing to receive"


def _written(lab: Lab) -> dict[str, int]:
    return dict(lab.ask(_WRITTEN))


def _transactions(lab: Lab) -> int:
    return int(
        lab.ask(
            "select xact_commit + xact_rollback from pg_stat_database"
            " where datname = current_database()"
        )
    )
