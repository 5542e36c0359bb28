"""Pages that follow a table, and the server, are killed; a page shows what the table holds."""

from __future__ import annotations

import json
import random
import time
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.crash.victims import running
from tests.live.steps import contacts

from trunkline.core import migrate
from trunkline.testing import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trunkline.core.embedded import Server

pytestmark = pytest.mark.crash
PROGRAM = "live_page.py"
STATEMENTS = (
    "insert into contacts values (%(id)s, %(org)s, 'a') on conflict (id) do nothing",
    "update contacts set name = name || 'x' where id = %(id)s",
    "update contacts set org_id = %(org)s where id < 100 and id %% 7 = %(id)s %% 7",
    "delete from contacts where id = %(id)s",
)


def write(dsn: str, chance: random.Random, times: int) -> None:
    """Transactions that commit or not, some of which stay open while others commit."""
    with psycopg.connect(dsn) as connection, psycopg.connect(dsn, autocommit=True) as other:
        for _ in range(times):
            for _ in range(chance.randrange(1, 4)):
                values = {"id": chance.randrange(40), "org": chance.choice((7, 7, 8))}
                connection.execute(chance.choice(STATEMENTS), values)
                free = {"id": chance.randrange(100, 140), "org": 7}
                other.execute(STATEMENTS[0], free)
            if chance.random() < 0.2:
                connection.rollback()
            connection.commit()


def settled(dsn: str, file: Path) -> None:
    with psycopg.connect(dsn) as connection:
        rows: list[Any] = connection.execute(
            "select id::text, name from contacts where org_id = 7"
        ).fetchall()
    assert json.loads(file.read_text())["rows"] == dict(rows)


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(n, marks=pytest.mark.soak) for n in range(2, 8))]
)
def test_a_page_shows_what_the_table_holds_after_it_and_the_server_were_killed(
    own_server: Callable[..., Server], tmp_path: Path, seed: int
) -> None:
    server = own_server()
    dsn = server.dsn("postgres")
    migrate.install(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("select trunkline.config_set('lease.ttl', '1 second')")
        contacts(connection)
    file = tmp_path / "page.json"
    file.write_text(json.dumps({"token": None, "rows": {}}))
    chance = random.Random(seed)
    for turn in range(4):
        with running(PROGRAM, dsn, str(file)):
            write(dsn, chance, chance.randrange(10, 30))
            time.sleep(chance.uniform(0, 0.8))  # the moment of the kill is what chance is for
            write(dsn, chance, chance.randrange(10, 30))
            if turn % 2:
                server.kill()
                server.start()
                write(dsn, chance, 10)
    with running(PROGRAM, dsn, str(file)):
        wait_until(lambda: settled(dsn, file), 45, also=(psycopg.Error,))
