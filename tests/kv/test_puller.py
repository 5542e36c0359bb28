"""Pulling from other zones: what is written in one arrives in all, whoever is away meanwhile."""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.kv.zones import Zone, open_zones, settle

import trunkline
from trunkline import Unavailable
from trunkline.core.service import Supervisor
from trunkline.kv import pull_calls
from trunkline.kv.puller import Puller
from trunkline.testing import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.fixtures.postgres import AnyServer
    from tests.fixtures.proxy import Proxy


@asynccontextmanager
async def at_work(*zones: Zone) -> AsyncIterator[None]:
    """With their services running, as `trunkline up` runs them."""
    supervisors = [Supervisor(zone.kv.services()) for zone in zones]
    tasks = [asyncio.create_task(each.run()) for each in supervisors]
    try:
        yield
    finally:
        for each in supervisors:
            await each.stop()
        await asyncio.gather(*tasks)


async def same(*zones: Zone) -> dict[str, Any]:
    found = [await zone.everything() for zone in zones]
    assert all(each == found[0] for each in found), found
    return found[0]


async def test_what_is_written_anywhere_is_read_everywhere(three: tuple[Zone, ...]) -> None:
    async with at_work(*three):
        for zone in three:
            await zone.kv.put(zone.name, {"from": zone.name})

        async def arrived() -> None:
            assert len(await same(*three)) == 3

        await eventually(arrived)


async def test_zones_converge_whatever_they_do_at_once(three: tuple[Zone, ...]) -> None:
    chance = random.Random(7)
    added = 0
    async with at_work(*three):
        for n in range(200):
            zone, key = chance.choice(three), f"key {chance.randrange(12)}"
            action = chance.random()
            if action < 0.4:
                await zone.kv.put(key, n)
            elif action < 0.55:
                await zone.kv.delete(key)
            else:
                await zone.kv.patch_numeric("counter", {"n": 1})
                added += 1

        async def converged() -> None:
            assert (await same(*three))["counter"] == {"n": added}

        await eventually(converged)
    digests = [await zone.tl.db.run(pull_calls.digest(16)) for zone in three]
    assert digests[0] == digests[1] == digests[2]


async def test_a_zone_that_was_away_catches_up_by_itself(
    server: AnyServer, template: str, proxy: Callable[[str], Proxy]
) -> None:
    async with open_zones(server, template, "east", "north", "west") as zones:
        east, north, west = zones
        line = proxy(west.dsn)
        for zone in (east, north):
            await zone.kv.instance_put("west", "s", line.dsn)
        async with at_work(east, north):
            line.refuse()
            await west.kv.put("made meanwhile", 1)
            await west.tick()
            await east.kv.put("between the others", 2)

            async def others_go_on() -> None:
                assert await north.kv.get("between the others") == 2
                (status,) = [s for s in await east.kv.status() if s.instance == "west/s"]
                assert status.state == "away"
                assert status.error

            await eventually(others_go_on)
            line.resume()

            async def back() -> None:
                assert await east.kv.get("made meanwhile") == 1
                assert {s.state for s in await east.kv.status()} == {"following"}

            await eventually(back, 20)


async def test_a_new_zone_gets_everything_that_was_there_before(
    server: AnyServer, template: str
) -> None:
    async with open_zones(server, template, "east") as (east,):
        await east.kv.put_many({f"key {n:04}": n for n in range(5_000)})
        await east.kv.patch_numeric("counter", {"n": 3})
        await east.kv.put("deleted", 1)
        await east.kv.delete("deleted")
        async with open_zones(server, template, "west") as (west,):
            for zone in (east, west):
                await zone.kv.instance_put("west", "s", west.dsn)
                await zone.kv.instance_put("east", "s", east.dsn)
            await settle(east, west)
            assert await west.everything() == await east.everything()
            assert len(await west.everything()) == 5_001


async def test_a_copy_goes_on_where_it_was_interrupted(two: tuple[Zone, ...]) -> None:
    east, west = two
    await east.kv.put_many({f"key {n:05}": n for n in range(5_000)})
    await half_copied(west)
    await west.pull("east")
    found = await west.everything()
    assert "key 04700" in found
    assert "key 00001" not in found  # that part was copied before


async def test_a_copy_begins_again_when_nobody_waits_for_it_any_more(two: tuple[Zone, ...]) -> None:
    east, west = two
    await east.kv.put_many({f"key {n:05}": n for n in range(5_000)})
    await half_copied(west)
    await east.kv.instance_drop("west", "s")
    await east.kv.instance_put("west", "s", west.dsn)
    await west.pull("east")
    assert await west.everything() == await east.everything()


async def half_copied(zone: Zone) -> None:
    """Leave it as a process does that died while it copied from east."""
    await zone.pull("east")
    await zone.forget_pullers()
    noted = await zone.tl.db.run(pull_calls.pulled("east/s"))
    assert noted.state is not None
    assert noted.state["copied"]
    half = {**noted.state, "copied": False, "after": ["default", "key 04500"]}
    epoch = await zone.ask(
        "select max(epoch) from trunkline.owner where resource = 'kv:from:east/s'"
    )
    await zone.tl.db.run(
        pull_calls.apply("east/s", epoch, noted.up_to or 0, half, "[]", read_at=noted.clock)
    )
    await zone.ask(
        "delete from trunkline.kv_entry where key in ('key 00001', 'key 04700') returning 1"
    )


async def test_a_relay_brings_what_its_origin_cannot(three: tuple[Zone, ...]) -> None:
    """East reaches north and north west, but east and west do not reach each other."""
    east, north, west = three
    await settle(*three)
    await east.kv.put("a", 1)
    await east.tick()
    await north.pull("east")
    await north.tick()
    await west.pull("north")
    assert await west.kv.get("a") == 1


async def test_what_came_from_a_peer_is_not_told_to_it_again(two: tuple[Zone, ...]) -> None:
    east, west = two
    await settle(east, west)
    await east.kv.put("a", 1)
    await east.tick()
    await west.pull("east")
    await west.tick()
    told = await west.tl.db.run(
        pull_calls.export("east/s", await origin(east), 0, scope="all", max_changes=1000)
    )
    assert '"a"' not in told.states


async def origin(zone: Zone) -> int:
    return (await zone.tl.db.run(pull_calls.pulled("nobody"))).life


async def test_two_processes_pull_and_one_of_them_works(two: tuple[Zone, ...]) -> None:
    east, west = two
    await settle(east, west)
    again = Zone("west", west.dsn, await trunkline.connect(west.dsn))
    try:
        await east.kv.put("a", 1)
        await east.tick()
        assert await again.pull("east") == 0
        assert await west.pull("east") > 0
    finally:
        await again.close()


async def test_an_idle_puller_writes_nothing(two: tuple[Zone, ...]) -> None:
    east, west = two
    await settle(east, west)
    before = [await zone.ask("select pg_current_wal_insert_lsn()") for zone in two]
    commits = "select pg_snapshot_xmax(pg_current_snapshot())::text"
    xids = [await zone.ask(commits) for zone in two]
    for _ in range(5):
        await west.pull()
        await east.pull()
    assert [await zone.ask(commits) for zone in two] == xids, before


async def test_a_puller_that_was_replaced_cannot_apply(two: tuple[Zone, ...]) -> None:
    east, west = two
    await settle(east, west)
    await west.ask(
        "update trunkline.owner set epoch = epoch + 1 where resource = 'kv:from:east/s' returning 1"
    )
    await east.kv.put("a", 1)
    await east.tick()
    await west.pullers["east/s"].run_once()
    assert await west.kv.get("a") is None
    await west.pull("east")
    assert await west.kv.get("a") == 1


async def test_comparing_finds_and_mends_what_got_lost(two: tuple[Zone, ...]) -> None:
    east, west = two
    await east.kv.put_many({f"key {n}": n for n in range(500)})
    await settle(east, west)
    await west.ask("delete from trunkline.kv_entry where key in ('key 7', 'key 77') returning 1")
    await west.ask(
        "update trunkline.kv_entry set value = '0', stamp = 5 where key = 'key 3' returning 1"
    )
    assert await west.pullers["east/s"].compare() == 3
    assert await west.pullers["east/s"].compare() == 0
    assert await west.everything() == await east.everything()


async def test_namespaces_and_policies_reach_every_zone(two: tuple[Zone, ...]) -> None:
    east, west = two
    await east.kv.namespace_put("sessions")
    await east.kv.policy_put("short", timedelta(minutes=5), namespace="sessions")
    await settle(east, west)
    assert await west.kv.put("a", 1, namespace="sessions", policy="short") == "INSERT"
    assert await west.kv.policies() == await east.kv.policies()


async def test_shards_of_a_zone_share_the_parade_and_not_their_keys(
    server: AnyServer, template: str
) -> None:
    async with open_zones(server, template, "east", "west") as (first, second):
        for zone in (first, second):
            await zone.kv.instance_put("east", "s2", second.dsn)
            await zone.kv.instance_drop("west", "s")
        await second.kv.instance_here("east", "s2")
        second.name = "east"
        await first.kv.put("a", 1)
        await first.kv.namespace_put("sessions")
        await first.tick()
        (peer,) = await second.kv.peers()
        assert (peer.instance, peer.scope) == ("east/s", "parade")
        puller = Puller(second.tl.db, second.tl._lease, "east/s2", peer)
        second.pullers[peer.instance] = puller
        await second.pull()
        assert await second.kv.get("a") is None
        assert await second.kv.put("a", 2, namespace="sessions") == "INSERT"


async def test_a_zone_that_leaves_the_parade_is_not_pulled_from_any_more(
    two: tuple[Zone, ...],
) -> None:
    east, west = two
    async with at_work(east, west):
        await east.kv.put("a", 1)

        async def there() -> None:
            assert await west.kv.get("a") == 1

        await eventually(there)
        await west.kv.instance_drop("east", "s")

        async def gone() -> None:
            assert await west.kv.peers() == []
            (status,) = await east.kv.status()
            assert "no instance" in str(status.error)

        await eventually(gone)


async def test_a_watcher_sees_changes_of_all_zones(two: tuple[Zone, ...]) -> None:
    east, west = two
    async with at_work(east, west):
        seen = []

        async def watch() -> None:
            async for change in west.kv.watch("user/"):
                seen.append((change.key, change.value))
                if change.value is None:
                    return

        await settled(east, west)
        watching = asyncio.create_task(watch())

        async def sees(change: tuple[str, Any]) -> None:
            def seen_last() -> None:
                assert seen[-1:] == [change]

            await eventually(seen_last)

        await eventually(lambda: west.tl._listener._subscriptions.get("kv:"))
        await east.kv.put("user/1", {"name": "Ann"})
        await sees(("user/1", {"name": "Ann"}))
        await west.kv.put("other", 1)
        await west.kv.put("user/2", 5)
        await sees(("user/2", 5))
        await east.kv.delete("user/1")
        await asyncio.wait_for(watching, 10)
    assert seen[-1] == ("user/1", None)


async def settled(*zones: Zone) -> None:
    async def level() -> None:
        for zone in zones:
            assert {status.state for status in await zone.kv.status()} == {"following"}

    await eventually(level)


async def test_an_unreachable_peer_is_told_without_its_password(two: tuple[Zone, ...]) -> None:
    east, _ = two
    await east.kv.instance_put("west", "s", "postgresql://me:hush@127.0.0.1:1/nowhere")
    with pytest.raises(Unavailable):
        await east.pull("west")
    (status,) = await east.kv.status()
    assert status.state == "away"
    assert status.error is not None
    assert "hush" not in status.error


async def test_a_peer_that_cannot_be_named_stops_no_other(two: tuple[Zone, ...]) -> None:
    east, west = two
    with pytest.raises(trunkline.BadRequest, match="cannot be read"):
        await east.kv.instance_put("bad", "s", "garbage")
    await east.ask("select trunkline.kv_instance_put('aaa', 's', 'garbage')")  # as psql may
    async with at_work(east, west):
        await east.kv.put("a", 1)

        async def arrived() -> None:
            assert await west.kv.get("a") == 1
            (status,) = [s for s in await west.kv.status() if s.instance == "aaa/s"]
            assert status.state == "away"
            assert "the DSN cannot be read" in status.error

        await eventually(arrived)


async def test_copies_of_one_data_directory_are_told_apart(two: tuple[Zone, ...]) -> None:
    """As a copied disk leaves it: both have one origin, and would take all for their own."""
    east, west = two
    await east.kv.put("shared", 1)
    await settle(east, west)
    await west.forget_pullers()
    await east.forget_pullers()
    one = await east.ask("select (trunkline._kv_life()).origin")
    await west.ask(
        "update trunkline.kv_life set origin = %s"
        " where life = (trunkline._kv_life()).life returning 1",
        one,
    )
    await east.kv.put("of east", 2)
    await west.kv.put("of west", 3)
    await settle(east, west)
    await settle(east, west)
    assert await same(east, west) == {"shared": 1, "of east": 2, "of west": 3}


async def test_a_zone_that_is_called_otherwise_pulls_by_its_new_name(two: tuple[Zone, ...]) -> None:
    _, west = two
    replicator = west.kv.services()[1]
    try:
        await replicator.run_once()
        assert replicator.puller("east/s").service._here == "west/s"
        await west.kv.instance_put("farwest", "s", west.dsn)
        await west.kv.instance_here("farwest", "s")
        await west.kv.instance_drop("west", "s")
        await replicator.run_once()
        assert replicator.puller("east/s").service._here == "farwest/s"
    finally:
        await replicator.close()


async def test_a_deep_value_is_refused_where_it_is_put(two: tuple[Zone, ...]) -> None:
    east, west = two

    def nested(levels: int) -> str:
        return "[" * levels + "]" * levels

    for levels in (201, 5_000):
        with pytest.raises(psycopg.DatabaseError, match="at most 200 levels"):
            async with east.tl.transaction() as connection:
                await connection.execute(
                    "select trunkline.kv_put('default', 'deep', %s::jsonb)", [nested(levels)]
                )
    await east.ask("select trunkline.kv_put('default', 'deep', %s::jsonb)", nested(200))
    await settle(east, west)
    assert await same(east, west) == {"deep": json.loads(nested(200))}


@pytest.mark.parametrize("differ", [1, 900])
async def test_comparing_asks_for_what_differs_a_few_times(
    two: tuple[Zone, ...], differ: int
) -> None:
    east, west = two
    await east.kv.put_many({f"k{n}": n for n in range(3000)})
    await settle(east, west)
    await west.ask(
        "with gone as (delete from trunkline.kv_entry where key in"
        " (select 'k' || n from generate_series(1, %s) n) returning 1) select count(*) from gone",
        differ,
    )
    (puller,) = west.pullers.values()
    assert await puller.compare() == differ
    assert len(await same(east, west)) == 3000
