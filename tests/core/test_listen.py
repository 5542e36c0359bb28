"""Wake-ups over a real server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from trunkline.core.backoff import Backoff
from trunkline.core.errors import Invalid
from trunkline.core.listen import Listener, Notifier, Subscription, Waker
from trunkline.testing import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SOON = 10.0  # seconds until a test gives up
NEVER = 0.05  # seconds that show that nothing comes


class Server:
    """Opens connections, remembers them, cuts them off, can be away."""

    def __init__(self, dsn: str):
        self.dsn = dsn
        self.away = False
        self.opened: list[psycopg.AsyncConnection[Any]] = []

    async def connect(self) -> psycopg.AsyncConnection[Any]:
        if self.away:
            raise psycopg.OperationalError("the server is away")
        connection = await psycopg.AsyncConnection.connect(self.dsn)
        self.opened.append(connection)
        return connection

    async def execute(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        connection = await psycopg.AsyncConnection.connect(self.dsn, autocommit=True)
        async with connection:
            cursor = await connection.execute(statement, values)
            return await cursor.fetchall()

    async def cut(self) -> None:
        """Terminate the connection that was opened last."""
        (answer,) = await self.execute(
            "select pg_terminate_backend(%s, 10000)", self.opened[-1].info.backend_pid
        )
        assert answer == (True,)

    async def notify(self, key: str) -> None:
        await self.execute("select pg_notify('trunkline', %s)", key)


@pytest.fixture
def server_of(bare_dsn: str) -> Server:
    return Server(bare_dsn)


@pytest.fixture
async def listener(server_of: Server) -> AsyncIterator[Listener]:
    listener = Listener(server_of.connect, backoff=quick())
    yield listener
    await listener.close()
    assert all(connection.closed for connection in server_of.opened)


@pytest.fixture
async def notifier(bare_dsn: str) -> AsyncIterator[Notifier]:
    server = Server(bare_dsn)
    notifier = Notifier(server.connect, backoff=quick())
    yield notifier
    await notifier.close()
    assert all(connection.closed for connection in server.opened)


def quick() -> Backoff:
    return Backoff(first=0.001, longest=0.01)


async def test_a_subscription_hears_keys_with_its_prefix_and_no_others(
    server_of: Server, listener: Listener
) -> None:
    async with listener.subscribe("log:orders:") as orders, listener.subscribe("log:") as all_logs:
        await heard_the_beginning(listener, orders, all_logs)

        await server_of.notify("log:invoices:0")
        assert await all_logs.wait(SOON)
        assert not await orders.wait(NEVER)

        await server_of.notify("log:orders:3")
        assert await orders.wait(SOON)
        assert await all_logs.wait(SOON)


async def test_whoever_wants_to_know_is_told_what_was_heard(
    server_of: Server, listener: Listener
) -> None:
    keys: list[str] = []
    async with listener.subscribe("log:orders:", keys.append) as orders:
        await heard_the_beginning(listener, orders)
        for key in ("log:orders:3", "log:ordersof:4", "log:orders:5,6"):
            await server_of.notify(key)
        await eventually(lambda: len(keys) == 3)

    assert keys == ["", "log:orders:3", "log:orders:5,6"]


async def test_all_subscriptions_share_one_connection(
    server_of: Server, listener: Listener
) -> None:
    async with listener.subscribe("a"), listener.subscribe("b"), listener.subscribe("c"):
        assert await listener.ready()

    assert len(server_of.opened) == 1


async def test_what_comes_between_two_waits_is_not_lost(
    server_of: Server, listener: Listener
) -> None:
    async with listener.subscribe("mine") as mine, listener.subscribe("marker") as marker:
        await heard_the_beginning(listener, mine, marker)

        await server_of.notify("mine")
        await server_of.notify("mine")
        await server_of.notify("marker")
        assert await marker.wait(SOON)

        assert await mine.wait(0.001)
        assert not await mine.wait(NEVER)


async def test_a_lost_connection_is_opened_again_and_everybody_is_woken(
    server_of: Server, listener: Listener
) -> None:
    async with listener.subscribe("one") as one, listener.subscribe("two") as two:
        await heard_the_beginning(listener, one, two)

        await server_of.cut()
        assert await one.wait(SOON)
        assert await two.wait(SOON)
        assert len(server_of.opened) == 2

        await server_of.notify("two")
        assert await two.wait(SOON)
        assert not await one.wait(NEVER)


async def test_the_log_tells_when_listening_ended_and_when_it_went_on(
    server_of: Server, listener: Listener, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "trunkline")
    async with listener.subscribe("one") as one:
        await heard_the_beginning(listener, one)
        assert "listening" not in caplog.text
        await server_of.cut()
        assert await one.wait(SOON)
    assert caplog.text.index("not listening") < caplog.text.index("listening again")


async def test_without_a_server_a_wait_ends_with_its_timeout_and_the_listener_goes_on_trying(
    server_of: Server, listener: Listener
) -> None:
    server_of.away = True
    async with listener.subscribe("key") as subscription:
        assert not await subscription.wait(NEVER)
        assert not await listener.ready(timeout=0)

        server_of.away = False
        assert await subscription.wait(SOON)
        assert await listener.ready()


async def test_an_idle_connection_is_asked_whether_it_still_lives(server_of: Server) -> None:
    listener = Listener(server_of.connect, heartbeat=0.01)
    async with listener.subscribe("key") as subscription:
        await heard_the_beginning(listener, subscription)
        await eventually(lambda: last_statement_is(server_of, "select 1"))

        await server_of.notify("key")
        assert await subscription.wait(SOON)
    await listener.close()


async def test_closing_a_listener_wakes_those_who_wait_and_can_be_repeated(
    server_of: Server, listener: Listener
) -> None:
    async with listener.subscribe("key") as subscription:
        await heard_the_beginning(listener, subscription)

        await listener.close()
        await listener.close()

        assert await subscription.wait(SOON)
        assert not await subscription.wait(NEVER)
    async with listener.subscribe("late") as late:
        assert not await late.wait(NEVER)


async def test_a_listener_that_never_listened_can_be_closed(server_of: Server) -> None:
    await Listener(server_of.connect).close()
    await Notifier(server_of.connect).close()

    assert server_of.opened == []


async def test_a_waker_with_a_pace_wakes_no_faster(server_of: Server, listener: Listener) -> None:
    woken = asyncio.Event()
    waker = Waker(listener, "a", woken, pace=3600)
    waker.start()
    await asyncio.wait_for(woken.wait(), SOON)  # listening has begun
    woken.clear()
    async with listener.subscribe("b") as other:
        await server_of.notify("a")
        await server_of.notify("b")
        assert await other.wait(SOON)
    assert not woken.is_set()
    await waker.close()


async def test_the_notifier_wakes_a_listener(listener: Listener, notifier: Notifier) -> None:
    async with listener.subscribe("log:orders:") as subscription:
        await heard_the_beginning(listener, subscription)

        for _ in range(3):
            notifier.notify("log:orders:0")
            assert await subscription.wait(SOON)


async def test_a_key_told_many_times_is_said_once(bare_dsn: str, notifier: Notifier) -> None:
    listening = await psycopg.AsyncConnection.connect(bare_dsn, autocommit=True)
    async with listening:
        await listening.execute("listen trunkline")
        for _ in range(1000):
            notifier.notify("often")
            notifier.notify("also")
        await notifier.close()
        heard = [notice.payload async for notice in listening.notifies(timeout=SOON, stop_after=2)]
        heard += [notice.payload async for notice in listening.notifies(timeout=NEVER)]

    assert heard == ["often", "also"]


async def test_the_notifier_goes_on_after_its_connection_was_cut(
    bare_dsn: str, listener: Listener
) -> None:
    server = Server(bare_dsn)
    notifier = Notifier(server.connect, backoff=quick())
    async with listener.subscribe("key") as subscription:
        await heard_the_beginning(listener, subscription)
        notifier.notify("key")
        assert await subscription.wait(SOON)

        await server.cut()
        notifier.notify("key")  # finds the connection dead, and stays pending
        await eventually(lambda: server.opened[0].closed)
        notifier.notify("other")
        assert await subscription.wait(SOON)
    await notifier.close()


async def test_the_notifier_keeps_quiet_while_the_server_is_away(
    bare_dsn: str, listener: Listener
) -> None:
    server = Server(bare_dsn)
    server.away = True
    notifier = Notifier(server.connect, backoff=quick())
    async with listener.subscribe("missed") as subscription:
        await heard_the_beginning(listener, subscription)
        notifier.notify("missed")
        await eventually(lambda: notifier._backoff.attempts > 0)

        server.away = False
        notifier.notify("next")
        assert await subscription.wait(SOON)
    await notifier.close()


async def test_what_the_notifier_sets_does_not_outlast_its_statement(bare_dsn: str) -> None:
    server = Server(bare_dsn)
    notifier = Notifier(server.connect)
    notifier.notify("key")
    await eventually(lambda: bool(server.opened) and notifier._pending == {})
    (connection,) = server.opened

    cursor = await connection.execute("show synchronous_commit")

    assert await cursor.fetchone() == ("on",)
    await notifier.close()
    notifier.notify("too late")


@pytest.mark.parametrize("key", ["", "nul\0", "ä" * 4000])
async def test_a_key_that_cannot_be_said_is_refused(server_of: Server, key: str) -> None:
    with pytest.raises(Invalid, match="1 to 7999 bytes"):
        Notifier(server_of.connect).notify(key)


async def heard_the_beginning(listener: Listener, *subscriptions: Subscription) -> None:
    """A new connection wakes everybody; what comes after that is what the test did."""
    assert await listener.ready()
    for subscription in subscriptions:
        assert await subscription.wait(SOON)


async def last_statement_is(server: Server, statement: str) -> None:
    (row,) = await server.execute(
        "select query from pg_stat_activity where pid = %s", server.opened[-1].info.backend_pid
    )
    assert row == (statement,)
