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


async def test_a_query_goes_on_when_a_column_that_it_reads_gets_another_type(dsn: str) -> None:
    query = "select id::text as key, total as document from orders where id = any (%(keys)s::int[])"
    async with trunkline.connect(dsn) as tl:
        worker = tl.tube.worker("feed", PostgresDownstream(dsn=dsn), enrich=query)
        async with tl.db.connection() as connection:
            await connection.execute("create table orders (id int primary key, total int)")
        await tl.tube.ensure("feed")
        await tl.tube.attach("feed", "orders")
        for number in range(9):
            async with tl.db.connection() as connection:
                if number == 7:
                    await connection.execute("alter table orders alter total type bigint")
                await connection.execute("insert into orders values (%s, 10)", [number])
            await tl.tube.tick()
            await worker.run_once()
        async with tl.db.connection() as connection:
            cursor = await connection.execute("select count(*) from trunkline_documents")
            assert await cursor.fetchone() == (9,)
        assert not await tl.tube.parked("feed")
