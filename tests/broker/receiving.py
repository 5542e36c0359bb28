"""Receivers of webhooks for tests: real servers on the loopback interface."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections import deque
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from tests.fixtures.asking import ask

import trunkline
from trunkline.broker.matcher import BrokerMatcher
from trunkline.broker.services import BrokerSequencer
from trunkline.broker.webhooks import BrokerWebhooks
from trunkline.core.service import Supervisor

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable, Iterator

    from tests.fixtures.asking import Session

    Answer = Callable[[BaseHTTPRequestHandler], None]

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@dataclass(frozen=True)
class Received:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> bytes:
        zipped = self.headers.get("content-encoding") == "gzip"
        return gzip.decompress(self.raw) if zipped else self.raw

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def items(self) -> list[dict[str, Any]]:
        return list(self.json["items"])

    @property
    def payloads(self) -> list[Any]:
        return [item["payload"] for item in self.items]


@dataclass
class Receiver:
    """Takes requests; answers what is said, one after the other, then 200."""

    url: str = ""
    requests: list[Received] = field(default_factory=list)
    answers: deque[Answer] = field(default_factory=deque)
    always: Answer | None = None

    @property
    def payloads(self) -> list[Any]:
        return [payload for request in self.requests for payload in request.payloads]

    @property
    def ids(self) -> list[str]:
        return [request.headers["idempotency-key"] for request in self.requests]


def answer(status: int, body: bytes = b"", **headers: str) -> Answer:
    """An answer with a status."""

    def reply(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return reply


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    """Close the connection without a word."""
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


def waits_for(event: threading.Event, then: Answer | None = None) -> Answer:
    """Answer only when told to."""

    def reply(handler: BaseHTTPRequestHandler) -> None:
        event.wait(30)
        (then or answer(200))(handler)

    return reply


@contextmanager
def receiving(*, tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """A receiver in threads of its own."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.requests.append(Received(self.path, headers, raw))
            reply = receiver.answers.popleft() if receiver.answers else receiver.always
            try:
                (reply or answer(200))(self)
            except OSError:  # whoever asked has gone
                self.close_connection = True

        def log_message(self, *_: Any) -> None: ...

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, *_: Any) -> None: ...

    server = Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    scheme = "http" if tls is None else "https"
    receiver.url = f"{scheme}://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@asynccontextmanager
async def sending(dsn: str, **options: Any) -> AsyncIterator[tuple[trunkline.Platform, Any]]:
    """Everything that brings events to webhooks, inside the block."""
    async with trunkline.connect(dsn) as tl:
        webhooks = BrokerWebhooks(tl.db, tl._lease, tl._listener, **options)
        services = [BrokerSequencer(tl.db), BrokerMatcher(tl.db, tl._listener), webhooks]
        supervisor = Supervisor(services)
        import asyncio

        running = asyncio.create_task(supervisor.run(asyncio.Event()))
        try:
            yield tl, webhooks
        finally:
            await supervisor.stop()
            await running


def allow_private(session: Session) -> None:
    ask(session, "select trunkline.config_set('broker.webhook_private', 'true')")
