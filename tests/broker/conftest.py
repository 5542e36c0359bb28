"""Connections for tests that speak to the broker.

They share one database, which every test finds as if it were fresh: without events, groups, topics,
settings and tables of others, and with positions from 1. A test that changes what is below, or
needs roles, asks for `dsn`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.broker.steps import swept
from tests.fixtures.asking import connections, sweeping
from tests.fixtures.postgres import new_database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures.asking import Session
    from tests.fixtures.postgres import AnyServer


@pytest.fixture(scope="session")
def shared_dsn(server: AnyServer, template: str) -> Iterator[str]:
    with new_database(server, template=template) as name:
        yield server.dsn(name)


@pytest.fixture(scope="session")
def sweep(shared_dsn: str) -> Iterator[Callable[[], None]]:
    with sweeping(shared_dsn, swept) as sweep:
        yield sweep


@pytest.fixture
def clean_dsn(shared_dsn: str, sweep: Callable[[], None]) -> str:
    """The shared database, swept; for tests of clients and services."""
    sweep()
    return shared_dsn


@pytest.fixture
def connect(clean_dsn: str) -> Iterator[Callable[..., Session]]:
    """Open connections to the database: ``connect(autocommit=False)``."""
    with connections(clean_dsn) as open_one:
        yield open_one


@pytest.fixture
def session(connect: Callable[..., Session]) -> Session:
    """A session in the database."""
    return connect()


@pytest.fixture
def other(connect: Callable[..., Session]) -> Session:
    """A second session, in a transaction; closed without commit at the end."""
    return connect(autocommit=False)
