"""The outbox of the demonstration: every order is an event, published in the order's transaction.

A handler writes the invoices, in the transaction that commits its position. The topic is also a
topic of the log, so that the events are forwarded into it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from trunkline.app import App
from trunkline.broker.models import NewEvent
from trunkline.core.errors import NotFound
from trunkline.core.service import Loop
from trunkline.demo.figures import Proof

if TYPE_CHECKING:
    from trunkline.demo.figures import Figures
    from trunkline.platform import Platform

TABLE = "number bigint primary key, kept boolean not null"
_AT_ONCE = 200  # events that one call of the handler gets
_PARTITIONS = 2


class Outbox:
    """What is published with the orders, who handles it, and where it is forwarded to."""

    def __init__(self, platform: Platform, topic: str, schema: str, figures: Figures):
        self._platform = platform
        self._topic = topic
        self._group = f"{topic}.billing"
        self._invoices = sql.Identifier(schema, "invoices")
        self._figures = figures
        self._app = App(platform.dsn, name="the handler of orders")
        self._services = platform.broker.services()
        self._stop = asyncio.Event()
        self._running: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Make the topic of the log and the handler, and let both get what comes from now on."""
        await self._platform.log.create(self._topic, partitions=_PARTITIONS)

        @self._app.on(self._topic, group=self._group, name="invoices", batch=_AT_ONCE)
        async def invoice(
            orders: list[dict[str, Any]], transaction: psycopg.AsyncConnection[Any]
        ) -> None:
            insert = sql.SQL("insert into {} values (%s, %s)").format(self._invoices)
            async with transaction.cursor() as cursor:
                await cursor.executemany(insert, [(o["number"], o["kept"]) for o in orders])

        await self._app.open()
        await self._app.register()
        work = [Loop(service).run(self._stop) for service in self._services]
        work += [worker.run(self._stop) for worker in self._app.workers()]
        self._running = [asyncio.create_task(one) for one in work]

    async def publish(
        self, numbers: range, connection: psycopg.AsyncConnection[Any], *, kept: bool
    ) -> None:
        """An event for each order, in the transaction that writes them."""
        await self._platform.broker.publish_many(
            [NewEvent(self._topic, {"number": n, "kept": kept}, key=str(n)) for n in numbers],
            on=connection,
        )

    async def look(self) -> None:
        """Count what was handled and forwarded."""
        async with self._platform.transaction() as connection:
            rows = await connection.execute(
                sql.SQL("select count(*), count(*) filter (where not kept) from {}").format(
                    self._invoices
                )
            )
            ((self._figures.invoiced, self._figures.phantoms),) = await rows.fetchall()
        with suppress(NotFound):
            ends = await self._platform.log.describe(self._topic)
            self._figures.forwarded = sum(part.last_offset for part in ends)

    async def done(self) -> bool:
        """Whether every order has its invoice and is in the log."""
        await self.look()
        placed = self._figures.placed
        return self._figures.invoiced == placed and self._figures.forwarded == placed

    async def prove(self) -> list[Proof]:
        """What was found, against what was published."""
        await self.look()
        figures = self._figures
        checks = await self._platform.log.verify(self._topic)
        whole = [check for check in checks if check.problem is None]
        return [
            Proof("orders invoiced, exactly once", figures.placed, figures.invoiced),
            Proof("orders that were rolled back, invoiced", 0, figures.phantoms),
            Proof(
                "orders forwarded into the log",
                figures.placed,
                sum(check.messages for check in whole),
            ),
        ]

    async def close(self) -> None:
        """Stop; the topic and the group go."""
        self._stop.set()
        if self._running:
            await asyncio.wait(self._running)
        for service in self._services:
            await service.close()
        await self._app.close()
        with suppress(NotFound):
            await self._platform.broker.group_delete(self._group)
        with suppress(NotFound):
            await self._platform.log.delete(self._topic)
