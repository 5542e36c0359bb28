"""Connections for tests that speak to tubes in SQL.

They share one database, which every test finds without tables, tubes and settings of others; only
rings and positions go on. A test that needs those fresh, or changes what is below, asks for `dsn`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.fixtures.asking import connections, sweeping
from tests.fixtures.postgres import new_database
from tests.tube.sql_steps import ORDERS, Reader, attach, ensure, swept

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures.asking import Session
    from tests.fixtures.postgres import AnyServer


@pytest.fixture(scope="session")
def shared_dsn(server: AnyServer, template: str) -> Iterator[str]:
    with new_database(server, template=template) as name:
        yield server.dsn(name)


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
    """A session in a database with a table of orders and a tube."""
    sweep()
    opened = connect()
    opened.execute(ORDERS)
    ensure(opened)
    return opened


@pytest.fixture
def feed(session: Session) -> Reader:
    """A reader of the tube, to which the orders are attached."""
    attach(session)
    return Reader(session)
