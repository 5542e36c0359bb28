"""The packaged downstreams, each against a real server."""

from __future__ import annotations

import asyncio
import json
import random
import sys
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import redis.asyncio
from tests.tube.stores import (
    ORDERS,
    PostgresStore,
    RedisStore,
    SearchStore,
    TopicStore,
    change,
    listed,
)

import trunkline
from trunkline.core.errors import Conflict, Invalid, NotFound, Unavailable
from trunkline.core.service import Loop
from trunkline.testing import eventually
from trunkline.tube.downstreams import make
from trunkline.tube.downstreams.base import Page, chunks, identity, newest
from trunkline.tube.downstreams.callable import CallableDownstream
from trunkline.tube.downstreams.opensearch import OpenSearchDownstream
from trunkline.tube.downstreams.postgres import PostgresDownstream
from trunkline.tube.downstreams.redis import RedisDownstream
from trunkline.tube.downstreams.topic import TopicDownstream
from trunkline.tube.models import Change, Version
from trunkline.tube.services import Backfiller, TubeSequencer
from trunkline.tube.worker import Pace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from tests.fixtures.opensearch import SearchServer
    from tests.fixtures.proxy import Proxy
    from tests.fixtures.redis import RedisServer
    from tests.tube.stores import Store

    from trunkline.platform import Platform
    from trunkline.tube.downstreams.base import Downstream
    from trunkline.tube.worker import Worker

KINDS = ["postgres", "redis", "opensearch", "topic"]
HASTE = Pace(batch=40, park_after=2, retry_first=0.01, poll_interval=0.02)


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest) -> Store:
    """Each store, empty."""
    fixture = request.getfixturevalue
    if request.param == "postgres":
        return PostgresStore(fixture("bare_dsn"))
    if request.param == "redis":
        return RedisStore(fixture("redis_server"))
    if request.param == "opensearch":
        return SearchStore(fixture("search_server"))
    return TopicStore(fixture("dsn"))


@pytest.fixture
async def downstream(store: Store) -> AsyncIterator[Downstream]:
    async with opened(store.downstream()) as made:
        yield made


@asynccontextmanager
async def opened(downstream: Downstream) -> AsyncIterator[Downstream]:
    await downstream.open()
    try:
        yield downstream
    finally:
        await downstream.close()


# --- what all of them promise


async def test_keeps_the_newer_of_two_documents(store: Store, downstream: Downstream) -> None:
    await downstream.upsert([change("7", {"n": 2}, at=20), change("8", {"n": 1}, at=10)])
    refused = await downstream.upsert([change("7", {"n": 1}, at=19), change("8", {"n": 2}, at=11)])
    assert refused == {}
    assert await store.documents() == {(ORDERS, 0, "7"): {"n": 2}, (ORDERS, 0, "8"): {"n": 2}}


async def test_a_document_older_than_its_delete_does_not_come_back(
    store: Store, downstream: Downstream
) -> None:
    await downstream.upsert([change("7", {"n": 1}, at=10)])
    assert await downstream.delete([change("7", at=20), change("never there", at=20)]) == {}
    late = [change("7", {"n": 1}, at=19), change("never there", {"n": 1}, at=19)]
    assert await downstream.upsert(late) == {}
    assert await store.documents() == {}
    await downstream.upsert([change("7", {"n": 2}, at=21)])
    assert await store.documents() == {(ORDERS, 0, "7"): {"n": 2}}


async def test_a_delete_older_than_the_document_is_refused(
    store: Store, downstream: Downstream
) -> None:
    await downstream.upsert([change("7", {"n": 1}, at=20)])
    assert await downstream.delete([change("7", at=19)]) == {}
    assert await store.documents() == {(ORDERS, 0, "7"): {"n": 1}}


async def test_of_equal_versions_the_later_one_stays(store: Store, downstream: Downstream) -> None:
    await downstream.upsert([change("7", {"n": 1}, at=20)])
    await downstream.upsert([change("7", {"n": 2}, at=20)])
    assert await store.documents() == {(ORDERS, 0, "7"): {"n": 2}}
    await downstream.delete([change("7", at=20)])
    assert await store.documents() == {}
    await downstream.upsert([change("7", {"n": 3}, at=20)])
    assert await store.documents() == {(ORDERS, 0, "7"): {"n": 3}}


async def test_a_version_is_exact_to_its_last_bit(store: Store, downstream: Downstream) -> None:
    newer, older = Version(30_000, (1 << 47) + 1), Version(30_000, 1 << 47)
    await downstream.upsert([change("7", {"n": "newer"}, at=newer)])
    await downstream.upsert([change("7", {"n": "older"}, at=older)])
    await downstream.upsert([change("7", {"n": "before"}, at=Version(29_999, (1 << 48) - 1))])
    assert await store.documents() == {(ORDERS, 0, "7"): {"n": "newer"}}


async def test_takes_a_thousand_changes_at_once(store: Store, downstream: Downstream) -> None:
    changes = [change(str(n), {"n": n, "text": "é" * 100}, at=10) for n in range(1_000)]
    assert await downstream.upsert(changes) == {}
    assert await downstream.delete([change(str(n), at=11) for n in range(0, 1_000, 2)]) == {}
    stored = await store.documents()
    assert {document["n"] for document in stored.values()} == set(range(1, 1_000, 2))


async def test_the_same_key_in_two_tables_or_shards_is_two_documents(
    store: Store, downstream: Downstream
) -> None:
    changes = [
        change("0:x", {"n": 1}, at=1, relation="a", shard=1),
        change("x", {"n": 2}, at=1, relation="a:1", shard=0),
        change("x", {"n": 3}, at=1, relation='public."O%rder"', shard=0),
        change('["ü", 1]', {"n": 4}, at=1, relation='public."O%rder"', shard=1),
        change("x" * 600, {"n": 5}, at=1, relation="a", shard=1),
    ]
    assert await downstream.upsert(changes) == {}
    stored = await store.documents()
    assert sorted(document["n"] for document in stored.values()) == [1, 2, 3, 4, 5]
    assert await listed(downstream, relation="a:1", at=9) == [(0, "x")]
    assert sorted(await listed(downstream, relation="a", at=9)) == [(1, "0:x"), (1, "x" * 600)]


async def test_one_bad_document_fails_alone(store: Store, downstream: Downstream) -> None:
    changes = [change(str(n), {"n": n}, at=1) for n in range(20)]
    changes[13] = change("13", '{"half": "\ud800"}', at=1)
    failures = await downstream.upsert(changes)
    assert list(failures) == [changes[13]]
    assert failures[changes[13]]
    assert len(await store.documents()) == 19


async def test_lists_what_is_older_page_by_page(downstream: Downstream) -> None:
    await downstream.upsert([change(str(n), {}, at=n, shard=n % 2) for n in range(30)])
    await downstream.upsert([change(str(n), {}, at=9, shard=5) for n in range(10)])
    await downstream.upsert([change("elsewhere", {}, at=1, relation="public.orders2")])
    await downstream.delete([change("3", at=4, shard=1)])
    older = {(n % 2, str(n)) for n in range(20) if n != 3} | {(5, str(n)) for n in range(10)}
    for limit in (1, 4, 1_000):
        found = await listed(downstream, at=20, limit=limit)
        assert set(found) == older
    assert set(await listed(downstream, at=20, shard=5)) == {(5, str(n)) for n in range(10)}
    assert await listed(downstream, at=0) == []
    assert await listed(downstream, at=20, relation="public.nothing") == []


async def test_a_listing_goes_on_while_what_it_named_is_rewritten(downstream: Downstream) -> None:
    await downstream.upsert([change(f"{n:03}", {}, at=1) for n in range(100)])
    seen: set[str] = set()
    after = None
    while True:
        page = await downstream.older_than(ORDERS, None, Version(1, 50), after, 10)
        seen.update(key for _, key in page.keys)
        await downstream.upsert([change(key, {}, at=50) for _, key in page.keys])
        if page.after is None:
            break
        after = page.after
    assert seen == {f"{n:03}" for n in range(100)}
    assert await listed(downstream, at=50) == []


async def test_can_be_opened_and_closed_twice(store: Store) -> None:
    downstream = store.downstream()
    for n in range(2):
        await downstream.open()
        await downstream.open()
        await downstream.upsert([change(str(n), {}, at=1)])
        await downstream.close()
        await downstream.close()
    assert len(await store.documents()) == 2


# --- with a worker


@pytest.fixture
async def tl(dsn: str) -> AsyncIterator[Platform]:
    """A platform with a table in a tube, and the services that number and backfill."""
    async with trunkline.connect(dsn) as platform:
        async with platform.transaction() as connection:
            await connection.execute("create table item (id int primary key, name text, n numeric)")
        await platform.tube.ensure("items", lanes=2)
        await platform.tube.attach("items", "item", shard="id % 3")
        stop = asyncio.Event()
        services = [TubeSequencer(platform.db), Backfiller(platform.db)]
        running = [asyncio.create_task(Loop(service).run(stop)) for service in services]
        yield platform
        stop.set()
        await asyncio.gather(*running)


@asynccontextmanager
async def working(worker: Worker) -> AsyncIterator[Worker]:
    stop = asyncio.Event()
    task = asyncio.create_task(worker.run(stop))
    try:
        yield worker
    finally:
        stop.set()
        await task


async def execute(tl: Platform, query: str, values: Sequence[Any] = ()) -> list[Any]:
    async with tl.transaction() as connection:
        cursor = await connection.execute(query.encode(), values)
        return await cursor.fetchall() if cursor.description else []


async def same(tl: Platform, store: Store) -> None:
    """Wait until the store holds the rows of the table, and nothing else."""

    async def check() -> None:
        rows = await execute(tl, "select id, to_jsonb(item) from item")
        assert await store.documents() == {
            ("public.item", id_ % 3, str(id_)): document for id_, document in rows
        }

    await eventually(check, timeout=20, also=(psycopg.errors.UndefinedTable, KeyError))


async def change_at_random(tl: Platform, seed: int) -> None:
    choice = random.Random(seed)
    for _ in range(60):
        id_, name = choice.randrange(40), f"name {choice.random()}"
        async with tl.transaction() as connection:
            kind = choice.randrange(4)
            if kind == 0:
                await connection.execute("delete from item where id = %s", [id_])
            elif kind == 1:
                await connection.execute("update item set name = %s where id = %s", [name, id_])
            else:
                await connection.execute(
                    "insert into item values (%s, %s, %s) on conflict (id)"
                    " do update set name = excluded.name, n = excluded.n",
                    [id_, name, choice.randrange(10**6)],
                )
            if choice.randrange(8) == 0:
                await connection.execute("insert into item values (-1, 'rolled back')")
                raise_back = psycopg.Rollback()
                raise raise_back


async def test_the_store_equals_the_table_after_concurrent_changes(
    tl: Platform, store: Store
) -> None:
    await execute(tl, "insert into item select i, 'before', 1.10 from generate_series(20, 60) i")
    async with working(tl.tube.worker("items", store.downstream(), pace=HASTE)):
        await tl.tube.backfill_schedule("items", chunk=10)
        await asyncio.gather(*(change_at_random(tl, seed) for seed in range(4)))
        await same(tl, store)
    assert await tl.tube.parked("items") == []


async def test_truncate_and_a_backfill_leave_no_garbage(tl: Platform, store: Store) -> None:
    downstream = store.downstream()
    async with opened(downstream):
        ghost = change("1", {"ghost": True}, at=1, relation="public.item", shard=1)
        await downstream.upsert([ghost])
    async with working(tl.tube.worker("items", store.downstream(), pace=HASTE)):
        await execute(tl, "insert into item select i from generate_series(2, 50) i")
        await tl.tube.backfill_schedule("items")
        await same(tl, store)
        await execute(tl, "truncate item")
        await same(tl, store)
        await execute(tl, "insert into item select i from generate_series(1, 5) i")
        await same(tl, store)


async def test_the_worker_waits_for_a_server_that_is_away(
    tl: Platform, store: Store, proxy: Callable[[str], Proxy]
) -> None:
    between = proxy(store.target)
    between.refuse()
    worker = tl.tube.worker("items", store.downstream(between.dsn), pace=HASTE)
    await execute(tl, "insert into item select i from generate_series(1, 100) i")
    async with working(worker):
        if not isinstance(store, TopicStore):  # which waits inside its connection
            await eventually(lambda: worker._hold_until > 0)
        between.resume()
        await same(tl, store)
        between.cut()
        await execute(tl, "update item set name = 'cut'")
        await same(tl, store)
        between.refuse()
        await execute(tl, "delete from item where id < 50")
        between.resume()
        await same(tl, store)
    assert await tl.tube.parked("items") == []


async def test_the_worker_parks_what_a_store_will_never_take(tl: Platform, store: Store) -> None:
    async def enrich(touches: Sequence[Any]) -> Mapping[str, Any]:
        return {t.key: {"bad": "\ud800"} if t.key == "13" else {"n": t.key} for t in touches}

    worker = tl.tube.worker("items", store.downstream(), enrich=enrich, pace=HASTE)
    await execute(tl, "insert into item select i from generate_series(1, 40) i")
    async with working(worker):

        async def parked() -> None:
            assert [row.key for row in await tl.tube.parked("items")] == ["13"]

        await eventually(parked)
        await eventually(lambda: _count(store, 39))


async def _count(store: Store, n: int) -> bool:
    return len(await store.documents()) == n


# --- Postgres


async def query(dsn: str, text: str, values: Sequence[Any] = ()) -> list[Any]:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        cursor = await connection.execute(text.encode(), values)
        return await cursor.fetchall() if cursor.description else []


async def test_postgres_stores_digits_and_null_characters_as_jsonb_can(bare_dsn: str) -> None:
    async with opened(PostgresDownstream(dsn=bare_dsn)) as downstream:
        changes = [
            change("good", '{"n": 12345678901234567890.10}', at=1),
            change("escaped", '{"text": "\\u0000"}', at=1),
            change("raw \0", "{}", at=1),
            change("no json", "{", at=1),
            change("x" * 3_000, "{}", at=1),
        ]
        failures = await downstream.upsert(changes)
        assert list(failures) == changes[1:4]
        assert "\\u0000" in failures[changes[1]]
    assert await query(bare_dsn, "select document ->> 'n' from trunkline_documents limit 1") == [
        ("12345678901234567890.10",)
    ]


async def test_postgres_says_that_its_table_is_missing(bare_dsn: str) -> None:
    with pytest.raises(NotFound, match=r'no table "archive\.rows"'):
        await PostgresDownstream(dsn=bare_dsn, table="archive.rows", create=False).open()


@pytest.mark.parametrize(
    "columns",
    [
        "relation text, shard int, key text",
        "relation text, shard int, key text, document jsonb, version bigint, written_at timestamp",
        "relation text, shard int, key text, document int, version bigint, written_at timestamp,"
        " primary key (relation, shard, key)",
    ],
)
async def test_postgres_says_what_its_table_lacks(bare_dsn: str, columns: str) -> None:
    await query(bare_dsn, f"create table rows ({columns})")
    with pytest.raises(Invalid, match='table "rows" cannot take documents') as caught:
        await PostgresDownstream(dsn=bare_dsn, table="rows").open()
    assert "primary key" in caught.value.hint


async def test_postgres_is_opened_by_ten_at_once(bare_dsn: str) -> None:
    await query(bare_dsn, 'create schema "Mirror"')
    made = [PostgresDownstream(dsn=bare_dsn, table="Mirror.Rows") for _ in range(10)]
    await asyncio.gather(*(downstream.open() for downstream in made))
    await asyncio.gather(
        *(each.upsert([change(str(n), {}, at=1)]) for n, each in enumerate(made)),
    )
    await asyncio.gather(*(downstream.close() for downstream in made))
    assert await query(bare_dsn, 'select count(*) from "Mirror"."Rows"') == [(10,)]


async def test_postgres_batches_in_opposite_order_do_not_deadlock(bare_dsn: str) -> None:
    async with opened(PostgresDownstream(dsn=bare_dsn)) as downstream:
        for at in range(1, 11):
            there = [change(str(n), {"at": at}, at=at) for n in range(200)]
            back = [change(str(n), at=at) for n in reversed(range(200))]
            await asyncio.gather(
                downstream.upsert(there), downstream.delete(back), downstream.upsert(there[::-1])
            )


async def test_postgres_forgets_tombstones_after_their_time(bare_dsn: str) -> None:
    async with opened(PostgresDownstream(dsn=bare_dsn)) as downstream:
        await downstream.delete([change("old", at=1), change("new", at=1)])
        await query(
            bare_dsn,
            "update trunkline_documents set written_at = now() - interval '2 days'"
            " where key = 'old'",
        )
        downstream._forget_at = 0.0  # type: ignore[attr-defined]
        await downstream.delete([change("newest", at=1)])
    keys = await query(bare_dsn, "select key from trunkline_documents order by key")
    assert keys == [("new",), ("newest",)]


@pytest.mark.parametrize(
    ("harm", "repair"),
    [
        (
            "alter table trunkline_documents rename to elsewhere",
            "alter table elsewhere rename to trunkline_documents",
        ),
        (
            "alter table trunkline_documents rename version to v",
            "alter table trunkline_documents rename v to version",
        ),
    ],
)
async def test_postgres_waits_for_a_table_that_takes_nothing(
    bare_dsn: str, harm: str, repair: str
) -> None:
    async with opened(PostgresDownstream(dsn=bare_dsn)) as downstream:
        await query(bare_dsn, harm)
        with pytest.raises(Unavailable, match="refuses every document"):
            await downstream.upsert([change("1", {}, at=1)])
        await query(bare_dsn, repair)
        assert await downstream.upsert([change("1", {}, at=1)]) == {}


async def test_postgres_takes_a_refusal_of_the_tables_own_rules_for_the_documents_fault(
    bare_dsn: str,
) -> None:
    async with opened(PostgresDownstream(dsn=bare_dsn)) as downstream:
        await query(
            bare_dsn, "alter table trunkline_documents add constraint small check (shard < 5)"
        )
        good, bad = change("1", {}, at=1), change("1", {}, at=1, shard=7)
        assert "small" in (await downstream.upsert([good, bad]))[bad]


async def test_postgres_documents_can_be_read_as_the_table_they_mirror(bare_dsn: str) -> None:
    await query(bare_dsn, "create table orders (id int, total numeric, tags text[])")
    async with opened(PostgresDownstream(dsn=bare_dsn)) as downstream:
        await downstream.upsert([change("1", '{"id": 1, "total": 1.50, "tags": ["a"]}', at=1)])
        await downstream.delete([change("2", at=1)])
    await query(
        bare_dsn,
        "create view mirrored_orders as select r.* from trunkline_documents d,"
        " jsonb_populate_record(null::orders, d.document) r"
        " where d.relation = 'public.orders' and d.document is not null",
    )
    assert await query(bare_dsn, "select id, total::text, tags from mirrored_orders") == [
        (1, "1.50", ["a"])
    ]


# --- Redis


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
    assert await cache.get("shop:public.orders:0:17") == '{"total": 1.50}'
    assert await cache.mget("shop:public.orders:0:18") == [None]


async def test_a_deleted_key_leaves_a_tombstone_that_expires(
    redis_server: RedisServer, cache: Any
) -> None:
    async with opened(RedisDownstream(url=redis_server.url, tombstone_seconds=50)) as downstream:
        await downstream.upsert([change("17", {}, at=1)])
        assert await cache.ttl("#public.orders:0:17") == -1
        await downstream.delete([change("17", at=2)])
        assert 0 < await cache.ttl("#public.orders:0:17") <= 50
        await downstream.upsert([change("17", {}, at=3)])
        assert await cache.ttl("#public.orders:0:17") == -1


async def test_invalidation_removes_what_the_application_has_cached(
    redis_server: RedisServer, cache: Any
) -> None:
    name = "public.orders:0:17"
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
    name = "public.orders:0:17"
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
                "a[b]*:public.orders:3:17": "x",
                "a[b]*:public.orders:settings": "no key of a row",
                "a[b]*:public.orders:x:y": "no number of a shard",
                "ab:public.orders:3:18": "another prefix",
            }
        )
        await downstream.upsert([change("19", {}, at=100)])
        await cache.set("a[b]*:public.orders:0:19", "filled after the change")
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


# --- OpenSearch


@pytest.fixture
async def index(search_server: SearchServer) -> AsyncIterator[Downstream]:
    made = OpenSearchDownstream(url=search_server.url, index="rows", timeout=2)
    async with opened(made) as downstream:
        yield downstream


@pytest.mark.parametrize("status", [401, 429, 500, 502, 503, 504])
async def test_a_search_server_that_answers_with_an_error_is_trouble(
    search_server: SearchServer, index: Downstream, status: int
) -> None:
    search_server.whole.append((status, "some_exception", "not now"))
    with pytest.raises(Unavailable, match=f"{status}: some_exception: not now"):
        await index.upsert([change("1", {}, at=1), change("2", {}, at=1)])
    assert await index.upsert([change("1", {}, at=1), change("2", {}, at=1)]) == {}


async def test_the_worker_outlasts_a_search_server_that_answers_500(
    tl: Platform, search_server: SearchServer
) -> None:
    search_server.whole.extend([(500, "internal_server_error", "oops")] * 6)
    await execute(tl, "insert into item select i from generate_series(1, 100) i")
    store = SearchStore(search_server)
    async with working(tl.tube.worker("items", store.downstream(), pace=HASTE)):
        await same(tl, store)
    assert not search_server.whole
    assert await tl.tube.parked("items") == []


async def test_a_search_server_that_does_not_answer_is_trouble(search_server: SearchServer) -> None:
    gate = threading.Event()
    async with opened(
        OpenSearchDownstream(url=search_server.url, index="rows", timeout=0.2)
    ) as downstream:
        search_server.gates.append(gate)
        with pytest.raises(Unavailable, match="ReadTimeout"):
            await downstream.upsert([change("1", {"n": 1}, at=1)])
        await downstream.upsert([change("1", {"n": 2}, at=2)])
        gate.set()  # now it takes up what was given up
        await eventually(lambda: len(search_server.bulks()) == 2)
    assert await SearchStore(search_server).documents() == {(ORDERS, 0, "1"): {"n": 2}}


async def test_requests_that_overtake_each_other_leave_the_newest(
    search_server: SearchServer, index: Downstream
) -> None:
    gate = threading.Event()
    search_server.gates.append(gate)
    late = asyncio.create_task(index.upsert([change("1", {"n": 1}, at=1), change("2", {}, at=1)]))
    await eventually(lambda: len(search_server.bulks()) == 1)
    assert await index.delete([change("1", at=2)]) == {}
    gate.set()
    assert await late == {}
    assert await SearchStore(search_server).documents() == {(ORDERS, 0, "2"): {}}


async def test_of_a_request_that_half_fails_the_failures_are_told_with_reasons(
    search_server: SearchServer, index: Downstream
) -> None:
    refusal = (400, "mapper_parsing_exception", "failed to parse field [total]")
    search_server.refuse = lambda id_: refusal if id_[-1] in "13579" else None
    changes = [change(str(n), {"n": n}, at=1) for n in range(10)]
    failures = await index.upsert(changes)
    assert list(failures) == changes[1::2]
    assert failures[changes[1]] == f"{refusal[1]}: {refusal[2]}"
    assert len(await SearchStore(search_server).documents()) == 5


@pytest.mark.parametrize(
    "refusal",
    [
        (429, "rejected_execution_exception", "queue full"),
        (503, "unavailable_shards_exception", "primary shard is not active"),
        (403, "cluster_block_exception", "disk usage exceeded flood-stage watermark"),
    ],
)
async def test_documents_refused_for_the_servers_sake_are_trouble(
    search_server: SearchServer, index: Downstream, refusal: tuple[int, str, str]
) -> None:
    search_server.refuse = lambda id_: refusal if id_.endswith("3") else None
    with pytest.raises(Unavailable, match=refusal[1]):
        await index.upsert([change(str(n), {}, at=1) for n in range(10)])


async def test_an_index_that_is_gone_is_trouble(
    search_server: SearchServer, index: Downstream
) -> None:
    search_server.indices.clear()
    for write in (index.upsert([change("1", {}, at=1)]), index.delete([change("1", at=1)])):
        with pytest.raises(Unavailable, match="no such index"):
            await write


async def test_bodies_are_bounded_packed_and_cut_further_when_refused(
    search_server: SearchServer,
) -> None:
    made = OpenSearchDownstream(url=search_server.url, index="rows", body_bytes=20_000)
    search_server.largest_body = 12_000
    async with opened(made) as downstream:
        changes = [change(str(n), {"text": "x" * 800}, at=1) for n in range(100)]
        changes[50] = change("50", {"text": "x" * 30_000}, at=1)
        failures = await downstream.upsert(changes)
    assert list(failures) == [changes[50]]
    assert failures[changes[50]].startswith("413")
    assert len(await SearchStore(search_server).documents()) == 99
    bulks = search_server.bulks()
    assert all(len(bulk.unpacked) <= 20_000 for bulk in bulks if b'"50"' not in bulk.unpacked)
    packed = [bulk for bulk in bulks if len(bulk.unpacked) > 8_192]
    assert packed
    assert all(bulk.headers["content-encoding"] == "gzip" for bulk in packed)
    assert all(len(bulk.body) < len(bulk.unpacked) / 4 for bulk in packed)


async def test_a_document_keeps_its_digits_and_says_where_it_is_from(
    search_server: SearchServer, index: Downstream
) -> None:
    text = '\n{ "n": 12345678901234567890.10,\n"m": 1 }\n'
    await index.upsert([change("1", text, at=1), change("2", " {} ", at=1)])
    [bulk] = search_server.bulks()
    assert b'"n": 12345678901234567890.10,' in bulk.unpacked
    about = {"relation": ORDERS, "shard": 0, "key": "2", "version": Version(1, 1).number}
    assert bulk.lines[2:] == [
        {
            "index": {
                "_id": "public.orders:0:2",
                "version": Version(1, 1).number,
                "version_type": "external_gte",
            }
        },
        {"_trunkline": about},
    ]


@pytest.mark.parametrize("document", ['"text"', "[1]", "1", "", "{", "nonsense"])
async def test_a_document_that_is_no_object_cannot_be_indexed(
    index: Downstream, document: str
) -> None:
    bad, good = change("1", document, at=1), change("2", {}, at=1)
    assert list(await index.upsert([bad, good])) == [bad]


async def test_broken_json_harms_only_itself(
    search_server: SearchServer, index: Downstream
) -> None:
    bad = change("1", '{"a": }', at=1)
    assert list(await index.upsert([bad, change("2", {}, at=1)])) == [bad]
    assert len(await SearchStore(search_server).documents()) == 1


async def test_routing_and_credentials_are_sent(search_server: SearchServer) -> None:
    for options, expected in (
        ({"username": "user", "password": "word"}, "Basic dXNlcjp3b3Jk"),
        ({"api_key": "a2V5"}, "ApiKey a2V5"),
        ({}, None),
    ):
        made = OpenSearchDownstream(
            url=search_server.url,
            index="rows",
            routing="shard",
            **options,  # type: ignore[arg-type]
        )
        async with opened(made) as downstream:
            await downstream.upsert([change("1", {}, at=1, shard=7)])
        bulk = search_server.bulks()[-1]
        assert bulk.headers.get("authorization") == expected
        assert bulk.lines[0]["index"]["routing"] == "7"


async def test_an_index_is_made_with_its_mapping_and_long_remembered_deletes(
    search_server: SearchServer, index: Downstream
) -> None:
    made = search_server.indices["rows"]
    assert made.settings == {"index.gc_deletes": "3600s"}
    assert made.properties["_trunkline"]["properties"]["version"] == {"type": "long"}


async def test_an_index_of_the_users_own_gets_the_mapping_or_a_clear_refusal(
    search_server: SearchServer,
) -> None:
    from tests.fixtures.opensearch import Index

    search_server.indices["mine"] = Index()
    async with opened(OpenSearchDownstream(url=search_server.url, index="mine")):
        assert "_trunkline" in search_server.indices["mine"].properties
    search_server.indices["mine"].properties["_trunkline"] = {"type": "text"}
    with pytest.raises(Invalid, match="cannot hold the field _trunkline"):
        await OpenSearchDownstream(url=search_server.url, index="mine").open()
    with pytest.raises(NotFound, match='no index "other"'):
        await OpenSearchDownstream(url=search_server.url, index="other", create=False).open()


@pytest.mark.parametrize(
    "options",
    [
        {"url": "redis://x"},
        {"index": "Upper"},
        {"index": "a b"},
        {"routing": "x"},
        {"body_bytes": 0},
    ],
)
def test_opensearch_refuses_bad_options(options: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        OpenSearchDownstream(**{"url": "http://localhost", "index": "rows", **options})


# --- topics


async def messages(dsn: str, topic: str) -> list[Any]:
    async with trunkline.connect(dsn) as tl:
        return [message async for message in tl.log.read(topic)]


async def test_a_compacted_topic_holds_documents_and_nulls(dsn: str) -> None:
    async with opened(TopicDownstream(dsn=dsn, topic="rows")) as downstream:
        await downstream.upsert([change("1", '{"n": 1}', at=1)])
        await downstream.delete([change("1", at=2)])
    stored, gone = await messages(dsn, "rows")
    version = str(Version(1, 1).number)
    assert (stored.key, stored.value) == (b"public.orders:0:1", b'{"n": 1}')
    assert stored.headers == {"relation": ORDERS, "shard": 0, "version": version, "deleted": False}
    assert (gone.value, gone.headers["deleted"]) == (None, True)


async def test_a_plain_topic_holds_envelopes(dsn: str) -> None:
    made = TopicDownstream(dsn=dsn, topic="rows", compact=False)
    async with opened(made) as downstream:
        bad = change("2", "nonsense", at=1)
        assert list(await downstream.upsert([change("1", '{"n": 1.10}', at=1), bad])) == [bad]
        await downstream.delete([change("1", at=2)])
    stored, gone = await messages(dsn, "rows")
    assert b'"document": {"n": 1.10}}' in stored.value
    assert json.loads(gone.value) == {
        "relation": ORDERS,
        "shard": 0,
        "key": "1",
        "version": str(Version(1, 2).number),
        "deleted": True,
        "document": None,
    }


async def test_a_topic_is_given_nothing_older_than_its_last_version(dsn: str) -> None:
    async with opened(TopicDownstream(dsn=dsn, topic="rows")) as downstream:
        for at in (1, 3, 2, 3, 4):
            await downstream.upsert([change("1", {"at": at}, at=at)])
    assert [json.loads(m.value)["at"] for m in await messages(dsn, "rows")] == [1, 3, 3, 4]


async def test_a_document_too_large_for_a_message_fails_alone(dsn: str) -> None:
    async with opened(TopicDownstream(dsn=dsn, topic="rows")) as downstream:
        changes = [change(str(n), {"n": n}, at=1) for n in range(5)]
        changes[3] = change("3", {"text": "x" * (9 << 20)}, at=1)
        failures = await downstream.upsert(changes)
    assert list(failures) == [changes[3]]
    assert "at most" in failures[changes[3]]
    assert len(await messages(dsn, "rows")) == 4


async def test_a_listing_of_a_topic_is_bounded_in_memory(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trunkline.tube.downstreams.topic._FOLD_MESSAGES", 10)
    async with opened(TopicDownstream(dsn=dsn, topic="rows", partitions=2)) as downstream:
        await downstream.upsert([change(str(n), {}, at=1) for n in range(60)])
        await downstream.delete([change(str(n), at=2) for n in range(30)])
        assert sorted(await listed(downstream, at=5)) == sorted((0, str(n)) for n in range(30, 60))
        page = await downstream.older_than(ORDERS, None, Version(1, 5), None, 1)
        assert page.after is not None
        assert len(page.keys) < 20


async def test_a_topic_that_is_there_differently_is_a_conflict(dsn: str) -> None:
    async with opened(TopicDownstream(dsn=dsn, topic="rows", partitions=2)):
        pass
    async with opened(TopicDownstream(dsn=dsn, topic="rows")):
        pass
    with pytest.raises(Conflict, match="with 2 partitions"):
        await TopicDownstream(dsn=dsn, topic="rows", partitions=3).open()
    with pytest.raises(NotFound):
        await TopicDownstream(dsn=dsn, topic="other", create=False).open()


async def test_a_topic_that_is_deleted_meanwhile_is_trouble(dsn: str) -> None:
    async with opened(TopicDownstream(dsn=dsn, topic="rows")) as downstream:
        await downstream.upsert([change("1", {}, at=1)])
        async with trunkline.connect(dsn) as tl:
            await tl.log.delete("rows")
        with pytest.raises(Unavailable, match='no topic "rows"'):
            await downstream.upsert([change("1", {}, at=2)])


# --- functions, and finding one by its kind


async def test_a_function_may_list_what_is_older() -> None:
    seen: list[Change] = []

    async def deliver(changes: Sequence[Change]) -> None:
        seen.extend(changes)

    async def older(*_about: Any) -> Page:
        return Page([(0, "1")])

    assert await CallableDownstream(deliver).upsert([change("1", {}, at=1)]) == {}
    assert await CallableDownstream(deliver).delete([change("1", at=2)]) == {}
    assert [one.document for one in seen] == ["{}", None]
    assert await listed(CallableDownstream(deliver), at=5) == []
    assert await listed(CallableDownstream(deliver, older_than=older), at=5) == [(0, "1")]


@pytest.mark.parametrize(
    ("kind", "options", "made"),
    [
        ("postgres", {"table": "rows"}, PostgresDownstream),
        ("redis", {"url": "redis://localhost"}, RedisDownstream),
        ("opensearch", {"url": "http://localhost", "index": "rows"}, OpenSearchDownstream),
        ("topic", {"topic": "rows"}, TopicDownstream),
        ("callable", {"target": "asyncio:sleep"}, CallableDownstream),
    ],
)
async def test_a_downstream_is_made_by_its_kind(
    kind: str, options: dict[str, Any], made: type[Downstream]
) -> None:
    assert isinstance(make(kind, options, dsn="host=localhost"), made)
    with pytest.raises(Invalid, match=f"downstream {kind}: .*'nonsense'"):
        make(kind, {**options, "nonsense": 1}, dsn="host=localhost")


def test_an_unknown_kind_is_refused_and_a_missing_package_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(Invalid, match='no downstream "kafka"'):
        make("kafka", {}, dsn="")
    monkeypatch.delitem(sys.modules, "trunkline.tube.downstreams.redis")
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    with pytest.raises(Invalid, match=r"needs the package redis.*trunkline\[redis\]"):
        make("redis", {}, dsn="")


def test_passwords_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEARCH_PASSWORD", "word")
    options = {"url": "http://localhost", "index": "rows", "username": "user"}
    made = make("opensearch", {**options, "password": "${SEARCH_PASSWORD}"}, dsn="")
    assert isinstance(made, OpenSearchDownstream)
    assert made._options["auth"] == ("user", "word")
    with pytest.raises(Invalid, match="the environment has no NOT_THERE"):
        make("opensearch", {**options, "password": "${NOT_THERE}"}, dsn="")


def test_batches_are_cut_by_number_and_by_size() -> None:
    changes = [change(str(n), {}, at=1) for n in range(7)]
    cut = chunks(changes, [1, 1, 1, 9, 50, 1, 1], most=2, most_bytes=10)
    assert [[one.key for one in part] for part in cut] == [
        ["0", "1"],
        ["2", "3"],
        ["4"],
        ["5", "6"],
    ]
    assert list(chunks([], [], most=2, most_bytes=10)) == []


def test_of_changes_of_one_key_the_newest_counts() -> None:
    older, newer, again = (change("1", {"n": n}, at=at) for n, at in ((1, 1), (2, 3), (3, 3)))
    assert newest([newer, again, older]) == [again]
    assert identity(change("a:b", relation="x:%", shard=2, at=1)) == "x%3A%25:2:a:b"
