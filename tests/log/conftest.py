"""Sessions for tests that speak to the log in SQL.

A database per module instead of one per test, swept after every test: most tests are a few
milliseconds long, and a database takes longer to make than that.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.fixtures.asking import sweeping
from tests.fixtures.postgres import new_database, open_two_sessions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures.asking import Session
    from tests.fixtures.postgres import AnyServer, TwoSessions

_SWEEP = """
do $$
declare
  topic text;
begin
  for topic in select t.topic from trunkline.log_topic t loop
    perform trunkline.log_delete(topic);
  end loop;
  while trunkline.log_segments_drop() loop
    null;
  end loop;
  update trunkline.config set value = default_value where value <> default_value;
  update trunkline.duty set ran_at = null, failed_at = null, error = null;
  delete from trunkline.lease;
  delete from trunkline.owner;
  delete from trunkline.incarnation where follows > 0;
end $$
"""


@pytest.fixture(scope="module")
def module_dsn(server: AnyServer, template: str) -> Iterator[str]:
    with new_database(server, template=template) as name:
        dsn = server.dsn(name)
        with psycopg.connect(dsn, autocommit=True) as session:
            # Else the first append would note the new life, and hold up others until it commits.
            session.execute("select trunkline._incarnation_row()")
        yield dsn


@pytest.fixture(scope="module")
def sweep(module_dsn: str) -> Iterator[Callable[[], None]]:
    with sweeping(module_dsn, lambda session: session.execute(_SWEEP)) as sweep:
        yield sweep


@pytest.fixture
def log_dsn(module_dsn: str, sweep: Callable[[], None]) -> Iterator[str]:
    """The module's database, without topics, leases and changed settings."""
    yield module_dsn
    sweep()


@pytest.fixture
def connect(log_dsn: str) -> Iterator[Callable[..., Session]]:
    """Open further sessions: ``connect(autocommit=False)``."""
    with ExitStack() as opened:

        def open_one(*, autocommit: bool = True, **options: Any) -> Session:
            connection = psycopg.connect(log_dsn, autocommit=autocommit, **options)
            return opened.enter_context(closing(connection))

        yield open_one


@pytest.fixture
def session(connect: Callable[..., Session]) -> Session:
    return connect()


@pytest.fixture
def two(log_dsn: str) -> Iterator[TwoSessions]:
    """Two transactions to be led in lock step."""
    with open_two_sessions(log_dsn) as sessions:
        yield sessions
