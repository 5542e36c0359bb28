"""Connections for tests that speak to keys in SQL.

They share one database, which every test finds without keys, parade and settings of others; only
rings and positions go on. A test that needs those fresh asks for `dsn`; one
of several zones asks for `zones`, whose databases are shared and swept in the same way.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from tests.fixtures.asking import connections, sweeping
from tests.fixtures.postgres import new_database, open_two_sessions
from tests.fixtures.roles import login_roles
from tests.kv.sql_steps import ZONES, Copy, parade, swept
from tests.kv.zones import open_zones

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from tests.fixtures.asking import Connect, Session
    from tests.fixtures.postgres import AnyServer, TwoSessions
    from tests.fixtures.roles import Role
    from tests.kv.zones import Zone


@pytest.fixture(scope="session")
def shared_dsn(server: AnyServer, template: str) -> Iterator[str]:
    with new_database(server, template=template) as name:
        yield server.dsn(name)


@pytest.fixture(scope="session")
def zone_dsns(server: AnyServer, template: str) -> Iterator[list[str]]:
    with ExitStack() as made:
        yield [
            server.dsn(made.enter_context(new_database(server, template=template))) for _ in ZONES
        ]


@pytest.fixture(scope="session")
def zone_sweeps(zone_dsns: list[str]) -> Iterator[list[Callable[[], None]]]:
    with ExitStack() as kept:
        yield [kept.enter_context(sweeping(dsn, swept)) for dsn in zone_dsns]


@pytest.fixture
def connect(shared_dsn: str) -> Iterator[Callable[..., Session]]:
    """Open connections to the database: ``connect(autocommit=False)``."""
    with connections(shared_dsn) as open_one:
        yield open_one


@pytest.fixture(scope="session")
def sweep(shared_dsn: str) -> Iterator[Callable[[], None]]:
    with sweeping(shared_dsn, swept) as sweep:
        yield sweep


@pytest.fixture
def session(connect: Callable[..., Session], sweep: Callable[[], None]) -> Session:
    """A session in a database without keys."""
    sweep()
    return connect()


@pytest.fixture
def role(session: Session, connect: Connect) -> Iterator[Role]:
    with login_roles(session, connect) as make:
        yield make


@pytest.fixture
def racing(session: Session, shared_dsn: str) -> Iterator[TwoSessions]:
    """Two transactions in the shared database."""
    with open_two_sessions(shared_dsn) as sessions:
        yield sessions


@pytest.fixture
def zones(zone_dsns: list[str], zone_sweeps: list[Callable[[], None]]) -> Iterator[list[Copy]]:
    """Three zones of a parade that know of each other; nothing is replicated by itself."""
    for sweep in zone_sweeps:
        sweep()
    with ExitStack() as opened:
        copies = [
            Copy(name, opened.enter_context(connections(dsn))())
            for name, dsn in zip(ZONES, zone_dsns, strict=True)
        ]
        parade(copies)
        yield copies


@pytest.fixture
async def two(server: AnyServer, template: str) -> AsyncIterator[tuple[Zone, ...]]:
    """Two zones with clients, in new databases."""
    async with open_zones(server, template, "east", "west") as zones:
        yield zones


@pytest.fixture
async def three(server: AnyServer, template: str) -> AsyncIterator[tuple[Zone, ...]]:
    """Three zones with clients, in new databases."""
    async with open_zones(server, template, "east", "north", "west") as zones:
        yield zones
