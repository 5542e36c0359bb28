"""Connections for tests that speak to the log in SQL."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.log.steps import Session


@pytest.fixture
def connect(dsn: str) -> Iterator[Callable[..., Session]]:
    """Open connections to the test's database: ``connect(autocommit=False)``."""
    with ExitStack() as opened:

        def open_one(*, autocommit: bool = True, **options: Any) -> Session:
            connection = psycopg.connect(dsn, autocommit=autocommit, **options)
            return opened.enter_context(closing(connection))

        yield open_one


@pytest.fixture
def session(connect: Callable[..., Session]) -> Session:
    return connect()
