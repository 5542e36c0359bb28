"""A copy that was restored, or that its peers have forgotten, begins a new life.

It must neither bring back what was deleted meanwhile nor lose what it alone has.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.fixtures.postgres import TERMINATE, take_over
from tests.kv.sql_steps import STALE
from tests.kv.zones import SHARD, Zone, open_zones, settle

import trunkline
from trunkline.kv import pull_calls

if TYPE_CHECKING:
    from tests.fixtures.postgres import AnyServer


def database_of(zone: Zone) -> str:
    return str(conninfo_to_dict(zone.dsn)["dbname"])


async def back_up(server: AnyServer, zone: Zone) -> str:
    """A copy of the zone's database as it is now."""
    await zone.close()
    name = f"{database_of(zone)}_backup"
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as session:
        session.execute(TERMINATE, [database_of(zone)])
        session.execute(f'create database "{name}" template "{database_of(zone)}"')
    zone.tl = await trunkline.connect(zone.dsn)
    return name


async def restore(server: AnyServer, zone: Zone, backup: str) -> None:
    """Let the backup take the place of the zone's database."""
    await zone.close()
    take_over(server, database_of(zone), backup)
    zone.tl = await trunkline.connect(zone.dsn)


async def forget_the_dead(*zones: Zone) -> None:
    """Nobody remembers that a key was deleted."""
    for zone in zones:
        await zone.ask("select trunkline.config_set('kv.dead_keep', '0')")
    await settle(*zones)
    for zone in zones:
        await zone.ask("update trunkline.kv_peer set level_at = clock_timestamp() returning 1")
        await zone.maintain()
        left = (
            "select count(*) from trunkline.kv_entry where value is null and namespace <> 'parade'"
        )
        assert await zone.ask(left) == 0
        await zone.ask("select trunkline.config_set('kv.dead_keep', null)")


async def test_what_was_deleted_does_not_come_back_with_a_backup(
    server: AnyServer, two: tuple[Zone, ...]
) -> None:
    east, west = two
    await east.kv.put_many({"deleted": 1, "kept": 2})
    await east.kv.patch_numeric("counted", {"n": 3})
    await settle(east, west)
    backup = await back_up(server, west)
    await east.kv.delete("deleted")
    await west.kv.delete("counted")
    await forget_the_dead(east, west)
    await restore(server, west, backup)
    assert await west.everything() == {"deleted": 1, "kept": 2, "counted": {"n": 3}}
    await settle(east, west)
    assert await west.everything() == await east.everything() == {"kept": 2}


async def test_what_only_the_backup_has_is_kept_and_told(
    server: AnyServer, two: tuple[Zone, ...]
) -> None:
    east, west = two
    await west.kv.put("seen", 1)
    await settle(east, west)
    await west.kv.put("unseen", 2)
    await west.kv.put("unnumbered", 3)
    backup = await back_up(server, west)
    await restore(server, west, backup)
    await settle(east, west)
    assert await east.everything() == {"seen": 1, "unseen": 2, "unnumbered": 3}
    assert await west.everything() == await east.everything()


async def test_a_restored_zone_gets_back_what_it_had_told_the_others(
    server: AnyServer, two: tuple[Zone, ...]
) -> None:
    east, west = two
    await settle(east, west)
    backup = await back_up(server, west)
    await west.kv.put("a", 1)
    await west.kv.patch_numeric("visits", {"n": 5})
    await settle(east, west)
    await restore(server, west, backup)
    assert await west.everything() == {}
    await settle(east, west)
    assert await west.everything() == {"a": 1, "visits": {"n": 5}}
    await west.kv.patch_numeric("visits", {"n": 1})
    await east.kv.patch_numeric("visits", {"n": 1})
    await settle(east, west)
    assert await east.kv.get("visits") == await west.kv.get("visits") == {"n": 7}


async def test_what_a_restored_zone_writes_arrives_although_its_positions_repeat(
    server: AnyServer, two: tuple[Zone, ...]
) -> None:
    east, west = two
    await settle(east, west)
    backup = await back_up(server, west)
    for n in range(20):
        await west.kv.put(f"before {n}", n)
    await settle(east, west)
    reached = (await east.tl.db.run(pull_calls.pulled("west/s"))).up_to
    await restore(server, west, backup)
    await west.kv.put("after", 1)
    await west.tick()
    assert await west.kv.head() < (reached or 0)
    await east.pull()
    assert await east.kv.get("after") == 1
    await settle(east, west)
    assert await west.everything() == await east.everything()
    assert len(await west.everything()) == 21


async def test_doubtful_keys_are_not_passed_on_until_somebody_has_judged_them(
    server: AnyServer, three: tuple[Zone, ...]
) -> None:
    """North is copied anew from west while west does not know yet what was deleted."""
    east, north, west = three
    await east.kv.put("deleted", 1)
    await settle(*three)
    backup = await back_up(server, west)
    await east.kv.delete("deleted")
    await forget_the_dead(*three)
    await restore(server, west, backup)
    await north.tl.db.run(pull_calls.begin_anew((await life(north)).life))
    await north.forget_pullers()
    await north.pull("west")
    assert await north.kv.get("deleted") is None
    await settle(*three)
    for zone in three:
        assert await zone.everything() == {}
        assert (await life(zone)).whole


async def life(zone: Zone) -> pull_calls.Pulled:
    return await zone.tl.db.run(pull_calls.pulled("nobody"))


async def test_a_zone_that_was_forgotten_begins_anew_and_brings_nothing_back(
    two: tuple[Zone, ...],
) -> None:
    east, west = two
    await east.kv.put_many({"deleted": 1, "kept": 2})
    await settle(east, west)
    await west.kv.put("unseen", 3)
    # west is away for longer than kv.peer_patience
    for column in ("asked_at", "heard_at", "level_at"):
        await east.ask(
            f"update trunkline.kv_peer set {column} = {column} - interval '8 days' returning 1"
        )
    await east.ask(
        "update trunkline.kv_entry set stamp = 1 where namespace = 'parade'"
        " and key = 'instance/west/s' returning 1"
    )
    await east.ask(f"{STALE} returning 1")
    await east.kv.delete("deleted")
    await east.tick()
    await east.ask("select trunkline.config_set('kv.dead_keep', '0')")
    await east.maintain()
    assert await east.ask("select count(*) from trunkline.kv_entry where key = 'deleted'") == 0
    before = (await life(west)).life
    await settle(east, west)
    assert (await life(west)).life != before
    assert await west.everything() == await east.everything() == {"kept": 2, "unseen": 3}


async def test_a_zone_that_left_and_comes_back_brings_nothing_back(two: tuple[Zone, ...]) -> None:
    east, west = two
    await east.kv.put_many({"deleted": 1, "kept": 2})
    await settle(east, west)
    await east.kv.instance_drop("west", SHARD)
    await east.kv.delete("deleted")
    await east.tick()
    await east.ask("select trunkline.config_set('kv.dead_keep', '0')")
    await east.maintain()
    assert await east.ask("select count(*) from trunkline.kv_entry where key = 'deleted'") == 0
    await east.kv.instance_put("west", SHARD, west.dsn)
    await settle(east, west)
    assert await west.everything() == await east.everything() == {"kept": 2}


async def test_when_all_zones_were_restored_nothing_is_lost(
    server: AnyServer, two: tuple[Zone, ...]
) -> None:
    east, west = two
    await east.kv.put_many({f"key {n}": n for n in range(50)})
    await settle(east, west)
    await east.kv.put("only east", 1)
    await west.kv.put("only west", 1)
    backups = [await back_up(server, zone) for zone in two]
    for zone, backup in zip(two, backups, strict=True):
        await restore(server, zone, backup)
    await settle(east, west)
    assert len(await east.everything()) == 52
    assert await west.everything() == await east.everything()
    assert (await life(east)).whole
    assert (await life(west)).whole


async def test_an_empty_new_zone_cannot_make_a_restored_one_forget(
    server: AnyServer, template: str
) -> None:
    async with (
        open_zones(server, template, "east") as (east,),
        open_zones(server, template, "west") as (west,),
    ):
        await east.kv.put_many({f"key {n}": n for n in range(50)})
        await east.tick()
        backup = await back_up(server, east)
        for zone in (east, west):
            await zone.kv.instance_put("west", SHARD, west.dsn)
            await zone.kv.instance_put("east", SHARD, east.dsn)
        await restore(server, east, backup)
        await east.kv.instance_put("west", SHARD, west.dsn)
        await east.pull()
        assert await east.whole()
        await settle(east, west)
        assert len(await west.everything()) == 50
        assert await west.everything() == await east.everything()


async def test_a_zone_that_stands_alone_is_whole_after_a_restore(
    server: AnyServer, template: str
) -> None:
    async with open_zones(server, template, "east") as (east,):
        await east.kv.put("a", 1)
        backup = await back_up(server, east)
        await restore(server, east, backup)
        assert await east.whole()
        assert await east.everything() == {"a": 1}
        assert await east.kv.put("a", 2) == "UPDATE"


@dataclass
class Trouble:
    """Whatever may happen to three zones. East is never restored."""

    server: AnyServer
    zones: tuple[Zone, ...]
    chance: random.Random
    said: dict[str, int] = field(default_factory=dict)
    backups: dict[str, str] = field(default_factory=dict)

    async def go_on(self, n: int) -> None:
        actions = [self.put] * 7 + [self.delete] * 4 + [self.put_elsewhere] * 2
        actions += [self.delete_elsewhere, self.pull, self.pull, self.tick, self.forget]
        await self.chance.choice([*actions, self.restore, self.restore])(n)

    @property
    def key(self) -> str:
        return f"key {self.chance.randrange(6)}"

    @property
    def other(self) -> Zone:
        return self.chance.choice(self.zones[1:])

    async def put(self, n: int) -> None:
        key = self.key
        await self.zones[0].kv.put(key, n)
        self.said[key] = n

    async def delete(self, _n: int) -> None:
        key = self.key
        await self.zones[0].kv.delete(key)
        self.said.pop(key, None)

    async def put_elsewhere(self, n: int) -> None:
        other = self.other
        await other.kv.put(f"{other.name} {self.key}", n)

    async def delete_elsewhere(self, _n: int) -> None:
        other = self.other
        await other.kv.delete(f"{other.name} {self.key}")

    async def pull(self, _n: int) -> None:
        await self.chance.choice(self.zones).pull(self.chance.choice(self.zones).name)

    async def tick(self, _n: int) -> None:
        await self.chance.choice(self.zones).tick()

    async def forget(self, _n: int) -> None:
        await settle(*self.zones)
        if all([(await life(zone)).whole for zone in self.zones]):
            await forget_the_dead(*self.zones)

    async def restore(self, _n: int) -> None:
        other = self.other
        if backup := self.backups.pop(other.name, None):
            await restore(self.server, other, backup)
        else:
            self.backups[other.name] = await back_up(self.server, other)

    def clean(self) -> None:
        with psycopg.connect(self.server.dsn("postgres"), autocommit=True) as session:
            for backup in self.backups.values():
                session.execute(f'drop database "{backup}"')


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.soak) for n in range(1, 40))]
)
async def test_what_one_zone_says_holds_however_often_the_others_are_restored(
    server: AnyServer, three: tuple[Zone, ...], seed: int
) -> None:
    trouble = Trouble(server, three, random.Random(seed))
    try:
        await settle(*three)
        for n in range(40):
            await trouble.go_on(n)
        await settle(*three)
        found = await three[0].everything()
        assert {key: found[key] for key in found if key.startswith("key")} == trouble.said
        for zone in three:
            assert await zone.everything() == found
            assert (await life(zone)).whole
    finally:
        trouble.clean()
