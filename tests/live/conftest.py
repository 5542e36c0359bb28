"""Connections for tests that speak to live tables, in one database that every test finds swept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.broker.steps import swept
from tests.fixtures.asking import connections
from tests.fixtures.postgres import new_database
from tests.live.steps import SWEEP

from trunkline import connect as connect_platform

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from tests.fixtures.asking import Session
    from tests.fixtures.postgres import AnyServer

    from trunkline.platform import Platform


@pytest.fixture(scope="session")
def shared_dsn(server: AnyServer, template: str) -> Iterator[str]:
    with new_database(server, template=template) as name:
        yield server.dsn(name)


@pytest.fixture
def clean_dsn(shared_dsn: str) -> str:
    """The shared database, swept."""
    with connections(shared_dsn) as open_one:
        session = open_one()
        session.execute(SWEEP)
        swept(session)
    return shared_dsn


@pytest.fixture
def connect(clean_dsn: str) -> Iterator[Callable[..., Session]]:
    with connections(clean_dsn) as open_one:
        yield open_one


@pytest.fixture
def session(connect: Callable[..., Session]) -> Session:
    return connect()


@pytest.fixture
async def platform(clean_dsn: str) -> AsyncIterator[Platform]:
    async with connect_platform(clean_dsn) as opened:
        yield opened
