"""What tests of producers have in common: appends that wait, and what was stored."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import psycopg

from trunkline.log import calls
from trunkline.testing import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trunkline import Platform
    from trunkline.log.batches import StoredBatch


class Blocker:
    """Keeps appends to a topic waiting, from a session of its own."""

    def __init__(
        self, session: psycopg.AsyncConnection[Any], watcher: psycopg.AsyncConnection[Any]
    ):
        self._session = session
        self._watcher = watcher

    async def blocks(self, n: int = 1) -> None:
        """Wait until so many sessions wait for us, or behind one who does."""

        async def blocked() -> None:
            found = await self._watcher.execute(
                "select pid from pg_stat_activity"
                " where datname = current_database() and wait_event_type = 'Lock'"
            )
            assert len(await found.fetchall()) == n

        await eventually(blocked)

    async def release(self) -> None:
        await self._session.rollback()


@asynccontextmanager
async def blocked(dsn: str) -> AsyncIterator[Blocker]:
    connect = psycopg.AsyncConnection.connect
    async with await connect(dsn) as session, await connect(dsn, autocommit=True) as watcher:
        await session.execute("select from trunkline.log_partition for update")
        yield Blocker(session, watcher)
        await session.rollback()


async def batches(tl: Platform, topic: str = "orders", partition: int = 0) -> list[StoredBatch]:
    return await tl.db.run(calls.fetch(topic, partition, 1, max_messages=1_000_000))


async def values(tl: Platform, topic: str = "orders", partition: int = 0) -> list[bytes | None]:
    return [message.value async for message in tl.log.read(topic, partition)]


def numbered(count: int) -> list[bytes]:
    return [str(n).encode() for n in range(count)]
