"""Rows that move to another shard: their document moves with them."""

from __future__ import annotations

import pytest

import trunkline
from trunkline.tube.downstreams.postgres import PostgresDownstream

STORED = "select shard, key, (document ->> 'total')::int from trunkline_documents"


QUERY = """
select id::text as key, to_jsonb(o) as document from orders o where id = any (%(keys)s::int[])
"""


@pytest.mark.parametrize("enrich", [None, QUERY], ids=["row", "query"])
async def test_a_document_follows_its_row_to_another_shard(dsn: str, enrich: str | None) -> None:
    async with trunkline.connect(dsn) as tl:
        worker = tl.tube.worker("feed", PostgresDownstream(dsn=dsn), enrich=enrich)

        async def run(statement: str) -> None:
            async with tl.db.transaction() as connection:
                await connection.execute(statement.encode())

        async def stored() -> list[tuple[int, str, int]]:
            await tl.tube.tick()
            await worker.run_once()
            async with tl.db.transaction() as connection:
                cursor = await connection.execute(STORED + " where document is not null")
                return sorted(await cursor.fetchall())

        await run("create table orders (id int primary key, region int, total int)")
        await tl.tube.ensure("feed", lanes=2)
        await tl.tube.attach("feed", "orders", shard="region")
        await run("insert into orders values (1, 1, 10), (2, 2, 20), (3, 3, 30)")
        assert await stored() == [(1, "1", 10), (2, "2", 20), (3, "3", 30)]
        await run("update orders set region = region + 2, total = total + 1 where id < 3")
        assert await stored() == [(3, "1", 11), (3, "3", 30), (4, "2", 21)]
        # the whole table moves: the old places are checked, a backfill fills the new ones
        await tl.tube.attach("feed", "orders", shard=7)
        assert await stored() == []
        (backfill,) = await tl.tube.backfill_schedule("feed")
        while await tl.tube.backfill_step(backfill):
            pass
        assert await stored() == [(7, "1", 11), (7, "2", 21), (7, "3", 30)]
