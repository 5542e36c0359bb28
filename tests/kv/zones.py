"""Zones of a parade for tests: databases of one server, led by hand."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.fixtures.postgres import new_database

import trunkline
from trunkline.core.errors import TrunklineError
from trunkline.kv import parade_calls, pull_calls
from trunkline.kv.puller import Puller

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from tests.fixtures.postgres import AnyServer

    from trunkline import Platform

SHARD = "s"


@dataclass(eq=False)
class Zone:
    """An instance of the parade. Nothing runs by itself: `pull` brings what others have."""

    name: str
    dsn: str
    tl: Platform
    pullers: dict[str, Puller] = field(default_factory=dict)

    @property
    def kv(self) -> Any:
        return self.tl.kv

    async def ask(self, query: str, *values: Any) -> Any:
        """The first column of the only row."""
        async with self.tl.transaction() as connection:
            row = await (await connection.execute(query, values)).fetchone()
        return None if row is None else row[0]

    async def tick(self) -> None:
        while await self.kv.tick():
            pass

    async def pull(self, *others: str) -> int:
        """Bring what other zones have (all of them); how much there was."""
        done = 0
        for peer in await self.tl.db.run(parade_calls.peers()):
            if others and peer.zone not in others:
                continue
            puller = self.pullers.get(peer.instance)
            if puller is None:
                puller = Puller(self.tl.db, self.tl._lease, f"{self.name}/{SHARD}", peer)
                self.pullers[peer.instance] = puller
            while moved := await puller.run_once():
                done += moved
        return done

    async def forget_pullers(self) -> None:
        """As if the process had been started anew."""
        while self.pullers:
            _, puller = self.pullers.popitem()
            await puller.close()

    async def everything(self) -> dict[str, Any]:
        """All keys that live."""
        return {entry.key: entry.value for entry in await self.kv.scan(max_keys=100_000)}

    async def maintain(self) -> None:
        async with self.tl.db.connection() as connection:
            await connection.execute("call trunkline.maintain()")
        trouble = await self.ask("select string_agg(error, ' ') from trunkline.duty_list()")
        assert trouble is None

    async def whole(self) -> bool:
        return await self.tl.db.run(pull_calls.make_whole())

    async def close(self) -> None:
        await self.forget_pullers()
        await self.tl.close()


async def settle(*zones: Zone) -> None:
    """Let everything reach everybody."""
    for _ in range(20):
        moved = 0
        for zone in zones:
            await zone.tick()
        for zone in zones:
            moved += await zone.pull()
            await zone.whole()
        if not moved:
            return
    raise AssertionError("the zones do not come to rest")


async def try_to_settle(*zones: Zone) -> None:
    """`settle`, where some peers are away."""
    for zone in zones:
        await zone.tick()
    for zone in zones:
        for peer in await zone.tl.db.run(parade_calls.peers()):
            try:
                await zone.pull(peer.zone)
            except TrunklineError:
                continue


async def tell(zone: Zone, zones: Sequence[Zone]) -> None:
    """Let a zone know of the parade, and which part of it it is."""
    for each in zones:
        await zone.kv.instance_put(each.name, SHARD, each.dsn)
    await zone.kv.instance_here(zone.name, SHARD)


@asynccontextmanager
async def open_zones(
    server: AnyServer, template: str, *names: str
) -> AsyncIterator[tuple[Zone, ...]]:
    """Zones of new databases that know of each other."""
    async with AsyncExitStack() as opened:
        zones = []
        for name in names:
            database = opened.enter_context(new_database(server, template=template))
            zone = Zone(name, server.dsn(database), await trunkline.connect(server.dsn(database)))
            opened.push_async_callback(zone.close)
            zones.append(zone)
        for zone in zones:
            await tell(zone, zones)
        yield tuple(zones)
