"""The topic downstream."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest
from tests.fixtures.stores import ORDERS, change, listed, opened

import trunkline
from trunkline.core.errors import Conflict, NotFound, Unavailable
from trunkline.tube.downstreams.topic import TopicDownstream
from trunkline.tube.models import Version


@pytest.fixture
def topic() -> str:
    """A name of its own for each."""
    return f"rows.{uuid4().hex}"


async def messages(shared_dsn: str, topic: str) -> list[Any]:
    async with trunkline.connect(shared_dsn) as tl:
        return [message async for message in tl.log.read(topic)]


async def test_a_compacted_topic_holds_documents_and_nulls(shared_dsn: str, topic: str) -> None:
    async with opened(TopicDownstream(dsn=shared_dsn, topic=topic)) as downstream:
        await downstream.upsert([change("1", '{"n": 1}', at=1)])
        await downstream.delete([change("1", at=2)])
    stored, gone = await messages(shared_dsn, topic)
    version = str(Version(1, 1).number)
    assert (stored.key, stored.value) == (b"orders:0:1", b'{"n": 1}')
    assert stored.headers == {"relation": ORDERS, "shard": 0, "version": version, "deleted": False}
    assert (gone.value, gone.headers["deleted"]) == (None, True)


async def test_a_plain_topic_holds_envelopes(shared_dsn: str, topic: str) -> None:
    made = TopicDownstream(dsn=shared_dsn, topic=topic, compact=False)
    async with opened(made) as downstream:
        bad = change("2", "nonsense", at=1)
        assert list(await downstream.upsert([change("1", '{"n": 1.10}', at=1), bad])) == [bad]
        await downstream.delete([change("1", at=2)])
    stored, gone = await messages(shared_dsn, topic)
    assert b'"document": {"n": 1.10}}' in stored.value
    assert json.loads(gone.value) == {
        "relation": ORDERS,
        "shard": 0,
        "key": "1",
        "version": str(Version(1, 2).number),
        "deleted": True,
        "document": None,
    }


async def test_a_topic_is_given_nothing_older_than_its_last_version(
    shared_dsn: str, topic: str
) -> None:
    async with opened(TopicDownstream(dsn=shared_dsn, topic=topic)) as downstream:
        for at in (1, 3, 2, 3, 4):
            await downstream.upsert([change("1", {"at": at}, at=at)])
    assert [json.loads(m.value)["at"] for m in await messages(shared_dsn, topic)] == [1, 3, 3, 4]


async def test_a_document_too_large_for_a_message_fails_alone(shared_dsn: str, topic: str) -> None:
    async with opened(TopicDownstream(dsn=shared_dsn, topic=topic)) as downstream:
        changes = [change(str(n), {"n": n}, at=1) for n in range(5)]
        changes[3] = change("3", {"text": "x" * (9 << 20)}, at=1)
        failures = await downstream.upsert(changes)
    assert list(failures) == [changes[3]]
    assert "at most" in failures[changes[3]]
    assert len(await messages(shared_dsn, topic)) == 4


async def test_a_listing_of_a_topic_is_bounded_in_memory(
    shared_dsn: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trunkline.tube.downstreams.topic._FOLD_MESSAGES", 10)
    async with opened(TopicDownstream(dsn=shared_dsn, topic=topic, partitions=2)) as downstream:
        await downstream.upsert([change(str(n), {}, at=1) for n in range(60)])
        await downstream.delete([change(str(n), at=2) for n in range(30)])
        assert sorted(await listed(downstream, at=5)) == sorted((0, str(n)) for n in range(30, 60))
        page = await downstream.older_than(ORDERS, None, Version(1, 5), None, 1)
        assert page.after is not None
        assert len(page.keys) < 20


async def test_a_topic_that_is_there_differently_is_a_conflict(shared_dsn: str, topic: str) -> None:
    async with opened(TopicDownstream(dsn=shared_dsn, topic=topic, partitions=2)):
        pass
    async with opened(TopicDownstream(dsn=shared_dsn, topic=topic)):
        pass
    with pytest.raises(Conflict, match="with 2 partitions"):
        await TopicDownstream(dsn=shared_dsn, topic=topic, partitions=3).open()
    with pytest.raises(NotFound):
        await TopicDownstream(dsn=shared_dsn, topic="other", create=False).open()


async def test_a_topic_that_is_deleted_meanwhile_is_trouble(shared_dsn: str, topic: str) -> None:
    async with opened(TopicDownstream(dsn=shared_dsn, topic=topic)) as downstream:
        await downstream.upsert([change("1", {}, at=1)])
        async with trunkline.connect(shared_dsn) as tl:
            await tl.log.delete(topic)
        with pytest.raises(Unavailable, match="no topic"):
            await downstream.upsert([change("1", {}, at=2)])
