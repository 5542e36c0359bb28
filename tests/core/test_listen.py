"""Wake-ups over a real server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from trunkline.core.backoff import Backoff
from trunkline.core.errors import Invalid
from trunkline.core.listen import Listener, Notifier
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
            cursor = await connection.execute(statement, values)  # type: ignore[call-overload]
            return await cursor.fetchall()  # type: ignore[no-any-return]

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
