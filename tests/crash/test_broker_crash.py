"""Apps and the server are killed at random; every event has its effect, in order, and only once."""

from __future__ import annotations

import json
import random
import time
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
PROGRAM = "broker_worker.py"
KEYS = "abcdef"
# Repetitions are allowed, but whatever comes first must come in the order of the key.
OUT_OF_ORDER = """
select key, n, last from (
  select key, n, max(n) over (partition by key order by first rows between unbounded preceding
                              and 1 preceding) as last
    from (select key, n, min(place) as first from noted group by key, n) f) o
where n < last"""


def prepare(server: Server) -> str:
    dsn = server.dsn("postgres")
    migrate.install(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("select trunkline.config_set('lease.ttl', '1 second')")
        connection.execute("create table counted (name text primary key, n int)")
        connection.execute(
            "create table noted (place int generated always as identity, key text, n int)"
        )
        connection.execute("create table survived (name text)")
    return dsn


class Publisher:
    """Publishes events whose transactions commit or not, and knows which did."""

    def __init__(self, dsn: str, chance: random.Random):
        self.published: set[str] = set()
        self._dsn = dsn
        self._chance = chance
        self._numbers = dict.fromkeys(KEYS, 0)

    def publish(self, times: int) -> None:
        with psycopg.connect(self._dsn) as connection:
            for _ in range(times):
                key = self._chance.choice(KEYS)
                number = self._numbers[key] + 1
                event = {"name": f"{key}{number}", "n": number}
                connection.execute(
                    "select trunkline.broker_publish('orders', %s, %s)", [json.dumps(event), key]
                )
                if self._chance.random() < 0.2:
                    connection.rollback()
                    continue
                connection.commit()
                self._numbers[key] = number
                self.published.add(event["name"])


def settled(dsn: str, published: set[str]) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        counted = dict(connection.execute("select name, n from counted").fetchall())
        assert counted == dict.fromkeys(published, 1)
        noted = connection.execute("select distinct key || n from noted").fetchall()
        assert {row[0] for row in noted} == published
        assert connection.execute(OUT_OF_ORDER).fetchall() == []


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(n, marks=pytest.mark.soak) for n in range(2, 8))]
)
def test_every_event_has_its_effect_once_and_in_order_after_apps_and_the_server_were_killed(
    own_server: Callable[..., Server], seed: int
) -> None:
    server = own_server()
    dsn = prepare(server)
    chance = random.Random(seed)
    publisher = Publisher(dsn, chance)
    for turn in range(4):
        with running(PROGRAM, dsn):
            publisher.publish(chance.randrange(10, 30))
            time.sleep(chance.uniform(0, 1.2))  # the moment of the kill is what chance is for
            publisher.publish(chance.randrange(10, 30))
            if turn % 2:
                server.kill()
                server.start()
    with running(PROGRAM, dsn):
        wait_until(lambda: settled(dsn, publisher.published), 45, also=(psycopg.Error,))


def test_an_event_that_kills_its_process_is_a_dead_letter_in_the_end_and_the_others_go_on(
    own_server: Callable[..., Server],
) -> None:
    dsn = prepare(own_server())
    with psycopg.connect(dsn, autocommit=True) as connection:
        for number in range(10):
            name = "deadly" if number == 4 else f"harmless {number}"
            connection.execute(
                "select trunkline.broker_publish('poison', %s, 'k' || %s::int)",
                [json.dumps(name), number % 3],
            )
        deaths = 0

        def dead_letters() -> list[tuple[Any, ...]]:
            return connection.execute(
                "select key, attempts, error, behind from trunkline.broker_dead_list()"
            ).fetchall()

        while not dead_letters():
            assert deaths < 10
            with running(PROGRAM, dsn) as process:
                wait_until(lambda: process.poll() is not None or bool(dead_letters()), 30)
                deaths += process.poll() is not None
        [(key, attempts, error, _)] = dead_letters()
        assert (key, attempts) == ("k1", 1)
        assert "died" in error
        assert 2 <= deaths <= 4
        with running(PROGRAM, dsn):
            others = {(f"harmless {n}",) for n in range(10) if n % 3 != 1} | {("harmless 1",)}
            survived = "select distinct name from survived"
            wait_until(lambda: set(connection.execute(survived).fetchall()) == others, 30)
            connection.execute(
                "select trunkline.broker_dead_discard(group_name => 'g', handler => 'kill')"
            )
            wait_until(lambda: len(connection.execute(survived).fetchall()) == 9, 30)
