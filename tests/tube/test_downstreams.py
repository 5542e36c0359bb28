"""The packaged downstreams, each against a real server."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.fixtures.stores import (
    ORDERS,
    change,
    listed,
    opened,
)

from trunkline.core.errors import Invalid
from trunkline.tube.downstreams import make
from trunkline.tube.downstreams.base import Page, chunks, identity, newest
from trunkline.tube.downstreams.callable import CallableDownstream
from trunkline.tube.downstreams.opensearch import OpenSearchDownstream
from trunkline.tube.downstreams.postgres import PostgresDownstream
from trunkline.tube.downstreams.redis import RedisDownstream
from trunkline.tube.downstreams.topic import TopicDownstream
from trunkline.tube.models import Change, Version
from trunkline.tube.pace import Pace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from tests.fixtures.stores import Store

    from trunkline.tube.downstreams.base import Downstream

HASTE = Pace(batch=40, park_after=2, retry_first=0.01, poll_interval=0.02)


@pytest.fixture
async def downstream(store: Store) -> AsyncIterator[Downstream]:
    async with opened(store.downstream()) as made:
        yield made


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
    await downstream.upsert([change("elsewhere", {}, at=1, relation="orders2")])
    await downstream.delete([change("3", at=4, shard=1)])
    older = {(n % 2, str(n)) for n in range(20) if n != 3} | {(5, str(n)) for n in range(10)}
    for limit in (1, 4, 1_000):
        found = await listed(downstream, at=20, limit=limit)
        assert set(found) == older
    assert set(await listed(downstream, at=20, shard=5)) == {(5, str(n)) for n in range(10)}
    assert await listed(downstream, at=0) == []
    assert await listed(downstream, at=20, relation="nothing") == []


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
    with pytest.raises(Invalid, match=f'downstream {kind} has no option "nonsense"'):
        make(kind, {**options, "nonsense": 1}, dsn="host=localhost")
    with pytest.raises(Invalid):
        make(kind, dict.fromkeys(options, 17), dsn="host=localhost")


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
