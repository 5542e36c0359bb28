"""Two zones of the demonstration: the same keys in two databases, written in both at once.

Halfway the line between them is cut; both go on. When it is back they come to the same, and no
visit is counted twice or lost.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from trunkline.core import migrate
from trunkline.core.service import Loop
from trunkline.demo.figures import Proof
from trunkline.platform import connect

if TYPE_CHECKING:
    from collections.abc import Callable

    from trunkline.core.service import Service
    from trunkline.demo.figures import Figures
    from trunkline.platform import Platform

ZONES = ("east", "west")
_SHARD = "shop"
_VISITS = "visits"
_PAUSE = 0.01  # seconds between two visits
_CARTS = 20


class Zones:
    """A parade of two zones in databases of its own, which it drops again."""

    def __init__(self, dsn: str, prefix: str, figures: Figures):
        self._dsn = dsn
        self._databases = {zone: f"{prefix}_{zone}" for zone in ZONES}
        self._figures = figures
        self._nodes: dict[str, Platform] = {}
        self._services: list[Service] = []
        self._stop = asyncio.Event()
        self._running: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Make both zones; `psycopg.errors.InsufficientPrivilege` where that is not allowed."""
        await asyncio.to_thread(self._make)
        places = {
            zone: make_conninfo(self._dsn, dbname=name) for zone, name in self._databases.items()
        }
        for zone, dsn in places.items():
            self._nodes[zone] = await connect(dsn)
        for zone, node in self._nodes.items():
            for each, dsn in places.items():
                await node.kv.instance_put(each, _SHARD, dsn)
            await node.kv.instance_here(zone, _SHARD)
        self._join()

    async def act(self, times: int, say: Callable[[str], None], stop: asyncio.Event) -> None:
        """Count visits and fill carts in both zones; halfway they hear nothing of each other."""
        await self._write(times // 2, stop)
        await self._part()
        say("the line between the zones is cut; both go on")
        await self._write(times - times // 2, stop)
        self._join()
        say("the line between the zones is back")

    async def done(self) -> bool:
        """Whether both zones have the same keys."""
        east, west = [await node.kv.scan() for node in self._nodes.values()]
        return east == west

    async def prove(self) -> list[Proof]:
        """What was found in both, against what was counted."""
        east, west = [
            {(entry.key, entry.version) for entry in await node.kv.scan()}
            for node in self._nodes.values()
        ]
        visits = self._figures.visits
        return [
            Proof("visits counted in two zones, in the east", visits, await self._seen("east")),
            Proof("visits counted in two zones, in the west", visits, await self._seen("west")),
            Proof("keys that differ between the zones", 0, len(east ^ west)),
        ]

    async def close(self) -> None:
        """Stop; both databases go."""
        await self._part()
        for node in self._nodes.values():
            await node.close()
        await asyncio.to_thread(self._drop)

    async def _seen(self, zone: str) -> int:
        return int((await self._nodes[zone].kv.get(_VISITS) or {}).get("n", 0))

    async def _write(self, times: int, stop: asyncio.Event) -> None:
        for turn in range(times):
            for zone, node in self._nodes.items():
                if stop.is_set():
                    return
                await node.kv.patch_numeric(_VISITS, {"n": 1})
                self._figures.visits += 1
                await node.kv.put(f"cart {turn % _CARTS}", {"zone": zone, "items": turn})
            await asyncio.sleep(_PAUSE)

    def _join(self) -> None:
        self._stop = asyncio.Event()
        self._services = [one for node in self._nodes.values() for one in node.kv.services()]
        self._running = [
            asyncio.create_task(Loop(service).run(self._stop)) for service in self._services
        ]

    async def _part(self) -> None:
        self._stop.set()
        if self._running:
            await asyncio.wait(self._running)
        for service in self._services:
            await service.close()
        self._running, self._services = [], []

    def _make(self) -> None:
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            for name in self._databases.values():
                connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        for name in self._databases.values():
            migrate.install(make_conninfo(self._dsn, dbname=name))

    def _drop(self) -> None:
        drop = sql.SQL("drop database if exists {} with (force)")
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            for name in self._databases.values():
                connection.execute(drop.format(sql.Identifier(name)))
