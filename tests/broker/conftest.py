"""Connections for tests that speak to the broker in SQL, each test in a database of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.broker.steps import connections

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.broker.steps import Session


@pytest.fixture
def connect(dsn: str) -> Iterator[Callable[..., Session]]:
    """Open connections to the database: ``connect(autocommit=False)``."""
    with connections(dsn) as open_one:
        yield open_one


@pytest.fixture
def session(connect: Callable[..., Session]) -> Session:
    """A session in a fresh database."""
    return connect()


@pytest.fixture
def other(connect: Callable[..., Session]) -> Session:
    """A second session, in a transaction; closed without commit at the end."""
    return connect(autocommit=False)
