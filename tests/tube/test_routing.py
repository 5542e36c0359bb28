"""Rows that move to another shard: their document moves with them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import trunkline
from trunkline.tube.downstreams.postgres import PostgresDownstream

if TYPE_CHECKING:
    from trunkline.platform import Platform


async def stored(tl: Platform) -> dict[tuple[int, str], int]:
    """Shard and key of every document, and the total in it."""
    await tl.tube.tick()
    worker = tl.tube.worker("feed", PostgresDownstream(dsn=tl.db.dsn))
    await worker.run_once()
    async with tl.db.transaction() as connection:
        cursor = await connection.execute(
            "select shard, key, document::text from trunkline_documents where document is not null"
        )
        return {(row[0], row[1]): json.loads(row[2])["total"] for row in await cursor.fetchall()}


async def test_a_document_follows_its_row_to_another_shard(dsn: str) -> None:
    async with trunkline.connect(dsn) as tl:

        async def run(statement: str) -> None:
            async with tl.db.transaction() as connection:
                await connection.execute(statement.encode())

        await run("create table orders (id int primary key, region int, total int)")
        await tl.tube.ensure("feed", lanes=2)
        await tl.tube.attach("feed", "orders", shard="region")
        await run("insert into orders values (1, 1, 10), (2, 2, 20), (3, 3, 30)")
        assert await stored(tl) == {(1, "1"): 10, (2, "2"): 20, (3, "3"): 30}
        await run("update orders set region = region + 2, total = total + 1 where id < 3")
        assert await stored(tl) == {(3, "1"): 11, (4, "2"): 21, (3, "3"): 30}
        # the whole table moves: the old places are checked, a backfill fills the new ones
        await tl.tube.attach("feed", "orders", shard=7)
        assert await stored(tl) == {}
        (backfill,) = await tl.tube.backfill("feed")
        while await tl.tube.backfill_step(backfill):
            pass
        assert await stored(tl) == {(7, "1"): 11, (7, "2"): 21, (7, "3"): 30}
