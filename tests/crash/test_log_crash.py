"""The log and its clients, killed at every turn: what was acknowledged is there, and once."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import trunkline
from trunkline.core import migrate
from trunkline.testing import eventually, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trunkline import Platform
    from trunkline.core.embedded import Server

    Start = Callable[..., "Worker"]

pytestmark = pytest.mark.crash

WORKER = Path(__file__).with_name("log_worker.py")
SEED = 20


class Worker:
    """A process of its own, and the lines that it said."""

    def __init__(self, *words: str):
        self.process = subprocess.Popen(
            [sys.executable, str(WORKER), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._listening = threading.Thread(target=self._listen)
        self._listening.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith("\n"):  # the last one may be cut off
                self.lines.append(line.strip())

    def said(self, word: str) -> str:
        """Wait for a line that begins with a word."""

        def heard() -> str:
            found = [line for line in self.lines if line.startswith(word)]
            assert found, f'"{word}" not among {self.lines[-5:]}'
            return found[-1]

        line: str = wait_until(heard, 20)
        return line

    def tell(self) -> None:
        """Let it go on."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        self.process.send_signal(how)

    def end(self) -> None:
        """Kill it and hear what it said last."""
        self.process.kill()
        self.process.wait()
        self._listening.join()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


@pytest.fixture
def start() -> Iterator[Start]:
    workers: list[Worker] = []

    def make(*words: str) -> Worker:
        workers.append(Worker(*words))
        return workers[-1]

    yield make
    for worker in workers:
        if worker.process.stdout is not None and not worker.process.stdout.closed:
            worker.end()


async def prepare(tl: Platform, *, partitions: int) -> None:
    await tl.log.create("orders", partitions=partitions)
    await execute(tl, "select trunkline.config_set('lease.ttl', '1 second')")
    await execute(tl, "create table effect (partition int, log_offset bigint, value text)")


async def execute(tl: Platform, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    async with tl.db.connection() as connection:
        cursor = await connection.execute(statement, values)
        return await cursor.fetchall() if cursor.description else []


async def effects(tl: Platform) -> list[tuple[int, int, str]]:
    rows = await execute(tl, "select partition, log_offset, value from effect order by 1, 2")
    return [(partition, offset, value) for partition, offset, value in rows]


async def owners(tl: Platform) -> list[Any]:
    return [each.process for each in await tl.log.groups("orders") if each.group_name == "g"]


async def stored(tl: Platform, partitions: int) -> list[tuple[int, int, str]]:
    return [
        (partition, message.offset, (message.value or b"").decode())
        for partition in range(partitions)
        async for message in tl.log.read("orders", partition)
    ]


async def crash(server: Server) -> None:
    server.kill()
    await asyncio.to_thread(server.start)


async def test_crashes_of_server_and_consumers_lose_nothing_and_double_nothing(
    own_server: Callable[..., Server], start: Start
) -> None:
    chance = random.Random(SEED)
    server = await asyncio.to_thread(own_server)
    dsn = server.dsn("postgres")
    await asyncio.to_thread(migrate.install, dsn)
    async with trunkline.connect(dsn) as tl:
        await prepare(tl, partitions=3)
        producers = [start("produce", dsn, name) for name in ("a", "b")]
        consumers = [start("consume", dsn) for _ in range(2)]

        async def more(lines: int) -> None:
            goals = [(worker, len(worker.lines) + lines) for worker in producers]
            await eventually(
                lambda: all(len(worker.lines) >= goal for worker, goal in goals), timeout=20
            )

        for victim in ("server", "consumer", "consumer and server"):
            await more(chance.randrange(50, 300))
            if "consumer" in victim:
                consumers.pop(chance.randrange(2)).end()
                consumers.append(start("consume", dsn))
            if "server" in victim:
                await crash(server)
        await more(20)
        for producer in producers:
            producer.end()

        async def all_handled() -> None:
            assert len(await effects(tl)) == len(await stored(tl, 3))

        await eventually(all_handled, timeout=20)
        messages = await stored(tl, 3)
        assert await effects(tl) == messages
        assert max(Counter(value for _, _, value in messages).values()) == 1
        acknowledged = {
            (int(partition), int(offset), value)
            for worker in producers
            for value, partition, offset in map(str.split, worker.lines)
        }
        assert acknowledged <= set(messages)
        for name in ("a", "b"):
            streamed = [value for _, _, value in messages if value.startswith(f"{name}/stream/")]
            assert streamed == [f"{name}/stream/{number}" for number in range(len(streamed))]
            assert streamed
        checks = await tl.log.verify("orders")
        assert [check.problem for check in checks] == [None] * 3
        assert sum(check.messages for check in checks) == len(messages)
        assert all(check.first_offset == 1 for check in checks)


async def test_what_was_released_early_is_acknowledged_only_when_it_survives_a_crash(
    own_server: Callable[..., Server],
) -> None:
    server = await asyncio.to_thread(own_server, wal_writer_delay="10s")
    dsn = server.dsn("postgres")
    await asyncio.to_thread(migrate.install, dsn)
    async with trunkline.connect(dsn) as tl:
        await tl.log.create("orders", early_release=True)
        await execute(
            tl,
            "create or replace function trunkline.log_flush() returns void language plpgsql as"
            " $$ begin perform pg_advisory_xact_lock(42);"
            " perform pg_logical_emit_message(true, 'test', ''); end $$",
        )
        gate = await psycopg.AsyncConnection.connect(dsn)
        await gate.execute("select pg_advisory_xact_lock(42)")
        appending = asyncio.create_task(tl.log.append("orders", ["a", "b"]))

        async def before_the_flush() -> None:
            waiting = "select pid from pg_stat_activity where wait_event = 'advisory'"
            assert len(await execute(tl, waiting)) == 1

        await eventually(before_the_flush)
        await crash(server)
        await gate.close()
        (answer,) = await appending
        assert (answer.first_offset, answer.last_offset) == (1, 2)
        assert await stored(tl, 1) == [(0, 1, "a"), (0, 2, "b")]


async def test_the_partitions_of_a_killed_consumer_move_and_nothing_is_lost(
    dsn: str, start: Start
) -> None:
    async with trunkline.connect(dsn) as tl:
        await prepare(tl, partitions=4)
        doomed, heir = (start("consume", dsn) for _ in range(2))

        async def shared() -> None:
            assert sorted(Counter(await owners(tl)).values()) == [2, 2]

        await eventually(shared, timeout=20)
        for number in range(100):
            await tl.log.append("orders", str(number), keys=str(number))
        await asyncio.to_thread(doomed.said, "handled")
        doomed.kill()
        for number in range(100, 200):
            await tl.log.append("orders", str(number), keys=str(number))

        async def all_handled() -> None:
            assert len(await effects(tl)) == 200

        await eventually(all_handled, timeout=20)
        assert await effects(tl) == await stored(tl, 4)
        assert len(set(await owners(tl))) == 1
        heir.end()


@pytest.mark.parametrize("mode", ["assigned", "shared"])
async def test_what_killed_consumers_left_to_be_committed_soon_is_not_lost(
    dsn: str, start: Start, mode: str
) -> None:
    async with trunkline.connect(dsn) as tl:
        await prepare(tl, partitions=2)
        for _ in range(3):
            for number in range(200):
                await tl.log.append("orders", str(number), keys=str(number))
            doomed = start("soon", dsn, mode)
            await asyncio.to_thread(doomed.said, "handled")
            await execute(
                tl,
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()",
            )
            doomed.end()
        start("soon", dsn, mode)

        async def all_done() -> None:
            assert [group.lag for group in await tl.log.lag("orders", "g")] == [0]

        await eventually(all_done, timeout=30)
        assert sorted(set(await effects(tl))) == await stored(tl, 2)


async def test_a_consumer_that_was_suspended_past_its_lease_cannot_commit(
    dsn: str, start: Start
) -> None:
    async with trunkline.connect(dsn) as tl:
        await prepare(tl, partitions=1)
        await tl.log.append("orders", ["a", "b"])
        zombie = start("hold", dsn, "assigned")
        await asyncio.to_thread(zombie.said, "holding 1 2")
        zombie.kill(signal.SIGSTOP)
        async with tl.log.consume("orders", "g") as consumer:
            batch = await consumer.poll(20)
            assert batch is not None
            assert batch.offsets == [1, 2]
            zombie.kill(signal.SIGCONT)
            zombie.tell()
            assert await asyncio.to_thread(zombie.said, "refused") == "refused TL423"
            assert await effects(tl) == []
            await batch.commit()
        assert [position.up_to for position in await tl.log.groups("orders")] == [2]


async def test_the_claims_of_a_killed_reader_come_back_with_its_lease(
    dsn: str, start: Start
) -> None:
    async with trunkline.connect(dsn) as tl:
        await prepare(tl, partitions=1)
        await tl.log.append("orders", ["a", "b"])
        doomed = start("hold", dsn, "shared")
        await asyncio.to_thread(doomed.said, "holding 1 2")
        forever = timedelta(hours=1)
        async with tl.log.consume("orders", "g", mode="shared", deadline=forever) as consumer:
            assert await consumer.poll(0) is None
            doomed.kill()
            batch = await consumer.poll(20)
            assert batch is not None
            assert (batch.offsets, batch.attempts) == ([1, 2], 2)
            await batch.commit()
        assert await effects(tl) == []
        assert [(p.up_to, p.claims) for p in await tl.log.groups("orders")] == [(2, 0)]
