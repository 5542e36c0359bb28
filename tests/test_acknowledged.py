"""What is acknowledged is durable, whatever a session, a role or a database say."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from trunkline.core.db import AsyncDb

WRITES = (
    "select trunkline.log_append('orders', 0, array['a'::bytea])",
    "select trunkline.log_append_batch_{topic}_0("
    "'orders', 0, 1, 0, '\\x0000000001000000', 'a'::bytea)",
    "select trunkline.log_claim('orders', 'packers', 0, deadline => null)",
    "select trunkline.log_seek('orders', 'packers', 'earliest')",
    "select trunkline.broker_publish('orders', '1')",
    "select trunkline.broker_publish_many(array['orders'], array['1'::jsonb])",
    "select trunkline.tube_touch('orders', null, array['1'], shard => 0)",
    "select trunkline.kv_put('carts', '1', '1')",
    "select trunkline.kv_patch_numeric('counts', '1', '{{\"seen\": 1}}')",
    "select trunkline.kv_delete('carts', '1')",
)


@pytest.fixture
def sql(dsn: str) -> Any:
    with psycopg.connect(dsn, autocommit=True) as session:
        yield session


@pytest.mark.parametrize(("said", "done"), [("off", "on"), ("local", "local")])
def test_what_is_told_of_waits_for_the_disk(sql: Any, said: str, done: str) -> None:
    sql.execute("select trunkline.log_create('orders'), trunkline.tube_ensure('orders')")
    sql.execute("select trunkline.kv_namespace_put(n) from unnest(array['carts', 'counts']) n")
    (topic,) = sql.execute("select topic_id from trunkline.log_topic").fetchone()
    sql.execute(f"set synchronous_commit = {said}")
    for write in WRITES:
        with sql.transaction():
            sql.execute(write.format(topic=topic))
            now = sql.execute("show synchronous_commit").fetchone()[0]
        assert now == done, write


async def test_sessions_of_the_client_wait_for_the_disk(dsn: str, sql: Any) -> None:
    sql.execute(f'alter database "{sql.info.dbname}" set synchronous_commit = off')
    db = AsyncDb(dsn)
    async with db.connection() as connection:
        row = await (await connection.execute("show synchronous_commit")).fetchone()
    await db.close()
    assert row == ("on",)
