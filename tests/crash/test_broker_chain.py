"""Sequencer, matcher, forwarder, worker and server are killed; every committed event arrives."""

from __future__ import annotations

import random
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
PROGRAM = "broker_chain.py"
KEYS = [f"k{number}" for number in range(12)]


def prepare(server: Server) -> str:
    """A database with a topic of the log, and a group that nobody reads yet; its DSN."""
    dsn = server.dsn("postgres")
    migrate.install(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("select trunkline.config_set('lease.ttl', '1 second')")
        connection.execute("select trunkline.log_create('orders', 3)")
        connection.execute("select trunkline.broker_subscribe('later', '{\"topic\": \"orders\"}')")
        connection.execute("create table sent (key text, n int, event_id bigint)")
        connection.execute(
            "create table effect (number bigint generated always as identity,"
            " key text, n int, event_id bigint)"
        )
    return dsn


class Publisher:
    """Publishes in transactions that end in every way; `sent` is part of them."""

    def __init__(self, connection: psycopg.Connection[Any], chance: random.Random, n: int):
        self._connection = connection
        self._chance = chance
        self.n = n

    def transaction(self) -> None:
        with self._connection.transaction() as whole:
            for _ in range(self._chance.randrange(1, 6)):
                with self._connection.transaction() as part:
                    self._publish()
                    if self._chance.random() < 0.2:
                        raise psycopg.Rollback(part)
            if self._chance.random() < 0.2:
                raise psycopg.Rollback(whole)

    def _publish(self) -> None:
        self.n += 1
        key = self._chance.choice(KEYS)
        self._connection.execute(
            "insert into sent select %(key)s, %(n)s, trunkline.broker_publish("
            "'orders', jsonb_build_object('n', %(n)s::int), key => %(key)s)",
            {"key": key, "n": self.n},
        )


def settled(dsn: str) -> None:
    """What was committed, and nothing else, arrived everywhere, once and in order."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        sent = connection.execute("select key, n, event_id from sent order by event_id").fetchall()
        effects = connection.execute(
            "select key, n, event_id from effect order by number"
        ).fetchall()
        assert sorted(effects) == sorted(sent)
        for key in KEYS:
            assert [one for one in effects if one[0] == key] == [
                one for one in sent if one[0] == key
            ]
        later = connection.execute(
            "select key, (payload ->> 'n')::int, event_id"
            " from trunkline.broker_read('later', max_events => 100000)"
        ).fetchall()
        assert sorted(later) == sorted(sent)
        forwarded = connection.execute(
            "select p.partition, array_agg(m.log_offset order by m.log_offset)"
            " from generate_series(0, 2) p (partition)"
            " cross join lateral trunkline.log_read('orders', p.partition, 1, 100000) m"
            " group by 1"
        ).fetchall()
        for _, offsets in forwarded:
            assert offsets == list(range(1, len(offsets) + 1))
        assert sum(len(offsets) for _, offsets in forwarded) == len(sent)


def play(server: Server, seed: int, turns: int) -> None:
    dsn = prepare(server)
    chance = random.Random(seed)
    n = 0
    with running(PROGRAM, dsn, "worker"):
        pass  # registered: from now on every event is for it
    for _ in range(turns):
        with (
            running(PROGRAM, dsn, "services") as services,
            running(PROGRAM, dsn, "worker") as worker,
        ):
            with psycopg.connect(dsn, autocommit=True) as connection:
                publisher = Publisher(connection, chance, n)
                for _ in range(chance.randrange(5, 25)):
                    publisher.transaction()
                    victim = chance.choice([services, worker, None, None, None, None])
                    if victim is not None:
                        victim.kill()
                n = publisher.n
            if chance.random() < 0.5:
                server.kill()
                server.start()
    with running(PROGRAM, dsn, "services"), running(PROGRAM, dsn, "worker"):
        wait_until(lambda: settled(dsn), 60, also=(psycopg.Error,))


@pytest.mark.parametrize("seed", [1])
def test_every_committed_event_arrives_once_and_in_order_whoever_is_killed(
    own_server: Callable[..., Server], seed: int
) -> None:
    play(own_server(), seed, turns=3)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(2, 22))
def test_every_committed_event_arrives_once_and_in_order_for_long(
    own_server: Callable[..., Server], seed: int
) -> None:
    play(own_server(), seed, turns=10)
