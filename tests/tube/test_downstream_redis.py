"""The Redis downstream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import redis.asyncio
from tests.fixtures.stores import RedisStore, change, listed, opened

from trunkline.core.errors import Invalid, Unavailable
from trunkline.tube.downstreams.redis import RedisDownstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.fixtures.redis import RedisServer


@pytest.fixture
async def cache(redis_server: RedisServer) -> AsyncIterator[Any]:
    """A reader of the cache: it knows nothing of us."""
    async with redis.asyncio.from_url(redis_server.url, decode_responses=True) as client:
        yield client


async def test_a_cached_document_is_read_with_a_plain_get(
    redis_server: RedisServer, cache: Any
) -> None:
    async with opened(RedisDownstream(url=redis_server.url, prefix="shop:")) as downstream:
        await downstream.upsert([change("17", '{"total": 1.50}', at=1)])
    assert await cache.get("shop:orders:0:17") == '{"total": 1.50}'
    assert await cache.mget("shop:orders:0:18") == [None]


async def test_a_deleted_key_leaves_a_tombstone_that_expires(
    redis_server: RedisServer, cache: Any
) -> None:
    async with opened(RedisDownstream(url=redis_server.url, tombstone_seconds=50)) as downstream:
        await downstream.upsert([change("17", {}, at=1)])
        assert await cache.ttl("#orders:0:17") == -1
        await downstream.delete([change("17", at=2)])
        assert 0 < await cache.ttl("#orders:0:17") <= 50
        await downstream.upsert([change("17", {}, at=3)])
        assert await cache.ttl("#orders:0:17") == -1


async def test_invalidation_removes_what_the_application_has_cached(
    redis_server: RedisServer, cache: Any
) -> None:
    name = "orders:0:17"
    async with opened(RedisDownstream(url=redis_server.url, mode="invalidate")) as downstream:
        await cache.set(name, "as it was")
        await downstream.upsert([change("17", {"n": 1}, at=10)])
        assert await cache.get(name) is None
        await cache.set(name, "as it is")
        await downstream.upsert([change("17", {"n": 0}, at=9)])
        assert await cache.get(name) == "as it is"
        await downstream.delete([change("17", at=11)])
        assert await cache.get(name) is None
        assert 0 < await cache.ttl(f"#{name}") <= 86_400


async def test_a_reader_that_watches_the_version_puts_nothing_old_back(
    redis_server: RedisServer, cache: Any
) -> None:
    name = "orders:0:17"
    async with opened(RedisDownstream(url=redis_server.url, mode="invalidate")) as downstream:
        async with cache.pipeline() as reader:
            await reader.watch(f"#{name}")
            await downstream.upsert([change("17", {"n": 1}, at=10)])  # after the row was read
            reader.multi()
            reader.set(name, "as it was")
            with pytest.raises(redis.exceptions.WatchError):
                await reader.execute()
        assert await cache.get(name) is None


async def test_what_the_application_cached_without_us_is_found_by_a_listing(
    redis_server: RedisServer, cache: Any
) -> None:
    async with opened(
        RedisDownstream(url=redis_server.url, mode="invalidate", prefix="a[b]*:")
    ) as downstream:
        await cache.mset(
            {
                "a[b]*:orders:3:17": "x",
                "a[b]*:orders:settings": "no key of a row",
                "a[b]*:orders:x:y": "no number of a shard",
                "ab:orders:3:18": "another prefix",
            }
        )
        await downstream.upsert([change("19", {}, at=100)])
        await cache.set("a[b]*:orders:0:19", "filled after the change")
        assert await listed(downstream, at=100) == [(3, "17")]


async def test_redis_goes_on_when_its_scripts_are_lost(redis_server: RedisServer) -> None:
    store = RedisStore(redis_server)
    async with opened(store.downstream()) as downstream:
        await downstream.upsert([change("1", {}, at=1)])
        redis_server.command("SCRIPT", "FLUSH")
        await downstream.upsert([change("2", {}, at=1)])
    assert len(await store.documents()) == 2


@pytest.mark.parametrize(
    ("harm", "repair"),
    [
        (("CONFIG", "SET", "maxmemory", 1), ("CONFIG", "SET", "maxmemory", 0)),
        (("REPLICAOF", "127.0.0.1", 1), ("REPLICAOF", "NO", "ONE")),
        (
            ("CONFIG", "SET", "min-replicas-to-write", 1),
            ("CONFIG", "SET", "min-replicas-to-write", 0),
        ),
    ],
    ids=["full", "read-only", "alone"],
)
async def test_a_redis_that_takes_no_writes_is_trouble(
    redis_server: RedisServer, harm: tuple[Any, ...], repair: tuple[Any, ...]
) -> None:
    async with opened(RedisDownstream(url=redis_server.url)) as downstream:
        redis_server.command(*harm)
        try:
            with pytest.raises(Unavailable, match="Redis"):
                await downstream.upsert([change("1", {}, at=1)])
        finally:
            redis_server.command(*repair)
        assert await downstream.upsert([change("1", {}, at=1)]) == {}


@pytest.mark.parametrize(
    "options",
    [{"url": "http://localhost"}, {"mode": "both"}, {"tombstone_seconds": 0}],
)
def test_redis_refuses_bad_options(options: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        RedisDownstream(**options)
