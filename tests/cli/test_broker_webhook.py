"""``trunkline broker webhook`` and ``trunkline broker receive``."""

from __future__ import annotations

import json
import signal
import socket
import struct
from typing import TYPE_CHECKING, Any

import httpx
from standardwebhooks import Webhook as Signer
from tests.cli.conftest import answer_of

from trunkline.testing import wait_until

if TYPE_CHECKING:
    import psycopg
    from tests.cli.conftest import Cli, Start

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def listening(process: Any) -> str:
    """The address that a receiver says it listens on."""
    said = process.stderr.readline()
    assert said.startswith("Listening on http"), said
    return str(said.split()[2].rstrip(";"))


def test_a_webhook_from_adding_to_removing(
    cli: Cli, start: Start, dsn: str, sql: psycopg.Connection[Any]
) -> None:
    cli("db", "config", "set", "broker.webhook_private", "true")
    receiver = start("broker", "receive", "--port", "0", "--secret", SECRET, "--limit", "2")
    url = listening(receiver)
    condition = '{"topic": "orders"}'
    words = ("broker", "webhook", "add", "shop", url, condition, "--retry", "1s, 1m")
    made = cli(*words, "--secret", SECRET, "--header", "x-shop=7", "--timeout", "5s")
    assert (made.code, made.rows) == (0, {"webhook": 1}), made.err
    services = start("up", TRUNKLINE_DSN=dsn)
    for topic in ("orders", "other", "orders"):
        sql.execute("select trunkline.broker_publish(%s, '1')", [topic])
    received = answer_of(receiver)
    assert received.code == 0, received.err
    items = [json.loads(line) for line in received.out.splitlines()]
    assert [item["topic"] for item in items] == ["orders", "orders"]
    wait_until(lambda: len(cli("broker", "webhook", "log", "1").rows) == 2)
    services.send_signal(signal.SIGTERM)
    assert answer_of(services).code == 0

    [listed] = cli("broker", "webhook", "list", "--group", "shop").rows
    assert (listed["url"], listed["signatures"], listed["header_names"]) == (url, 1, ["x-shop"])
    assert SECRET not in json.dumps(listed)
    rotated = cli("broker", "webhook", "rotate", "1", "--sign").rows
    assert rotated["secret"].startswith("whsec_")
    assert cli("broker", "webhook", "list").rows[0]["signatures"] == 2
    assert "is paused" in cli("broker", "webhook", "pause", "1", "--reason", "moving").err
    assert "was already" in cli("broker", "webhook", "pause", "1").err
    assert cli("broker", "webhook", "list").rows[0]["paused_because"] == "moving"
    assert "is resumed" in cli("broker", "webhook", "resume", "1").err
    assert cli("broker", "webhook", "remove", "1", "--yes").code == 0
    assert cli("broker", "webhook", "remove", "1", "--yes").code == 3
    assert cli("broker", "webhook", "list").rows == []


def test_waits_are_given_together_or_one_by_one(cli: Cli) -> None:
    for retry, waits in (
        (["--retry", "1s, 2m"], ["1s", "2m"]),
        (["--retry", "1s", "--retry", "2m"], ["1s", "2m"]),
        (["--retry", ""], []),
    ):
        number = cli("broker", "webhook", "add", "g", "https://x.example/", *retry).rows["webhook"]
        listed = {row["webhook"]: row["retry"] for row in cli("broker", "webhook", "list").rows}
        assert listed[number] == waits


def test_misuse_is_said_clearly(cli: Cli) -> None:
    refused = cli("broker", "webhook", "add", "g", "gopher://x/")
    assert refused.code != 0
    private = cli("broker", "webhook", "add", "g", "http://2852039166/latest")
    assert private.code != 0
    assert "169.254.169.254 is not a public address" in private.err
    assert "a URL like https://host/path" in refused.err
    assert "needs a secret" in cli("broker", "webhook", "rotate", "1").err
    assert (
        "takes a duration" in cli("broker", "webhook", "add", "g", "http://x", "--retry", "x").err
    )
    assert "there is no webhook 9" in cli("broker", "webhook", "pause", "9").err
    assert cli("broker", "webhook", "log", "9").code == 3
    assert "is base64" in cli("broker", "receive", "--port", "0", "--secret", "ü").err


def test_a_receiver_refuses_what_is_not_signed_with_its_secret(start: Start) -> None:
    receiver = start("broker", "receive", "--port", "0", "--secret", SECRET, "--limit", "1")
    url = listening(receiver)
    from datetime import UTC, datetime

    now, body = datetime.now(UTC), '[{"id": "1"}]'
    good = {
        "webhook-id": "m",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Signer(SECRET).sign("m", now, body),
    }
    assert httpx.post(url, content=body).status_code == 401
    assert httpx.post(url, content=body + " ", headers=good).status_code == 401
    wrong = {**good, "webhook-signature": "rubbish"}
    assert httpx.post(url, content=body, headers=wrong).status_code == 400
    zipped = {"content-encoding": "gzip"}
    assert httpx.post(url, content=body, headers=zipped).status_code == 400
    assert httpx.post(url, content=body, headers=good).status_code == 200
    received = answer_of(receiver)
    assert received.out == '{"id": "1"}\n'
    assert received.err.count("refused: the signature") == 3


def test_a_receiver_whose_reader_has_left_ends_without_a_traceback(start: Start) -> None:
    receiver = start("broker", "receive", "--port", "0")
    url = listening(receiver)
    assert receiver.stdout is not None
    receiver.stdout.close()
    assert httpx.post(url, content="[1]").status_code == 200
    receiver.wait(timeout=30)
    assert receiver.stderr is not None
    assert receiver.stderr.read() == ""


def test_a_request_that_breaks_off_gets_one_line(start: Start) -> None:
    receiver = start("broker", "receive", "--port", "0", "--limit", "1")
    url = httpx.URL(listening(receiver))
    with socket.create_connection((url.host, url.port or 80)) as client:
        client.sendall(b"POST / HTTP/1.1\r\ncontent-length: 9\r\n\r\n")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert receiver.stderr is not None
    assert receiver.stderr.readline().startswith("a request broke off: ")
    assert httpx.post(url, content="[1]").status_code == 200
    assert answer_of(receiver).err == ""
