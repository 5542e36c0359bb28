"""The course of the demonstration."""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
import tempfile
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
from psycopg import sql

from trunkline.core import lease
from trunkline.core.errors import BadRequest, Forbidden, Invalid, NotFound, Unavailable
from trunkline.core.maintain import Maintainer
from trunkline.core.words import counted
from trunkline.demo import member, outbox
from trunkline.demo.figures import Amount, Figures, Proof
from trunkline.demo.lake import Lake
from trunkline.demo.outbox import Outbox
from trunkline.demo.page import Page
from trunkline.demo.shipping import Shipping
from trunkline.demo.workers import (
    COUNTERS,
    MAILERS,
    count_views,
    mail_views,
    write_orders,
    write_views,
)
from trunkline.demo.zones import Zones
from trunkline.log.models import Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from uuid import UUID

    from trunkline.log.consumer import Consumer
    from trunkline.platform import Platform

PARTITIONS = 4
PRODUCERS = 2

_TABLES = {
    "views": "page text primary key, views bigint not null",
    "orders": "id bigint primary key, customer text not null, amount numeric(10, 2) not null,"
    " state text not null default 'open', placed timestamptz not null default now()",
    "invoices": outbox.TABLE,
}
_LOOK_EVERY = 0.25  # seconds
_VIEWS_PER_VISIT = 100
_PATIENCE = 60.0  # seconds until what should happen has happened, or never will
_LONG_LEASE = timedelta(seconds=5)  # longer than this the demonstration does not wait for one


class Demo:
    """One run. `figures` changes while it runs; `say` hears what happens."""

    def __init__(self, platform: Platform, amount: Amount, *, say: Callable[[str], None]):
        self.figures = Figures()
        self.topic = f"demo.{uuid4().hex[:6]}.views"
        self._platform = platform
        self._amount = amount
        self._say = say
        self._dead = f"{self.topic}.dead"
        self._schema = self.topic.replace(".", "_")
        self._tube = self.topic.removesuffix("views") + "orders"
        self._consumers: list[Consumer] = []
        self._directory = tempfile.TemporaryDirectory(prefix="trunkline-demo-")
        self._outbox = Outbox(platform, self._tube, self._schema, self.figures)
        self._shipping = Shipping(platform, self._tube, self.figures)
        self._page = Page(platform, self._schema, self.figures)
        self._lake = Lake(platform.dsn, self._tube, Path(self._directory.name) / "orders")
        self._zones = Zones(platform.dsn, self._schema.removesuffix("_views"), self.figures)

    async def run(self, stop: asyncio.Event) -> list[Proof]:
        """Run to the end, or to an earlier one when ``stop`` is set; what it proved."""
        await self._set_up()
        try:
            async with asyncio.TaskGroup() as tasks:
                looking = tasks.create_task(self._look())
                try:
                    return await self._act(tasks, stop)
                finally:
                    looking.cancel()
                    await self._lake.close()
                    await self._page.close()
                    await self._outbox.close()
                    await self._shipping.close()
                    await self._zones.close()
                    for consumer in self._consumers:
                        await consumer.close()
        finally:
            await self._tear_down()

    async def _act(self, tasks: asyncio.TaskGroup, stop: asyncio.Event) -> list[Proof]:
        victim = await self._start_victim()
        spark = await self._start_spark()
        zones = await self._start_zones()
        shipping = await self._start_shipping()
        try:
            self._start_readers(tasks)
            await self._until(self._shared, "two members share the partitions")
            self._say("two members share the partitions of the group counters")
            writing = self._start_writers(tasks, stop)
            shop = tasks.create_task(
                write_orders(
                    self._platform,
                    self._schema,
                    self._amount.of_orders(),
                    self.figures,
                    stop,
                    outbox=self._outbox,
                    halfway=self._spark_joined if spark else _at_once,
                )
            )
            visits = tasks.create_task(self._visit(stop) if zones else _at_once())
            await self._until(lambda: self._well_begun(stop), "page views are written")
            orphaned = await self._kill(victim)
            taken = await self._take_over(orphaned)
            await asyncio.wait(writing)
            self._say(f"{self.figures.written:,} page views are written")
            await self._until(self._drained, "every group is done")
            await shop
            self._say(f"{self.figures.placed:,} orders are placed, each with an event")
            await self._until(self._outbox.done, "every order is invoiced and in the log")
            if shipping:
                await self._until(self._shipping.done, "every order is taken by the shipper")
                self._say(
                    f"{self.figures.shipped:,} orders were posted and verified, though"
                    f" {counted(self.figures.unanswered, 'answer')} got lost"
                )
            await self._until(self._page.done, "the live page shows what the table holds")
            self._say(
                f"the live page shows {self.figures.shown:,} open orders,"
                f" though it was cut off {self.figures.cuts:,} times"
            )
            await visits
            if spark:
                await self._audit()
        finally:
            if victim.returncode is None:
                victim.kill()
            await victim.wait()
        proofs = [*await self._prove(), Proof("partitions taken over", len(orphaned), taken)]
        proofs += await self._outbox.prove()
        if shipping:
            proofs += self._shipping.prove()
        proofs += await self._page.prove()
        if zones:
            proofs += await self._zones.prove()
        return [*proofs, *await self._prove_lake()] if spark else proofs

    async def _set_up(self) -> None:
        await self._platform.log.create(self.topic, partitions=PARTITIONS)
        async with self._platform.transaction() as connection:
            await connection.execute(
                sql.SQL("create schema {}").format(sql.Identifier(self._schema))
            )
            for name, columns in _TABLES.items():
                await connection.execute(
                    sql.SQL("create table {} ({})").format(
                        sql.Identifier(self._schema, name), sql.SQL(columns)
                    )
                )
        await self._platform.tube.ensure(self._tube)
        await self._platform.tube.attach(self._tube, f"{self._schema}.orders")
        await self._page.start()
        await self._outbox.start()

    async def _start_spark(self) -> bool:
        """Start Spark beside the rest; leave it out where a package or Java is missing."""
        try:
            await self._lake.start(self._say)
        except (Invalid, Unavailable) as missing:
            self._say(f"Spark is left out: {missing}")
            self.figures.lake = False
            return False
        return True

    async def _start_shipping(self) -> bool:
        """Start the webhook and its receiver, unless a package is missing or a rule forbids it."""
        try:
            await self._shipping.start()
        except (BadRequest, Invalid, Unavailable) as missing:
            self._say(f"The webhook is left out: {missing}")
            return False
        return True

    async def _start_zones(self) -> bool:
        """Two zones in databases of their own; without the right to make some they are left out."""
        try:
            await self._zones.start()
        except psycopg.errors.InsufficientPrivilege as missing:
            self._say(f"The two zones are left out: {missing}")
            return False
        return True

    async def _visit(self, stop: asyncio.Event) -> None:
        await self._zones.act(self._amount.expected // _VIEWS_PER_VISIT, self._say, stop)
        await self._until(self._zones.done, "both zones have the same keys")

    async def _spark_joined(self) -> None:
        """Half of the orders are written before Spark is up, the others while it follows."""
        if not self._lake.up.is_set():
            self._say("half of the orders are written; the others wait for Spark")
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                await self._lake.joined()

    async def _audit(self) -> None:
        await self._lake.finish()
        if self._lake.report is not None:
            self._say(f"audit of the lake: {self._lake.report['verdict']}")

    async def _prove_lake(self) -> list[Proof]:
        async with self._platform.transaction() as connection:
            rows = await connection.execute(
                sql.SQL("select count(*) from {}").format(sql.Identifier(self._schema, "orders"))
            )
            orders = int((await rows.fetchall())[0][0])
        report = self._lake.report
        if report is None:
            return [Proof("orders in the lake", orders, -1)]
        differing = report["missing"] + report["extra"] + report["different"]
        return [
            Proof("orders in the lake", orders, report["target_rows"]),
            Proof("orders that differ there", 0, differing),
        ]

    async def _tear_down(self) -> None:
        self._directory.cleanup()
        with suppress(NotFound):
            await self._platform.tube.drop(self._tube, force=True)
        for topic in (self.topic, self._dead):
            with suppress(NotFound):
                await self._platform.log.delete(topic)
        async with self._platform.transaction() as connection:
            await connection.execute(
                sql.SQL("drop schema {} cascade").format(sql.Identifier(self._schema))
            )
        with suppress(Forbidden):  # then whoever maintains this database drops the tables
            await Maintainer(self._platform.db).run_once()

    async def _start_victim(self) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            member.__name__,
            self.topic,
            self._schema,
            stdin=asyncio.subprocess.PIPE,
            start_new_session=True,  # ctrl-C is for us
            env={**os.environ, "TRUNKLINE_DSN": self._platform.dsn},
        )

    def _start_readers(self, tasks: asyncio.TaskGroup) -> None:
        log = self._platform.log
        counter = log.consume(self.topic, COUNTERS)
        tasks.create_task(count_views(self._platform, counter, self._schema))
        mailers = [
            log.consume(self.topic, MAILERS, mode=Mode.SHARED, max_messages=50, max_attempts=3)
            for _ in range(2)
        ]
        for mailer in mailers:
            tasks.create_task(mail_views(mailer, self.figures))
        self._consumers += [counter, *mailers]

    def _start_writers(
        self, tasks: asyncio.TaskGroup, stop: asyncio.Event
    ) -> list[asyncio.Task[None]]:
        share = self._amount.divided(PRODUCERS)
        return [
            tasks.create_task(write_views(self._platform, self.topic, share, self.figures, stop))
            for _ in range(PRODUCERS)
        ]

    async def _kill(self, victim: asyncio.subprocess.Process) -> dict[int, UUID]:
        """Kill it in the middle of its work: the partitions that it owned, with its process."""
        orphaned = {
            position.partition: position.process
            for position in await self._platform.log.groups(self.topic, COUNTERS)
            if position.process is not None and position.process_name == member.NAME
        }
        victim.kill()
        await victim.wait()
        self._say(f"kill -9 of the member that owns {_listed(orphaned)}")
        return orphaned

    async def _take_over(self, orphaned: dict[int, UUID]) -> int:
        """Wait until the other member has them all; how many it has."""
        ttl = await self._platform.db.run(lease.ttl())
        if ttl > _LONG_LEASE:
            self._say(f"its lease ends in {ttl.seconds} s: the demo does not wait and ends it")
            for process in set(orphaned.values()):
                await self._platform.db.run(lease.end(process))
        began = asyncio.get_running_loop().time()
        taken: set[int] = set()

        async def look() -> bool:
            taken.update(
                position.partition
                for position in await self._platform.log.groups(self.topic, COUNTERS)
                if position.process not in {None, orphaned.get(position.partition)}
                and position.partition in orphaned
            )
            return len(taken) == len(orphaned)

        await self._until(look, "its partitions are taken over")
        seconds = asyncio.get_running_loop().time() - began
        self._say(f"the other member took over {_listed(taken)} within {seconds:.1f} s")
        return len(taken)

    async def _look(self) -> None:
        """Keep the figures of groups up to date."""
        while True:
            positions = await self._platform.log.groups(self.topic)
            for group in (COUNTERS, MAILERS):
                ours = [position for position in positions if position.group_name == group]
                self.figures.lag[group] = sum(position.lag for position in ours)
                self.figures.done[group] = sum(position.up_to for position in ours)
            owners = {position.process for position in positions if position.process is not None}
            self.figures.members = len(owners)
            self.figures.dead = await self._count_dead()
            self.figures.synced = self._lake.synced
            await self._outbox.look()
            await asyncio.sleep(_LOOK_EVERY)

    async def _count_dead(self) -> int:
        try:
            return sum(part.last_offset for part in await self._platform.log.describe(self._dead))
        except NotFound:
            return 0

    def _shared(self) -> bool:
        return self.figures.members == 2

    def _well_begun(self, stop: asyncio.Event) -> bool:
        return stop.is_set() or self.figures.written > self._amount.expected // 3

    async def _drained(self) -> bool:
        return all(group.lag == 0 for group in await self._platform.log.lag(self.topic))

    async def _until(self, reached: Callable[[], Any], what: str) -> None:
        """Wait for something; that it never came shows in what is proved."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + _PATIENCE
        while True:
            answer = reached()
            if await answer if inspect.isawaitable(answer) else answer:
                return
            if loop.time() > give_up:
                self._say(f"waited {_PATIENCE:.0f} s in vain until {what}")
                return
            await asyncio.sleep(_LOOK_EVERY)

    async def _prove(self) -> list[Proof]:
        figures = self.figures
        checks = await self._platform.log.verify(self.topic)
        positions = await self._platform.log.groups(self.topic)
        async with self._platform.transaction() as connection:
            rows = await connection.execute(
                sql.SQL("select page, views from {}").format(sql.Identifier(self._schema, "views"))
            )
            seen = {page: int(views) for page, views in await rows.fetchall()}
        whole = [check for check in checks if check.problem is None]
        same = sum(seen.get(page) == views for page, views in figures.by_page.items())
        committed = {
            group: sum(position.up_to for position in positions if position.group_name == group)
            for group in (COUNTERS, MAILERS)
        }
        return [
            Proof("written, and there", figures.written, sum(check.messages for check in whole)),
            Proof("gaps in offsets", 0, len(checks) - len(whole)),
            Proof("committed by counters", figures.written, committed[COUNTERS]),
            Proof("counted, exactly once", figures.written, sum(seen.values())),
            Proof("pages with the right count", len(figures.by_page), same),
            Proof("committed by mailers", figures.written, committed[MAILERS]),
            Proof("mailed", figures.written - figures.broken, len(figures.mailed)),
            Proof("dead letters", figures.broken, await self._count_dead()),
        ]


async def _at_once() -> None:
    """Nobody is waited for."""


def _listed(partitions: Iterable[int]) -> str:
    return f"partitions {', '.join(map(str, sorted(partitions)))}"
