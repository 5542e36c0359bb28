"""A standby takes over from a server that was killed; those who are connected go on with it.

Clients know both servers by one DSN. A standby that *follows* has everything that was acknowledged;
one that *lags* has lost some of it, and then what it has is what counts.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING

import psycopg
import pytest
from tests.crash import log_worker
from tests.crash import test_broker_chain as broker
from tests.crash import test_log_crash as log
from tests.crash import test_tube_crash as tube
from tests.crash.victims import running

import trunkline
from trunkline import LeaseLost, PositionTrimmed
from trunkline.core import migrate
from trunkline.testing import eventually, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.standby import Pair

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]
whoever_takes_over = pytest.mark.parametrize(
    "lags",
    [pytest.param(False, id="follows", marks=pytest.mark.soak), pytest.param(True, id="lags")],
)


@whoever_takes_over
def test_every_event_that_the_new_server_has_arrives_once_and_in_order(
    make_pair: Callable[..., Pair], *, lags: bool
) -> None:
    pair = make_pair(broker.prepare)
    chance = random.Random(1)

    def publish(n: int) -> int:
        with pair.connect() as connection:
            publisher = broker.Publisher(connection, chance, n)
            for _ in range(20):
                publisher.transaction()
        return publisher.n

    def handled() -> list[tuple[int]]:
        with pair.connect() as connection:
            return connection.execute("select n from effect order by n").fetchall()

    with running(broker.PROGRAM, pair.dsn, "services"), running(broker.PROGRAM, pair.dsn, "worker"):
        n = publish(0)
        wait_until(lambda: broker.settled(pair.dsn), 30)
        if lags:
            pair.part()
            n = publish(n)
            wait_until(lambda: broker.settled(pair.dsn), 30)
        before = handled()
        pair.fail_over()
        assert (handled() == before) is not lags
        publish(n)
        wait_until(lambda: broker.settled(pair.dsn), 60, also=(psycopg.Error,))


@whoever_takes_over
def test_the_downstream_equals_the_table_that_the_new_server_has(
    make_pair: Callable[..., Pair], *, lags: bool
) -> None:
    pair = make_pair(tube.prepare)
    chance = random.Random(2)

    def change() -> None:
        with pair.connect() as connection:
            tube.change(connection, chance, 40)

    with running(tube.PROGRAM, pair.dsn):
        change()
        wait_until(lambda: tube.settled(pair.dsn), 30, also=(psycopg.Error,))
        if lags:
            pair.part()
            change()
            wait_until(lambda: tube.settled(pair.dsn), 30)
        pair.fail_over()
        change()
        wait_until(lambda: tube.settled(pair.dsn), 60, also=(psycopg.Error,))


@whoever_takes_over
async def test_a_topic_goes_on_with_what_the_new_server_has_and_who_was_ahead_is_told(
    make_pair: Callable[..., Pair], *, lags: bool
) -> None:
    pair = await asyncio.to_thread(
        make_pair, lambda server: migrate.install(server.dsn("postgres"))
    )
    async with trunkline.connect(pair.dsn) as tl:
        await log.prepare(tl, partitions=2)
        told: list[PositionTrimmed] = []

        async def append(*names: str) -> None:
            for name in names:
                await asyncio.gather(
                    *(tl.log.append("orders", f"{name}{n}", keys=f"{n}") for n in range(40))
                )

        async def consume() -> None:
            async with tl.log.consume("orders", "g") as consumer:
                while True:
                    try:
                        batch = await consumer.poll()
                        assert batch is not None
                        async with tl.transaction() as connection:
                            await log_worker.effect(connection, batch)
                            await batch.commit(on=connection)
                    except PositionTrimmed as error:
                        told.append(error)
                    except LeaseLost:
                        continue

        async def settled() -> None:
            assert await log.effects(tl) == await log.stored(tl, 2)

        consuming = asyncio.create_task(consume())
        await append("a", "b")
        await eventually(settled)
        if lags:
            await asyncio.to_thread(pair.part)
            await append("c")
            await eventually(settled)
        await asyncio.to_thread(pair.fail_over)
        await append("d", "e")
        await eventually(settled, timeout=30)
        consuming.cancel()
        values = Counter(value[0] for _, _, value in await log.stored(tl, 2))
        assert values == Counter(dict.fromkeys("abde", 40))
        assert {check.problem for check in await tl.log.verify("orders")} == {None}
        assert {error.details["partition"] for error in told} == ({0, 1} if lags else set())
