"""``trunkline up``."""

from __future__ import annotations

import signal
import socket
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.cli.conftest import Start, answer_of

from trunkline.core.embedded import Server
from trunkline.testing import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Cli


def test_it_maintains_until_told_to_stop(
    dsn: str, start: Start, sql: psycopg.Connection[Any]
) -> None:
    process = start("up", TRUNKLINE_DSN=dsn)
    assert process.stdout is not None
    assert process.stdout.readline().strip() == dsn

    def maintained() -> bool:
        row = sql.execute("select bool_and(ran_at is not null) from trunkline.duty").fetchone()
        return bool(row and row[0])

    wait_until(maintained)
    process.send_signal(signal.SIGTERM)
    answer = answer_of(process)
    assert answer.code == 0
    assert "Traceback" not in answer.err


def test_it_runs_the_embedded_server_with_its_schema(home: Path, start: Start) -> None:
    process = start("up", "--instance", "shop", TRUNKLINE_HOME=str(home))
    assert process.stdout is not None
    dsn = process.stdout.readline().strip()
    with psycopg.connect(dsn) as connection:
        connection.execute("select trunkline.log_create('orders')")
    listed = answer_of(start("log", "list", "--instance", "shop", TRUNKLINE_HOME=str(home)))
    assert listed.rows[0]["topic"] == "orders"
    server = Server(home, "shop")
    assert server.running
    process.send_signal(signal.SIGTERM)
    assert answer_of(process).code == 0
    assert not server.running


@pytest.mark.crash
def test_it_brings_the_embedded_server_back_after_a_kill(home: Path, start: Start) -> None:
    process = start("up", "--instance", "shop", TRUNKLINE_HOME=str(home))
    assert process.stdout is not None
    dsn = process.stdout.readline().strip()
    with psycopg.connect(dsn) as connection:
        connection.execute("select trunkline.log_create('orders')")
    server = Server(home, "shop")
    server.kill()

    def back() -> None:
        with psycopg.connect(dsn) as connection:
            topics = connection.execute("select topic from trunkline.log_list()").fetchall()
        assert topics == [("orders",)]

    wait_until(back, timeout=30, also=(psycopg.OperationalError,))
    process.send_signal(signal.SIGTERM)
    assert answer_of(process).code == 0
    assert not server.running


def test_a_database_without_the_schema_is_refused_or_given_it(bare_dsn: str, start: Start) -> None:
    refused = answer_of(start("up", "--dsn", bare_dsn))
    assert refused.code == 1
    assert "trunkline db install" in refused.err
    process = start("up", "--install", "--dsn", bare_dsn)
    assert process.stdout is not None
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)  # as soon as it has spoken
    assert answer_of(process).code == 0


def test_it_lets_programs_in_over_tcp(home: Path, start: Start) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as found:
        listen = f"127.0.0.1:{found.getsockname()[1]}"
    process = start("up", "--instance", "shop", "--listen", listen, TRUNKLINE_HOME=str(home))
    assert process.stdout is not None
    dsn = process.stdout.readline().strip()
    assert f"@{listen}/trunkline" in dsn
    with psycopg.connect(dsn) as connection:
        connection.execute("select trunkline.log_create('orders')")
    listed = answer_of(start("log", "list", "--instance", "shop", TRUNKLINE_HOME=str(home)))
    assert listed.rows[0]["topic"] == "orders"
    process.send_signal(signal.SIGTERM)
    answer = answer_of(process)
    assert answer.code == 0
    password = dsn.split(":")[2].split("@")[0]
    assert f"jdbc:postgresql://{listen}/trunkline?user=postgres&password={password}" in answer.err
    assert answer.err.count(password) == 1


def test_only_the_embedded_server_listens_and_only_on_loopback(cli: Cli) -> None:
    named = cli("up", "--listen", "127.0.0.1:15432")
    assert (named.code, "--listen is for the embedded server" in named.err) == (2, True)
    remote = cli("up", "--listen", "0.0.0.0:15432")
    assert (remote.code, "loopback only" in remote.err) == (2, True)
