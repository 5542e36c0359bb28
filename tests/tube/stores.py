"""Every packaged downstream, with a way to see what is in it that is not the downstream's own."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import psycopg
import redis.asyncio
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import trunkline
from trunkline.tube.downstreams.opensearch import OpenSearchDownstream
from trunkline.tube.downstreams.postgres import PostgresDownstream
from trunkline.tube.downstreams.redis import RedisDownstream
from trunkline.tube.downstreams.topic import TopicDownstream
from trunkline.tube.models import Change, Version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.fixtures.opensearch import SearchServer
    from tests.fixtures.redis import RedisServer

    from trunkline.tube.downstreams.base import Downstream

Place = tuple[str, int, str]
"""Relation, shard and key."""
ORDERS = "public.orders"


def change(
    key: str,
    document: Any = None,
    *,
    at: int | Version,
    shard: int = 0,
    relation: str = ORDERS,
) -> Change:
    """A change at a WAL position; text is taken as it is, anything else becomes JSON."""
    text = document if document is None or isinstance(document, str) else json.dumps(document)
    version = at if isinstance(at, Version) else Version(1, at)
    return Change(relation, shard, key, text, version)


async def listed(
    downstream: Downstream,
    *,
    at: int,
    shard: int | None = None,
    relation: str = ORDERS,
    limit: int = 1_000,
) -> Sequence[tuple[int, str]]:
    """All pages of a listing."""
    found: list[tuple[int, str]] = []
    after = None
    while True:
        page = await downstream.older_than(relation, shard, Version(1, at), after, limit)
        found += page.keys
        if page.after is None:
            return found
        after = page.after


class Store(ABC):
    """A downstream in front of a store; ``target`` is where a proxy would lead to."""

    def __init__(self, target: str):
        self.target = target

    @abstractmethod
    def downstream(self, target: str | None = None) -> Downstream:
        """A new one, perhaps through a proxy."""

    @abstractmethod
    async def documents(self) -> dict[Place, Any]:
        """What is there, by place."""


class PostgresStore(Store):
    def downstream(self, target: str | None = None) -> Downstream:
        return PostgresDownstream(dsn=target or self.target, connect_timeout=1)

    async def documents(self) -> dict[Place, Any]:
        query = (
            "select relation, shard, key, document from trunkline_documents"
            " where document is not null"
        )
        async with await psycopg.AsyncConnection.connect(self.target) as connection:
            rows = await (await connection.execute(query)).fetchall()
        return {(relation, shard, key): document for relation, shard, key, document in rows}


class RedisStore(Store):
    def __init__(self, server: RedisServer):
        super().__init__(server.target)
        self.server = server

    def downstream(self, target: str | None = None) -> Downstream:
        port = conninfo_to_dict(target or self.target)["port"]
        return RedisDownstream(url=f"redis://127.0.0.1:{port}/0", prefix="cache:", timeout=2)

    async def documents(self) -> dict[Place, Any]:
        found: dict[Place, Any] = {}
        async with redis.asyncio.from_url(self.server.url) as client:
            async for name in client.scan_iter(match="cache:[^#]*", count=1_000):
                relation, shard, key = name.decode().removeprefix("cache:").split(":", 2)
                text = await client.get(name)
                found[(relation.replace("%3A", ":"), int(shard), key)] = json.loads(text)
        return found


class SearchStore(Store):
    def __init__(self, server: SearchServer):
        super().__init__(server.target)
        self.server = server

    def downstream(self, target: str | None = None) -> Downstream:
        port = conninfo_to_dict(target or self.target)["port"]
        return OpenSearchDownstream(url=f"http://127.0.0.1:{port}", index="rows", timeout=5)

    async def documents(self) -> dict[Place, Any]:
        found: dict[Place, Any] = {}
        for source in self.server.indices["rows"].documents.values():
            document = dict(source)
            about = document.pop("_trunkline")
            found[(about["relation"], about["shard"], about["key"])] = document
        return found


class TopicStore(Store):
    def downstream(self, target: str | None = None) -> Downstream:
        return TopicDownstream(dsn=target or self.target, topic="rows", partitions=2)

    async def documents(self) -> dict[Place, Any]:
        found: dict[Place, Any] = {}
        async with trunkline.connect(self.target) as tl:
            for partition in (0, 1):
                async for message in tl.log.read("rows", partition):
                    assert message.headers is not None
                    assert message.key is not None
                    place = (
                        message.headers["relation"],
                        message.headers["shard"],
                        message.key.decode().split(":", 2)[2],
                    )
                    found.pop(place, None)
                    if message.value is not None:
                        found[place] = json.loads(message.value)
        return found


def beside(dsn: str, database: str) -> str:
    """Another database of the same server."""
    return make_conninfo(dsn, dbname=database)
