"""Workers and the server are killed at random; at the end the downstream equals the table."""

from __future__ import annotations

import random
import signal
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.crash.victims import running

from trunkline.core import migrate
from trunkline.testing import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from trunkline.core.embedded import Server

pytestmark = pytest.mark.crash
PROGRAM = "tube_worker.py"
CHANGES = (
    "insert into item values (%(key)s, %(name)s) on conflict (id) do update set name = %(name)s",
    "update item set name = %(name)s where id %% 7 = %(key)s %% 7",
    "delete from item where id = %(key)s",
    "update item set id = id + 100 where id = %(key)s"
    " and not exists (select from item where id = %(key)s + 100)",
)
DIFFERENCE = """
(select id::text, to_jsonb(item) from item
 except select key, document from copied where document is not null)
union all
(select key, document from copied where document is not null
 except select id::text, to_jsonb(item) from item)"""
WAITING = "select sum(live_entries + backfill_entries) from trunkline.tube_stats()"


def prepare(server: Server) -> str:
    """A database with a table in a tube of two lanes; its DSN."""
    dsn = server.dsn("postgres")
    migrate.install(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("select trunkline.config_set('lease.ttl', '1 second')")
        connection.execute("create table item (id int primary key, name text)")
        connection.execute("select trunkline.tube_ensure('items', 2)")
        connection.execute("select trunkline.tube_attach('items', 'item', 'id % 3')")
    return dsn


def change(connection: psycopg.Connection[Any], chance: random.Random, times: int) -> None:
    for _ in range(times):
        values = {"key": chance.randrange(60), "name": str(chance.random())}
        connection.execute(chance.choice(CHANGES), values)


def settled(dsn: str) -> None:
    """Everything is delivered, and the copy equals the table row by row."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("select trunkline.tube_tick()")
        assert connection.execute(WAITING).fetchone() == (0,)
        assert connection.execute(DIFFERENCE).fetchall() == []


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(n, marks=pytest.mark.soak) for n in range(2, 8))]
)
def test_the_downstream_equals_the_table_after_workers_and_the_server_were_killed(
    own_server: Callable[..., Server], seed: int
) -> None:
    server = own_server()
    dsn = prepare(server)
    chance = random.Random(seed)
    for turn in range(5):
        with running(PROGRAM, dsn), psycopg.connect(dsn, autocommit=True) as connection:
            change(connection, chance, chance.randrange(20, 60))
            if turn % 2:
                server.kill()
                server.start()
    with running(PROGRAM, dsn):
        wait_until(lambda: settled(dsn), 30, also=(psycopg.Error,))


def test_a_worker_that_slept_past_its_lease_harms_nothing_when_it_wakes(
    own_server: Callable[..., Server],
) -> None:
    dsn = prepare(own_server())
    chance = random.Random(3)
    with psycopg.connect(dsn, autocommit=True) as connection, running(PROGRAM, dsn) as sleeper:
        change(connection, chance, 30)
        sleeper.send_signal(signal.SIGSTOP)
        with running(PROGRAM, dsn):
            change(connection, chance, 30)
            wait_until(lambda: settled(dsn), 30, also=(psycopg.Error,))
            sleeper.send_signal(signal.SIGCONT)
            change(connection, chance, 30)
            wait_until(lambda: settled(dsn), 30, also=(psycopg.Error,))
