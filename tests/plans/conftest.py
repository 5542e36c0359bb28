"""A session that can tell how its calls are carried out."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest
from tests.fixtures.postgres import new_database
from tests.plans.explaining import load_explaining

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.asking import Session
    from tests.fixtures.postgres import AnyServer


@pytest.fixture
def explaining(server: AnyServer, template: str) -> Iterator[Session]:
    """A session in a new database, in a life that has begun."""
    with (
        new_database(server, template=template) as name,
        closing(psycopg.connect(server.dsn(name), autocommit=True)) as opened,
    ):
        load_explaining(opened)
        opened.execute("select trunkline._incarnation_row()")
        yield opened
