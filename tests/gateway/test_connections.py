"""Limits on connections: a real `trunkline serve` that may open few files, and real sockets."""

from __future__ import annotations

import os
import resource
import select
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx
import pytest
from tests.gateway.nodes import SECRET, bearer
from websockets.sync.client import connect as open_websocket

from trunkline import BadRequest
from trunkline.gateway.connections import Connections
from trunkline.gateway.settings import GatewaySettings

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = Path(sys.executable).parent / "trunkline"
FILES = 256
UNFINISHED = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
WHOLE = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@contextmanager
def serving(dsn: str, *words: str, files: int = FILES) -> Iterator[str]:
    """The address of a gateway whose process may open few files."""
    limit = partial(resource.setrlimit, resource.RLIMIT_NOFILE, (files, files))
    process = subprocess.Popen(
        [PROGRAM, "serve", "--port", "0", "--no-services", *words],
        env={**os.environ, "TRUNKLINE_DSN": dsn, "TRUNKLINE_JWT_SECRET": SECRET},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=limit,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


def opened(address: str, sent: bytes = b"") -> socket.socket:
    place = urlsplit(address)
    connection = socket.create_connection((place.hostname, place.port), timeout=20)
    connection.sendall(sent)
    return connection


def healthy(address: str) -> bool:
    return httpx.get(f"{address}/healthz", timeout=5).status_code == 200


def closed(connections: list[socket.socket]) -> int:
    """How many of them the gateway has closed."""
    readable, _, _ = select.select(connections, [], [], 0)
    return len(readable)


@pytest.fixture(scope="module")
def address(gateway_dsn: str) -> Iterator[str]:
    """A gateway with short limits."""
    with serving(gateway_dsn, "--header-seconds", "1", "--idle-seconds", "1") as found:
        yield found


def test_unfinished_heads_do_not_stall_a_gateway(gateway_dsn: str) -> None:
    with serving(gateway_dsn) as address, ExitStack() as stack:
        slow = [stack.enter_context(opened(address, UNFINISHED)) for _ in range(300)]
        assert healthy(address)
        for _ in range(300):
            slow.append(stack.enter_context(opened(address)))
            assert healthy(address) or len(slow) % 50
        answer = httpx.get(f"{address}/v1/log", headers=bearer("trunkline_reader"), timeout=5)
        assert answer.status_code == 200


def test_a_head_that_does_not_come_is_answered_with_408(address: str) -> None:
    begun = time.monotonic()
    with opened(address, UNFINISHED) as connection:
        for _ in range(4):  # a byte now and then does not help
            select.select([connection], [], [], 0.3)
            if not closed([connection]):
                connection.sendall(b"x")
        assert connection.recv(4096).startswith(b"HTTP/1.1 408 ")
        assert connection.recv(4096) == b""
    assert time.monotonic() - begun < 5


def test_a_connection_without_a_byte_is_closed(address: str) -> None:
    with opened(address) as connection:
        assert connection.recv(4096) == b""


@pytest.mark.parametrize("sent", [b"", UNFINISHED])
def test_a_kept_connection_is_closed_when_it_is_idle(address: str, sent: bytes) -> None:
    with opened(address, WHOLE) as connection:
        received = connection.recv(4096)
        connection.sendall(WHOLE)
        while received.count(b'{"status":"ok"}') < 2:
            part = connection.recv(4096)
            assert part
            received += part
        assert received.count(b"HTTP/1.1 200 ") == 2
        connection.sendall(sent)
        assert b" 200 " not in connection.recv(4096)


def test_a_websocket_without_a_token_waits_with_the_others(gateway_dsn: str) -> None:
    url = "/graphql"
    with serving(gateway_dsn) as address, ExitStack() as stack:
        for _ in range(200):
            socket_ = open_websocket(
                f"ws{address.removeprefix('http')}{url}",
                subprotocols=["graphql-transport-ws"],  # type: ignore[list-item]
                close_timeout=0,
            )
            stack.callback(socket_.socket.close)
        assert healthy(address)
        answer = httpx.get(f"{address}/v1/log", headers=bearer("trunkline_reader"), timeout=5)
        assert answer.status_code == 200


def test_healthz_is_answered_when_all_connections_are_in_use(gateway_dsn: str) -> None:
    token = bearer("trunkline_reader")["Authorization"]
    stream = f"GET /v1/broker/stream HTTP/1.1\r\nHost: x\r\nAuthorization: {token}\r\n\r\n"
    with serving(gateway_dsn, "--connections", "5") as address, ExitStack() as stack:
        for _ in range(5):
            followed = stack.enter_context(opened(address, stream.encode()))
            assert followed.recv(4096).startswith(b"HTTP/1.1 200 ")
        refused = httpx.get(f"{address}/v1/log", headers=bearer("trunkline_reader"))
        assert (refused.status_code, refused.json()["code"]) == (503, "TL503")
        assert healthy(address)
        followed.close()
        time_left = time.monotonic() + 10
        while httpx.get(f"{address}/v1/log", headers=bearer("trunkline_reader")).is_error:
            assert time.monotonic() < time_left


def test_more_connections_than_files_are_refused() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    with pytest.raises(BadRequest, match="files that this process may open") as refused:
        Connections(GatewaySettings(gateway_connections=soft))
    assert "TRUNKLINE_GATEWAY_CONNECTIONS" in refused.value.hint
