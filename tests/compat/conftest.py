"""Databases with every compatibility schema, one for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.fixtures.asking import connections
from tests.fixtures.postgres import new_database
from tests.fixtures.roles import login_roles

from trunkline.core import compat, migrate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.asking import Connect, Session
    from tests.fixtures.postgres import AnyServer
    from tests.fixtures.roles import Role


@pytest.fixture(scope="session")
def compat_template(server: AnyServer, template: str) -> Iterator[str]:
    """A database with the schema and every compatibility schema."""
    with new_database(server, template=template) as name:
        migrate.install(server.dsn(name), compat=compat.SCHEMAS)
        yield name


@pytest.fixture
def compat_dsn(server: AnyServer, compat_template: str) -> Iterator[str]:
    with new_database(server, template=compat_template) as name:
        yield server.dsn(name)


@pytest.fixture
def connect(compat_dsn: str) -> Iterator[Connect]:
    with connections(compat_dsn) as open_one:
        yield open_one


@pytest.fixture
def session(connect: Connect) -> Session:
    return connect()


@pytest.fixture
def role(session: Session, connect: Connect) -> Iterator[Role]:
    with login_roles(session, connect) as make:
        yield make
