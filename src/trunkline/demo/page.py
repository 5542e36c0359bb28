"""The live page of the demonstration: open orders as a browser would show them.

It is never loaded anew. It holds what it was told, is cut off again and again, and goes on with the
token of the last change, each time in another stream. At the end it shows what the table holds.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from psycopg import sql

from trunkline.core.errors import NotFound
from trunkline.demo.figures import Proof
from trunkline.live.models import Change, LiveBatch

if TYPE_CHECKING:
    from trunkline.demo.figures import Figures
    from trunkline.live.models import LiveChange
    from trunkline.platform import Platform

_OPEN = {"state": {"eq": "open"}}
_CUT_AFTER = 5  # batches


class Page:
    """Shows the open orders, by their numbers."""

    def __init__(self, platform: Platform, schema: str, figures: Figures):
        self._platform = platform
        self._relation = f"{schema}.orders"
        self._table = sql.Identifier(schema, "orders")
        self._figures = figures
        self._shown: dict[int, Any] = {}
        self._following: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Make the table live, and follow it from now on."""
        await self._platform.live.watch(self._relation)
        begun = asyncio.Event()
        self._following = asyncio.create_task(self._follow(begun))
        await begun.wait()

    async def done(self) -> bool:
        """Whether the page shows what the table holds."""
        return not await self._differing()

    async def prove(self) -> list[Proof]:
        """What is shown, against the table."""
        there = await self._open_orders()
        return [
            Proof("open orders on the live page", len(there), len(self._shown)),
            Proof("rows that differ there", 0, await self._differing()),
        ]

    async def close(self) -> None:
        """Stop following."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait({self._following})
        with suppress(NotFound):
            await self._platform.live.unwatch(self._relation)

    async def _follow(self, begun: asyncio.Event) -> None:
        token = None
        while True:
            stream = self._platform.live.stream(self._relation, condition=_OPEN, after=token)
            async with stream:
                begun.set()
                batches = 0
                async for item in stream.items():
                    if isinstance(item, LiveBatch):
                        batches += 1
                        for change in item.changes:
                            self._show(change)
                    token = item.token
                    if batches == _CUT_AFTER:
                        self._figures.cuts += 1
                        break

    def _show(self, change: LiveChange) -> None:
        if change.change is Change.TRUNCATED:
            self._shown.clear()
        elif change.key is not None and change.row is not None and change.change != Change.DELETED:
            self._shown[change.key["id"]] = change.row["amount"]
        elif change.key is not None:
            self._shown.pop(change.key["id"], None)
        self._figures.shown = len(self._shown)

    async def _differing(self) -> int:
        there = await self._open_orders()
        return len(there.items() ^ self._shown.items())

    async def _open_orders(self) -> dict[int, Any]:
        query = sql.SQL("select id, amount from {} where state = 'open'").format(self._table)
        async with self._platform.transaction() as connection:
            rows = await connection.execute(query)
            return dict(await rows.fetchall())
