"""Endpoints that misbehave, and senders that die: nothing is lost, and nobody else is harmed."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import re
import shutil
import ssl
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any

import h2.config
import h2.connection
import h2.events
import psycopg
import pytest
from standardwebhooks import Webhook as Verifier
from standardwebhooks import WebhookVerificationError
from tests.broker.receiving import (
    SECRET,
    Receiver,
    allow_private,
    answer,
    hang_up,
    receiving,
    sending,
    waits_for,
)
from tests.fixtures.asking import ask, column

from trunkline.core.errors import Conflict, Invalid, NotFound
from trunkline.testing import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from http.server import BaseHTTPRequestHandler
    from pathlib import Path

    from tests.fixtures.asking import Session

SOON = [timedelta(milliseconds=10)] * 6
OTHER_SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
ROTATED = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oE"


@pytest.fixture
def open_receiver() -> Iterator[Callable[..., Receiver]]:
    with ExitStack() as opened:
        yield lambda **given: opened.enter_context(receiving(**given))


@pytest.fixture
def receiver(open_receiver: Callable[..., Receiver]) -> Receiver:
    return open_receiver()


@pytest.fixture(autouse=True)
def _allowed(session: Session) -> None:
    allow_private(session)


def dead(session: Session) -> list[str]:
    return [
        str(error) for error in column(session, "select error from trunkline.broker_dead_list()")
    ]


async def test_an_endpoint_that_hangs_up_without_a_word_gets_it_again(
    clean_dsn: str, receiver: Receiver
) -> None:
    receiver.answers.append(hang_up)
    async with sending(clean_dsn) as (tl, _):
        await tl.broker.webhook_add("g", receiver.url, retry=SOON)
        await tl.broker.publish("t", 1)
        await eventually(lambda: len(receiver.requests) == 2)
    assert len(set(receiver.ids)) == 1


async def test_an_endpoint_killed_in_the_middle_of_a_request_gets_it_again(
    clean_dsn: str, tmp_path: Path
) -> None:
    program = (
        "import socket, sys\n"
        "s = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
        "print(s.getsockname()[1], flush=True)\n"
        "c, _ = s.accept(); c.recv(10); print('begun', flush=True); input()\n"
    )

    def start(port: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", program, str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    with start(0) as first:
        assert first.stdout is not None
        port = int(first.stdout.readline())
        async with sending(clean_dsn) as (tl, webhooks):
            failed = webhooks.sent.wait(lambda sent: sent.error is not None)
            url = f"http://127.0.0.1:{port}/"
            await tl.broker.webhook_add("g", url, retry=[timedelta(seconds=0.5)] * 9)
            await tl.broker.publish("t", 1)
            assert await asyncio.to_thread(first.stdout.readline) == "begun\n"
            first.kill()
            first.wait()
            assert (await failed).attempt == 1
            with start(port) as second:
                assert second.stdout is not None
                assert await asyncio.to_thread(second.stdout.readline) == f"{port}\n"
                assert await asyncio.to_thread(second.stdout.readline) == "begun\n"
                second.kill()


async def test_of_an_answer_of_ten_megabytes_only_the_beginning_is_read(
    clean_dsn: str, receiver: Receiver
) -> None:
    written = 0
    cut = threading.Event()

    def endless(handler: BaseHTTPRequestHandler) -> None:
        nonlocal written
        handler.send_response(200)
        handler.send_header("content-length", str(10 << 20))
        handler.end_headers()
        try:
            for _ in range(160):
                handler.wfile.write(b"x" * 65536)
                written += 65536
        except OSError:
            cut.set()
            raise

    receiver.answers.append(endless)
    async with sending(clean_dsn) as (tl, _):
        webhook = await tl.broker.webhook_add("g", receiver.url)
        await tl.broker.publish("t", 1)
        await eventually(cut.is_set)
        await eventually(lambda: _logged(tl, webhook, 1))
        (entry,) = await tl.broker.webhook_log(webhook)
    assert written < 8 << 20
    assert (entry.status, entry.answer) == (200, "x" * 1000)
    assert len(receiver.requests) == 1


async def test_410_pauses_the_webhook_and_keeps_the_event_for_when_it_is_resumed(
    clean_dsn: str, session: Session, receiver: Receiver
) -> None:
    receiver.answers.append(answer(410, b"not here any more"))
    async with sending(clean_dsn) as (tl, _):
        webhook = await tl.broker.webhook_add("g", receiver.url, retry=[])
        await tl.broker.publish("t", 1, key="k")
        await eventually(lambda: _paused(tl, webhook))
        await tl.broker.publish("t", 2, key="k")
        (listed,) = await tl.broker.webhook_list("g")
        assert listed.paused_because == "HTTP 410: not here any more"
        assert len(receiver.requests) == 1
        assert await tl.broker.webhook_resume(webhook)
        await eventually(lambda: len(receiver.requests) == 3)
    assert receiver.payloads == [1, 1, 2]
    assert dead(session) == []


async def test_a_webhook_that_is_resumed_before_the_sender_saw_the_pause_goes_on(
    clean_dsn: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver.answers.append(answer(410))
    async with sending(clean_dsn) as (tl, webhooks):
        webhook = await tl.broker.webhook_add("g", receiver.url, retry=[])
        await eventually(lambda: bool(webhooks._running))
        look, may_look = webhooks.run_once, asyncio.Event()

        async def look_late() -> int:
            await may_look.wait()
            return int(await look())

        monkeypatch.setattr(webhooks, "run_once", look_late)
        await tl.broker.publish("t", 1)
        await eventually(lambda: _paused(tl, webhook))
        assert await tl.broker.webhook_resume(webhook)
        may_look.set()
        await eventually(lambda: receiver.payloads == [1, 1])


async def test_a_webhook_that_is_resumed_while_a_request_is_under_way_waits_for_it(
    clean_dsn: str, receiver: Receiver
) -> None:
    told = threading.Event()
    receiver.answers.append(waits_for(told))
    async with sending(clean_dsn) as (tl, webhooks):
        webhook = await tl.broker.webhook_add("g", receiver.url)
        await tl.broker.publish("t", 1, key="k")
        await eventually(lambda: len(receiver.requests) == 1)
        await tl.broker.webhook_pause(webhook)
        await eventually(lambda: not webhooks._running)
        await tl.broker.webhook_resume(webhook)
        await tl.broker.publish("t", 2, key="k")
        await webhooks.run_once()
        assert not webhooks._running
        told.set()
        await eventually(lambda: len(receiver.requests) == 2)
    assert receiver.payloads == [1, 2]


@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_is_obeyed_by_everything_for_that_endpoint(
    clean_dsn: str, receiver: Receiver, status: int
) -> None:
    receiver.answers.append(answer(status, retry_after="1"))
    times: list[float] = []

    def note(handler: BaseHTTPRequestHandler) -> None:
        times.append(time.monotonic())
        answer(200)(handler)

    receiver.always = note
    async with sending(clean_dsn) as (tl, webhooks):
        refused = webhooks.sent.wait(lambda sent: sent.status == status)
        await tl.broker.webhook_add("g", receiver.url, retry=SOON)
        await tl.broker.publish("t", 1, key="a")
        await refused
        began = time.monotonic()
        await tl.broker.publish("t", 2, key="b")
        await eventually(lambda: len(times) == 2)
    assert min(times) - began > 0.8


def test_retry_after_may_be_a_date_and_rubbish_is_ignored() -> None:
    from trunkline.broker.webhook_sender import _seconds

    now = datetime.now(UTC)
    assert _seconds("120", now) == 120
    in_a_minute = _seconds(format_datetime(now + timedelta(minutes=1), usegmt=True), now)
    assert in_a_minute is not None
    assert 58 < in_a_minute <= 60
    assert _seconds(format_datetime(now - timedelta(hours=1), usegmt=True), now) == 0
    assert _seconds("9" * 400, now) == 86_400
    assert _seconds("Mon, 01 Jan 2024 00:00:00 +99999999999999999999", now) is None
    assert [_seconds(text, now) for text in ("", "soon", "-5", "1e9", "١٢")] == [None] * 5


async def test_an_endpoint_that_is_down_is_left_alone_after_some_failures(
    clean_dsn: str, session: Session, receiver: Receiver
) -> None:
    """What waits meanwhile was not tried: it does not become a dead letter."""
    ask(session, "select trunkline.config_set('broker.webhook_failures', '3')")
    receiver.always = answer(500)
    async with sending(clean_dsn) as (tl, webhooks):
        await tl.broker.webhook_add("g", receiver.url, retry=[timedelta(hours=1)], concurrency=1)
        for number in range(10):
            await tl.broker.publish("t", number, key=f"k{number}")
        await eventually(lambda: webhooks._running[1].worker.circuit.is_open)
        assert len(receiver.requests) == 3
        receiver.always = None
        await eventually(lambda: len(receiver.requests) == 10)
    assert len(set(receiver.ids)) == 10
    assert dead(session) == []


async def test_one_endpoint_that_hangs_holds_back_nobody(
    clean_dsn: str, open_receiver: Callable[..., Receiver]
) -> None:
    told = threading.Event()
    hanging, other = open_receiver(), open_receiver()
    hanging.always = waits_for(told)
    async with sending(clean_dsn) as (tl, _):
        await tl.broker.webhook_add("g", hanging.url)
        await tl.broker.webhook_add("g", other.url)
        for number in range(50):
            await tl.broker.publish("t", number)
        await eventually(lambda: len(other.requests) == 50)
        assert len(hanging.requests) <= 4
        told.set()


async def test_a_sender_that_stops_gives_back_what_hangs_and_another_sends_it(
    clean_dsn: str, session: Session, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trunkline.broker.webhooks._STOP_WITHIN", 0.2)
    told = threading.Event()
    receiver.answers.append(waits_for(told))
    async with sending(clean_dsn) as (tl, _):
        await tl.broker.webhook_add("g", receiver.url)
        await tl.broker.publish("t", 1)
        await eventually(lambda: len(receiver.requests) == 1)
        began = time.monotonic()
    assert time.monotonic() - began < 5
    assert ask(session, "select count(*) from trunkline.broker_retry") == 0  # it was no failure
    async with sending(clean_dsn):
        await eventually(lambda: len(receiver.requests) == 2)
    told.set()
    assert receiver.ids[0] == receiver.ids[1]


async def test_no_more_requests_at_once_than_the_endpoint_wants(
    clean_dsn: str, receiver: Receiver
) -> None:
    together, most = 0, 0
    lock = threading.Lock()

    def count(handler: BaseHTTPRequestHandler) -> None:
        nonlocal together, most
        with lock:
            together += 1
            most = max(most, together)
        time.sleep(0.02)
        with lock:
            together -= 1
        answer(200)(handler)

    receiver.always = count
    async with sending(clean_dsn) as (tl, _):
        await tl.broker.webhook_add("g", receiver.url, concurrency=2)
        for number in range(20):
            await tl.broker.publish("t", number, key=f"k{number}")
        await eventually(lambda: len(receiver.requests) == 20)
    assert most == 2


async def test_a_batch_whose_body_would_be_too_large_is_split_in_order(
    clean_dsn: str, session: Session, receiver: Receiver
) -> None:
    ask(session, "select trunkline.config_set('broker.webhook_body_bytes', '10000')")
    payloads = [f"{n}" * 3000 for n in range(8)] + ["x" * 20_000, "end"]
    async with sending(clean_dsn) as (tl, _):
        await tl.broker.webhook_add("g", receiver.url, batch=100)
        async with tl.transaction() as connection:
            for payload in payloads:
                await tl.broker.publish("t", payload, key="k", on=connection)
        await eventually(lambda: len(receiver.payloads) == len(payloads))
    assert receiver.payloads == payloads
    for request in receiver.requests:
        assert len(request.body) <= 10_100 or len(request.items) == 1
    assert len(set(receiver.ids)) == len(receiver.requests) < len(payloads)


async def test_during_a_rotation_both_secrets_verify_and_later_only_the_new_one(
    clean_dsn: str, receiver: Receiver
) -> None:
    async with sending(clean_dsn) as (tl, webhooks):
        webhook = await tl.broker.webhook_add("g", receiver.url, secret=SECRET)
        await tl.broker.webhook_rotate(webhook, OTHER_SECRET)
        await tl.broker.publish("t", 1)
        await eventually(lambda: len(receiver.requests) == 1)
        both = receiver.requests[0]
        for secret in (SECRET, OTHER_SECRET):
            Verifier(secret).verify(both.body, both.headers)
        (listed,) = await tl.broker.webhook_list()
        assert listed.signatures == 2
        await tl.broker.webhook_rotate(webhook, ROTATED, overlap=timedelta(0))
        await eventually(lambda: len(_secrets(webhooks)) == 3)
        await tl.broker.publish("t", 2)
        await eventually(lambda: len(receiver.requests) == 2)
    after = receiver.requests[1]
    Verifier(ROTATED).verify(after.body, after.headers)
    with pytest.raises(WebhookVerificationError):
        Verifier(OTHER_SECRET).verify(after.body, after.headers)


async def test_a_webhook_that_is_removed_gets_nothing_more_and_leaves_nothing(
    clean_dsn: str, session: Session, receiver: Receiver
) -> None:
    receiver.answers.append(answer(422))
    async with sending(clean_dsn) as (tl, _):
        webhook = await tl.broker.webhook_add("g", receiver.url, secret=SECRET)
        await tl.broker.publish("t", 1)
        await eventually(lambda: dead(session) != [])
        with pytest.raises(Conflict, match="is a webhook"):
            await tl.broker.handler_delete("g", f"webhook:{webhook}")
        assert await tl.broker.webhook_remove(webhook)
        assert not await tl.broker.webhook_remove(webhook)
        await tl.broker.publish("t", 2)
        await tl.broker.webhook_add("g", receiver.url, {"topic": "u"})
        await tl.broker.publish("u", 3)
        await eventually(lambda: len(receiver.requests) == 2)
        for table in ("broker_webhook_secret", "broker_retry"):
            assert ask(session, f"select count(*) from trunkline.{table}") == 0
        assert column(session, "select handler from trunkline.broker_handler") == [
            f"webhook:{webhook + 1}"
        ]
        with pytest.raises(NotFound, match="there is no webhook"):
            await tl.broker.webhook_pause(webhook)
    assert receiver.payloads == [1, 3]


async def test_secrets_are_in_no_list_no_log_and_no_error(
    clean_dsn: str, session: Session, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    token = "Bearer very-secret-token"

    def echo(handler: BaseHTTPRequestHandler) -> None:
        answer(500, f"you said {handler.headers['authorization']} {SECRET}".encode())(handler)

    receiver.always = echo
    async with sending(clean_dsn) as (tl, webhooks):
        webhook = await tl.broker.webhook_add(
            "g", receiver.url, secret=SECRET, headers={"Authorization": token}, retry=[]
        )
        await tl.broker.publish("t", 1)
        await eventually(lambda: dead(session) != [])
        await eventually(lambda: _logged(tl, webhook, 1))
        (listed,) = await tl.broker.webhook_list()
        seen = [repr(listed), repr(await tl.broker.webhook_log()), repr(dead(session))]
        seen += [repr(webhooks._running[webhook].sender.endpoint), caplog.text]
    assert (listed.signatures, listed.header_names) == (1, ["Authorization"])
    assert "you said ***" in seen[1]
    for text in seen:
        assert "very-secret-token" not in text
        assert SECRET.removeprefix("whsec_") not in text


@pytest.mark.parametrize("secret", ["short", "not base64!" * 4, "whsec_" + "A" * 200, ""])
async def test_a_secret_that_cannot_be_one_is_refused_and_not_repeated(
    session: Session, secret: str
) -> None:
    with pytest.raises(psycopg.Error, match="a secret is base64") as raised:
        session.execute(
            "select trunkline.broker_webhook_add('g', 'https://a.test/', secret => %s)", [secret]
        )
    assert not secret or secret not in str(raised.value)
    assert ask(session, "select count(*) from trunkline.broker_webhook_list()") == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"url": "ftp://a.test/"}, "a URL like https"),
        ({"url": "https://user:hunter2@a.test/"}, r"\*\*\*@a.test"),
        ({"url": "https://a.test/\n"}, "a URL like https"),
        ({"headers": {"a b": "c"}}, '"a b" is no name'),
        ({"headers": {"a": "b\r\nc: d"}}, "plain ASCII in one line"),
        ({"headers": {"Content-Length": "1"}}, "are the sender's"),
        ({"retry": [timedelta(seconds=-1)]}, "none of them negative"),
        ({"timeout": timedelta(0)}, "longer than nothing"),
        ({"batch": 0}, "1 to 10000 events"),
        ({"concurrency": 0}, "1 to 64 requests"),
        ({"format": "xml"}, '"standard" or "cloudevents"'),
    ],
    ids=str,
)
async def test_what_makes_no_sense_is_refused_when_it_is_added(
    clean_dsn: str, given: dict[str, Any], said: str
) -> None:
    import trunkline

    async with trunkline.connect(clean_dsn) as tl:
        with pytest.raises(Invalid, match=said) as raised:
            await tl.broker.webhook_add("g", **{"url": "https://a.test/", **given})
        assert "hunter2" not in str(raised.value)
        assert await tl.broker.webhook_list() == []


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A self-signed certificate for a name, and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make a certificate with")
    made, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt"),
            *("ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", f"/CN={name}"),
            *("-addext", f"subjectAltName=DNS:{name}", "-keyout", str(key), "-out", str(made)),
        ],
        check=True,
        capture_output=True,
    )
    return made, key


async def test_tls_checks_the_certificate_against_the_name_and_not_the_address(
    clean_dsn: str, session: Session, open_receiver: Callable[..., Receiver], tmp_path: Path
) -> None:
    right, key = certificate(tmp_path, "hooks.test")
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(right, key)
    secure = open_receiver(tls=serving)
    trusting = ssl.create_default_context(cafile=str(right))

    async def loopback(_host: str, _port: int) -> list[str]:
        return ["127.0.0.1"]

    async with sending(clean_dsn, resolve=loopback, ssl_context=trusting) as (tl, _):
        for name in ("hooks.test", "wrong.test"):
            url = secure.url.replace("127.0.0.1", name)
            await tl.broker.webhook_add(name, url, retry=[])
        await tl.broker.publish("t", 1)
        await eventually(lambda: dead(session) != [])
        await eventually(lambda: len(secure.requests) == 1)
    assert secure.requests[0].headers["host"].startswith("hooks.test:")
    assert re.search("certificate verify failed.*wrong.test", dead(session)[0])


async def test_tls_with_a_certificate_that_nobody_trusts_is_a_failure(
    clean_dsn: str, session: Session, open_receiver: Callable[..., Receiver], tmp_path: Path
) -> None:
    made, key = certificate(tmp_path, "hooks.test")
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(made, key)
    secure = open_receiver(tls=serving)
    async with sending(clean_dsn) as (tl, _):
        await tl.broker.webhook_add("g", secure.url, retry=[])
        await tl.broker.publish("t", 1)
        await eventually(lambda: dead(session) != [])
    assert secure.requests == []
    assert "certificate verify failed" in dead(session)[0]


class Http2(asyncio.Protocol):
    """Speaks HTTP/2 and nothing else; answers with a status to whatever has ended, or not."""

    def __init__(self, bodies: list[bytes], status: str | None = "200"):
        self._bodies = bodies
        self._status = status
        self._parts: dict[int, bytes] = {}
        config = h2.config.H2Configuration(client_side=False)
        self._connection = h2.connection.H2Connection(config)

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._connection.initiate_connection()
        transport.write(self._connection.data_to_send())

    def data_received(self, data: bytes) -> None:
        for event in self._connection.receive_data(data):
            if isinstance(event, h2.events.DataReceived):
                self._parts[event.stream_id] = self._parts.get(event.stream_id, b"") + event.data
            elif isinstance(event, h2.events.StreamEnded):
                self._bodies.append(self._parts.pop(event.stream_id))
                if self._status is not None:
                    self._connection.send_headers(
                        event.stream_id, [(":status", self._status)], end_stream=True
                    )
        self._transport.write(self._connection.data_to_send())


@asynccontextmanager
async def speaking_http2(
    dsn: str, folder: Path, speak: Callable[[], Http2]
) -> AsyncIterator[tuple[Any, Any, str]]:
    """An endpoint that speaks HTTP/2, and a sender that trusts it; its URL."""
    made, key = certificate(folder, "hooks.test")
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(made, key)
    serving.set_alpn_protocols(["h2"])
    loop = asyncio.get_running_loop()
    server = await loop.create_server(speak, "127.0.0.1", 0, ssl=serving)

    async def loopback(_host: str, _port: int) -> list[str]:
        return ["127.0.0.1"]

    trusting = ssl.create_default_context(cafile=str(made))
    port = server.sockets[0].getsockname()[1]
    async with server, sending(dsn, resolve=loopback, ssl_context=trusting) as (tl, webhooks):
        yield tl, webhooks, f"https://hooks.test:{port}/"


async def test_an_endpoint_that_offers_http_2_gets_it(clean_dsn: str, tmp_path: Path) -> None:
    bodies: list[bytes] = []
    async with speaking_http2(clean_dsn, tmp_path, lambda: Http2(bodies)) as (tl, _, url):
        await tl.broker.webhook_add("g", url, retry=[])
        for number in range(5):
            await tl.broker.publish("t", number, key="k")
        await eventually(lambda: len(bodies) == 5)
    assert [json.loads(body)["items"][0]["payload"] for body in bodies] == list(range(5))


async def test_a_connection_of_http_2_that_went_silent_is_not_asked_again(
    clean_dsn: str, tmp_path: Path
) -> None:
    statuses = iter([None, "200"])
    bodies: list[bytes] = []

    def speak() -> Http2:
        return Http2(bodies, next(statuses))

    async with speaking_http2(clean_dsn, tmp_path, speak) as (tl, webhooks, url):
        taken = webhooks.sent.wait(lambda sent: sent.error is None)
        timeout = timedelta(milliseconds=500)
        await tl.broker.webhook_add("g", url, retry=SOON, timeout=timeout)
        await tl.broker.publish("t", 1)
        assert (await taken).attempt == 2


async def test_a_status_that_is_none_is_a_failure_and_keeps_no_other_from_the_log(
    clean_dsn: str, tmp_path: Path, receiver: Receiver
) -> None:
    bodies: list[bytes] = []
    rubbish = speaking_http2(clean_dsn, tmp_path, lambda: Http2(bodies, "9" * 20))
    async with rubbish as (tl, webhooks, url):
        failed = webhooks.sent.wait(lambda sent: sent.error is not None)
        odd = await tl.broker.webhook_add("odd", url, retry=[])
        plain = await tl.broker.webhook_add("plain", receiver.url)
        await tl.broker.publish("t", 1)
        assert "status" in (await failed).error
        await eventually(lambda: _logged(tl, odd, 1))
        await eventually(lambda: _logged(tl, plain, 1))


async def test_an_entry_that_cannot_be_logged_keeps_no_other_from_the_log(
    clean_dsn: str, receiver: Receiver
) -> None:
    async with sending(clean_dsn) as (tl, webhooks):
        webhook = await tl.broker.webhook_add("g", receiver.url)
        sent = webhooks.sent.wait()
        await tl.broker.publish("t", 1)
        webhooks._note(replace(await sent, status=1 << 40))
        await eventually(lambda: _logged(tl, webhook, 1))
        await eventually(lambda: not webhooks._entries)


async def test_a_secret_of_which_only_the_beginning_is_in_the_excerpt_is_struck_out(
    clean_dsn: str, receiver: Receiver
) -> None:
    receiver.answers.append(answer(200, b"x" * 980 + b"Bearer 0123456789abcdef0123456789"))
    async with sending(clean_dsn) as (tl, _):
        bearer = {"authorization": "Bearer 0123456789abcdef0123456789"}
        webhook = await tl.broker.webhook_add("g", receiver.url, headers=bearer)
        await tl.broker.publish("t", 1)
        await eventually(lambda: _logged(tl, webhook, 1))
        (entry,) = await tl.broker.webhook_log(webhook)
    assert entry.answer == "x" * 980 + "***"


SENDER = """
import asyncio, sys, trunkline
from trunkline.core.service import Supervisor

async def main():
    async with trunkline.connect(sys.argv[1]) as tl:
        await Supervisor(tl.broker.services()).run()

asyncio.run(main())
"""


def start_sender(dsn: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", SENDER, dsn])


@pytest.mark.crash
async def test_a_sender_killed_in_the_middle_of_a_request_loses_nothing_and_keeps_the_key(
    clean_dsn: str, session: Session, receiver: Receiver
) -> None:
    ask(session, "select trunkline.config_set('lease.ttl', '1 second')")
    told = threading.Event()
    receiver.answers.append(waits_for(told))
    ask(
        session,
        "select trunkline.broker_webhook_add('g', %s, secret => %s)",
        [receiver.url, SECRET],
    )
    with start_sender(clean_dsn) as sender:
        for number in range(3):
            ask(
                session,
                "select trunkline.broker_publish('t', %s::jsonb, key => 'k')",
                [json.dumps(number)],
            )
        await eventually(lambda: len(receiver.requests) == 1)
        sender.kill()
    async with sending(clean_dsn):
        await eventually(lambda: len(receiver.requests) == 4)
    told.set()
    assert receiver.payloads == [0, 0, 1, 2]
    assert receiver.ids[0] == receiver.ids[1]
    assert len(set(receiver.ids)) == 3
    assert receiver.requests[0].body == receiver.requests[1].body


@pytest.mark.crash
async def test_a_batch_under_way_when_the_sender_is_killed_comes_again_with_the_same_items_and_key(
    clean_dsn: str, session: Session, receiver: Receiver
) -> None:
    ask(session, "select trunkline.config_set('lease.ttl', '1 second')")
    told = threading.Event()
    receiver.answers.append(waits_for(told))
    ask(session, "select trunkline.broker_webhook_add('g', %s, batch => 10)", [receiver.url])
    with start_sender(clean_dsn) as sender:
        publish(session, range(3))
        await eventually(lambda: len(receiver.requests) == 1)
        sender.kill()
    publish(session, range(3, 5))
    async with sending(clean_dsn):
        await eventually(lambda: len(receiver.payloads) == 8)
    told.set()
    assert receiver.requests[0].payloads == receiver.requests[1].payloads == [0, 1, 2]
    assert receiver.ids[0] == receiver.ids[1]
    assert receiver.payloads[6:] == [3, 4]


@pytest.mark.crash
@pytest.mark.parametrize("fails", [False, True])
async def test_however_often_senders_are_killed_an_item_comes_in_one_batch_only(
    clean_dsn: str, session: Session, receiver: Receiver, fails: bool
) -> None:
    """Without keys where requests fail: what is refused after a crash holds back its key."""
    if fails:
        turns = itertools.cycle([answer(200), answer(200), answer(500)])
        receiver.always = lambda handler: next(turns)(handler)
    ask(session, "select trunkline.config_set('lease.ttl', '1 second')")
    add = "select trunkline.broker_webhook_add('g', %s, batch => 4, retry => %s)"
    ask(session, add, [receiver.url, [timedelta(milliseconds=50)] * 20])
    for _ in range(2):
        with start_sender(clean_dsn) as sender:
            seen = len(receiver.requests)
            for number in range(40):
                publish(session, range(number % 7 + 1), None if fails else f"k{number % 5}")
            await eventually(lambda: len(receiver.requests) >= seen + 5)  # noqa: B023 - this round
            sender.kill()
    published = set(column(session, "select seq::text from trunkline.event"))
    async with sending(clean_dsn):
        await eventually(lambda: {item for item, _ in came(receiver)} == published, 30)
    assert len(set(came(receiver))) == len(published)
    assert max(len(request.items) for request in receiver.requests) > 1


def publish(session: Session, payloads: range, key: str | None = "k") -> None:
    """Publish in one transaction, so that they are seen together."""
    query = "select trunkline.broker_publish('t', to_jsonb(n), key => %s) from unnest(%s::int[]) n"
    session.execute(query, [key, list(payloads)])


def came(receiver: Receiver) -> list[tuple[str, str]]:
    """The items that came, each with the key that it came under."""
    return [
        (item["id"], key)
        for request, key in zip(receiver.requests, receiver.ids, strict=False)
        for item in request.items
    ]


async def _logged(tl: Any, webhook: int, entries: int) -> bool:
    return len(await tl.broker.webhook_log(webhook)) == entries


async def _paused(tl: Any, webhook: int) -> bool:
    listed = {each.webhook: each for each in await tl.broker.webhook_list()}
    return listed[webhook].paused_at is not None


def _secrets(webhooks: Any) -> Any:
    return webhooks._running[1].sender.endpoint.secrets
