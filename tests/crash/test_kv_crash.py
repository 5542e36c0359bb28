"""Servers and pullers are killed at random; at the end all zones have what was acknowledged."""

from __future__ import annotations

import random
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.crash.victims import running

from trunkline.core import migrate
from trunkline.testing import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.standby import Pair

    from trunkline.core.embedded import Server

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]
PROGRAM = "kv_services.py"
KEYS = "select key, value from trunkline.kv_scan('default', max_keys => 100000)"


class Writer:
    """Writes to one instance, and remembers what was acknowledged and what nobody knows of."""

    def __init__(self, zone: str, dsn: str, chance: random.Random):
        self.zone = zone
        self._dsn = dsn
        self._chance = chance
        self.n = 0
        self.said: dict[str, int | None] = {}
        self.unknown: set[str] = set()
        self.added = 0
        self.perhaps_added = 0

    def write(self, times: int, break_down: Callable[[], object] | None = None) -> None:
        """Write; in the middle of it something breaks down."""
        breaks_at = self._chance.randrange(times) if break_down else -1
        try:
            with psycopg.connect(self._dsn, autocommit=True) as connection:
                for turn in range(times):
                    if turn == breaks_at and break_down is not None:
                        break_down()
                    self._write(connection)
        except psycopg.OperationalError:
            assert break_down is not None

    def _write(self, connection: psycopg.Connection[Any]) -> None:
        self.n += 1
        key = f"{self.zone} {self._chance.randrange(30)}"
        action = self._chance.random()
        if action < 0.3:
            self.perhaps_added += 1
            connection.execute(
                "select trunkline.kv_patch_numeric('default', 'visits', '{\"n\": 1}')"
            )
            self.added += 1
            return
        value = None if action < 0.45 else self.n
        self.unknown.add(key)
        if value is None:
            connection.execute("select trunkline.kv_delete('default', %s)", [key])
        else:
            connection.execute(
                "select trunkline.kv_put('default', %s, to_jsonb(%s::int))", [key, value]
            )
        self.unknown.discard(key)
        self.said[key] = value


def prepare(*instances: tuple[str, str]) -> None:
    """Install every instance and tell it of all."""
    for zone, dsn in instances:
        migrate.install(dsn)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("select trunkline.config_set('lease.ttl', '1 second')")
            for each in instances:
                connection.execute("select trunkline.kv_instance_put(%s, 's', %s)", each)
            connection.execute("select trunkline.kv_instance_here(%s, 's')", [zone])


def keys_of(dsn: str) -> dict[str, Any]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return dict(connection.execute(KEYS).fetchall())


def check(writers: list[Writer], *dsns: str) -> None:
    """All zones are the same, and have what was acknowledged."""
    found, *others = [keys_of(dsn) for dsn in dsns]
    for other in others:
        assert other == found
    for writer in writers:
        for key, value in writer.said.items():
            assert key in writer.unknown or found.get(key) == value, key
    added = sum(writer.added for writer in writers)
    perhaps = sum(writer.perhaps_added for writer in writers)
    assert added <= found["visits"]["n"] <= perhaps


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(n, marks=pytest.mark.soak) for n in range(2, 12))]
)
def test_what_was_acknowledged_is_in_all_zones_whoever_is_killed(
    own_server: Callable[..., Server], seed: int
) -> None:
    chance = random.Random(seed)
    servers = {zone: own_server() for zone in ("east", "west")}
    places = {zone: server.dsn("postgres") for zone, server in servers.items()}
    prepare(*places.items())
    writers = [Writer(zone, dsn, chance) for zone, dsn in places.items()]
    for turn in range(4):
        with ExitStack() as started:
            for dsn in places.values():
                started.enter_context(running(PROGRAM, dsn))
            for writer in writers:
                victim = servers[writer.zone] if chance.random() < 0.6 and turn else None
                writer.write(60, None if victim is None else victim.kill)
                if victim is not None:
                    victim.start()
    with ExitStack() as started:
        for dsn in places.values():
            started.enter_context(running(PROGRAM, dsn))
        wait_until(lambda: check(writers, *places.values()), 30, also=(psycopg.Error,))


@pytest.mark.parametrize(
    "lags",
    [pytest.param(False, id="follows", marks=pytest.mark.soak), pytest.param(True, id="lags")],
)
def test_zones_converge_after_a_standby_took_over(
    make_pair: Callable[..., Pair], own_server: Callable[..., Server], *, lags: bool
) -> None:
    """What a lagging standby lacks comes back from the zone that had pulled it."""
    chance = random.Random(5)
    pair = make_pair(lambda _: None)
    west = own_server().dsn("postgres")
    prepare(("east", pair.dsn), ("west", west))
    writers = [Writer("east", pair.dsn, chance), Writer("west", west, chance)]
    with running(PROGRAM, pair.dsn), running(PROGRAM, west):
        for writer in writers:
            writer.write(60)
        wait_until(lambda: check(writers, pair.dsn, west), 30)
        if lags:
            pair.part()
            for writer in writers:
                writer.write(60)
            wait_until(lambda: check(writers, pair.dsn, west), 30)
        pair.fail_over()
        writers[0].write(60)
        wait_until(lambda: check(writers, pair.dsn, west), 45, also=(psycopg.Error,))
