"""One client for all shards and zones."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.fixtures.postgres import new_database

import trunkline
from trunkline import Invalid, NotFound, Unavailable
from trunkline.kv import calls
from trunkline.kv.parade import Parade, shard_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.fixtures.postgres import AnyServer
    from tests.fixtures.proxy import Proxy

    from trunkline import Platform

GOLDEN = Path(__file__).parents[1] / "log" / "golden" / "key_hash.json"
INSTANCES = [(zone, shard) for zone in ("east", "west") for shard in ("one", "two")]


@pytest.fixture
async def nodes(
    server: AnyServer, template: str, proxy: Callable[[str], Proxy]
) -> AsyncIterator[dict[tuple[str, str], Any]]:
    """Two zones of two shards, each behind a proxy: (platform, proxy) by zone and shard."""
    async with AsyncExitStack() as opened:
        made: dict[tuple[str, str], tuple[Platform, Proxy]] = {}
        for instance in INSTANCES:
            database = opened.enter_context(new_database(server, template=template))
            node = await trunkline.connect(server.dsn(database))
            opened.push_async_callback(node.close)
            made[instance] = node, proxy(server.dsn(database))
        for node, _ in made.values():
            for (zone, shard), (_, line) in made.items():
                await node.kv.instance_put(zone, shard, line.dsn)
        yield made


def test_keys_belong_to_shards_as_keys_of_topics_do_to_partitions() -> None:
    for vector in json.loads(GOLDEN.read_text()):
        key = bytes.fromhex(vector["key"])
        if vector["partitions"] <= 8 and key.isascii():
            shards = [str(n) for n in range(vector["partitions"])]
            assert shard_of(key.decode(), shards) == str(vector["partition"])


def test_only_a_put_that_answers_the_same_again_is_repeated_by_itself() -> None:
    assert calls.put("k", 1).safe_to_repeat
    assert not calls.put("k", 1, stamp=1).safe_to_repeat  # the second time it is a conflict
    assert not calls.put("k", 1, if_version="").safe_to_repeat


async def test_keys_are_spread_over_the_shards_of_the_own_zone(nodes: dict[Any, Any]) -> None:
    async with Parade(nodes["west", "one"][1].dsn, zone="east") as kv:
        for n in range(20):
            assert await kv.put(f"key {n}", n) == "INSERT"
        assert [await kv.get(f"key {n}") for n in range(20)] == list(range(20))
    kept = {place: len(await node.kv.scan()) for place, (node, _) in nodes.items()}
    assert kept["east", "one"] + kept["east", "two"] == 20
    assert min(kept["east", "one"], kept["east", "two"]) > 0
    assert kept["west", "one"] == kept["west", "two"] == 0


async def test_many_keys_are_put_read_and_scanned_over_all_shards(nodes: dict[Any, Any]) -> None:
    async with Parade(nodes["east", "one"][1].dsn, zone="east") as kv:
        values = {f"key {n:02}": n for n in range(30)}
        assert set((await kv.put_many(values)).values()) == {"INSERT"}
        found = await kv.get_many([*values, "missing"])
        assert {key: entry.value for key, entry in found.items()} == values
        scanned = await kv.scan("key", max_keys=10)
        assert [entry.key for entry in scanned] == sorted(values)[:10]
        again = await kv.scan("key", after_key=scanned[-1].key, max_keys=5)
        assert [entry.key for entry in again] == sorted(values)[10:15]
        assert await kv.put("key 00", 1, if_version="") == "CONFLICT"
        assert await kv.delete("key 00") == "UPDATE"
        assert await kv.get("key 00") is None
        assert await kv.get("key 00", default=7) == 7
        await kv.put("key 00", None)
        assert await kv.get("key 00", default=7) is None


async def test_another_zone_answers_while_the_own_one_is_away(nodes: dict[Any, Any]) -> None:
    async with Parade(nodes["east", "one"][1].dsn, zone="east") as kv:
        await kv.put("a", 1)
        for shard in ("one", "two"):
            nodes["east", shard][1].refuse()
        assert await kv.put("b", 2) == "INSERT"
        assert await kv.get("b") == 2
        assert await kv.patch_numeric("c", {"n": 1}) == "INSERT"
    assert sum([len(await nodes["west", shard][0].kv.scan()) for shard in ("one", "two")]) == 2


async def test_when_no_zone_answers_that_is_said(nodes: dict[Any, Any]) -> None:
    async with Parade(nodes["east", "one"][1].dsn, zone="east") as kv:
        await kv.get("a")
        for _, line in nodes.values():
            line.refuse()
        with pytest.raises(Unavailable):
            await kv.get("a")


async def test_a_database_that_belongs_to_no_parade_is_refused(dsn: str) -> None:
    async with Parade(dsn) as kv:
        with pytest.raises(NotFound, match="no parade"):
            await kv.get("a")


async def test_an_instance_whose_place_is_not_told_is_refused(nodes: dict[Any, Any]) -> None:
    for place in INSTANCES:
        await nodes["east", "one"][0].kv.instance_put(*place, "service=elsewhere")
    async with Parade(nodes["east", "one"][1].dsn) as kv:
        with pytest.raises(NotFound, match="where"):
            await kv.get("a")


async def test_wrong_arguments_are_told_by_name(nodes: dict[Any, Any]) -> None:
    async with Parade(nodes["east", "one"][1].dsn) as kv:
        for key in (None, 5, b"a"):
            with pytest.raises(Invalid, match="key"):
                await kv.get(key)  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="zone"):
        Parade("", zone=5)  # type: ignore[arg-type]
