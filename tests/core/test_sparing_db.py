"""A crowd that shares a pool with others leaves them their connections."""

from __future__ import annotations

import asyncio

from trunkline.core.calls import Call, scalar
from trunkline.core.db import AsyncDb, SparingDb
from trunkline.testing import eventually

TTL = Call("lease_ttl", {}, scalar, safe_to_repeat=True)


async def test_however_many_wait_in_a_crowd_others_get_a_connection(dsn: str) -> None:
    db = AsyncDb(dsn, pool_max=2)
    try:
        crowd = SparingDb(db, 1)
        async with crowd.transaction() as held:
            waiting = [asyncio.create_task(crowd.run(TTL)) for _ in range(20)]
            await asyncio.wait_for(db.run(TTL), 5)
            assert not any(task.done() for task in waiting)
            await crowd.run(TTL, on=held)  # what runs on a connection needs no other
        await eventually(lambda: all(task.done() for task in waiting))
        assert len({task.result() for task in waiting}) == 1
        await crowd.close()
        assert await db.run(TTL) is not None
    finally:
        await db.close()
