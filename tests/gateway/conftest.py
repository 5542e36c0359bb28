"""A real gateway on loopback, over one database that every test finds swept."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest
from tests.broker.steps import swept
from tests.fixtures.asking import connections
from tests.fixtures.postgres import new_database
from tests.gateway.nodes import BOOKS, SWEEP, Node, Roles, make_live, open_node

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.fixtures.asking import Connect, Session
    from tests.fixtures.postgres import AnyServer
    from tests.gateway.nodes import OpenNode


@pytest.fixture(scope="session")
def gateway_dsn(server: AnyServer, template: str, roles: Roles) -> Iterator[str]:
    """Made after the roles, so that it goes before them."""
    with new_database(server, template=template) as name:
        yield server.dsn(name)


@pytest.fixture(scope="session")
def roles(server: AnyServer) -> Iterator[Roles]:
    """Roles that people have, made once: they belong to the server."""
    with connections(server.dsn("postgres")) as connect:
        made = Roles.make(connect())
        yield made
        made.drop(connect())


@pytest.fixture
def connect(gateway_dsn: str, roles: Roles) -> Iterator[Connect]:
    with connections(gateway_dsn) as open_one:
        session = open_one()
        session.execute(SWEEP)
        swept(session)
        session.execute(f"drop owned by {roles.all}")
        yield open_one


@pytest.fixture
def session(connect: Connect) -> Session:
    """A session of the owner of all tables."""
    return connect()


@pytest.fixture
async def start(gateway_dsn: str, session: Session) -> AsyncIterator[OpenNode]:
    """Start gateways: ``await start(anonymous_role="guest")``."""
    async with AsyncExitStack() as stack:

        async def make(**given: object) -> Node:
            dsn = str(given.pop("dsn", gateway_dsn))
            return await stack.enter_async_context(open_node(dsn, session, **given))

        yield make


@pytest.fixture
def books(session: Session, roles: Roles) -> None:
    """A live table that members may read."""
    session.execute(BOOKS)
    make_live(session, "books", roles.member)


@pytest.fixture
async def node(start: OpenNode) -> Node:
    """A gateway that asks for tokens."""
    return await start()
