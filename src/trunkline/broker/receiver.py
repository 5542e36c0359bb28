"""`Receiver`: takes webhooks, verifies them, hands them over. To try things out, not for more."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

from trunkline.core.errors import BadRequest, Invalid
from trunkline.core.extras import needed_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from standardwebhooks import Webhook

_LONGEST_BODY = 64 << 20  # bytes


class Refused(Exception):
    """A request that is not taken, with the status to say so."""

    def __init__(self, status: int, reason: str):
        super().__init__(reason)
        self.status = status


class Receiver(ThreadingHTTPServer):
    """A thread per connection; whoever hangs up early gets a line and no more.

    ``take`` gets the idempotency key of a request and its events, before they are answered for:
    what it took is done, what it raises `Refused` for comes again. It says whether to go on.
    """

    daemon_threads = True

    def __init__(
        self,
        host: str,
        port: int,
        *,
        secret: str | None,
        take: Callable[[str | None, list[Any]], bool],
        say: Callable[[str], None],
    ):
        self.verifier = None if secret is None else _verifier(secret)
        self.take = take
        self.say = say
        try:
            super().__init__((host, port), _Request)
        except OSError as error:
            raise BadRequest(f"cannot listen on {host}:{port}: {error.strerror}.") from error

    def handle_error(self, *_: Any) -> None:
        self.say(f"a request broke off: {sys.exception()}")


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Receiver

    def do_POST(self) -> None:
        try:
            items = _items(self, self.server.verifier)
            goes_on = self.server.take(self.headers.get("idempotency-key"), items)
        except Refused as refusal:
            self.server.say(f"refused: {refusal}")
            self._answer(refusal.status, str(refusal))
            return
        self._answer(200, "")
        if not goes_on:
            Thread(target=self.server.shutdown, daemon=True).start()

    def log_message(self, *_: Any) -> None:
        """Nothing: whoever takes it may say what came."""

    def _answer(self, status: int, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        if status != 200:
            self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(body)


def _verifier(secret: str) -> Webhook:
    with needed_for("verifying webhooks", "webhooks"):
        from standardwebhooks import Webhook
    try:
        return Webhook(secret)
    except Exception as error:
        raise Invalid("a secret is base64, with or without whsec_ before it.") from error


def _items(request: BaseHTTPRequestHandler, verifier: Webhook | None) -> list[Any]:
    body = _body(request)
    if verifier is not None:
        from standardwebhooks import WebhookVerificationError

        headers = {name.lower(): value for name, value in request.headers.items()}
        try:
            verifier.verify(body, headers, json_parse=False)
        except WebhookVerificationError as error:
            raise Refused(401, f"the signature does not verify: {error}") from error
        except ValueError as error:
            raise Refused(400, f"the signature cannot be read: {error}") from error
    try:
        found = json.loads(body)
    except ValueError as error:
        raise Refused(400, f"the body is not JSON: {error}") from error
    items = found.get("items") if isinstance(found, dict) else found
    if not isinstance(items, list):
        raise Refused(400, 'the body has no "items" and is no batch of CloudEvents')
    return items


def _body(request: BaseHTTPRequestHandler) -> bytes:
    length = request.headers.get("content-length", "")
    if not length.isdigit() or int(length) > _LONGEST_BODY:
        raise Refused(413, f"the body has a length of at most {_LONGEST_BODY} bytes")
    body = request.rfile.read(int(length))
    if request.headers.get("content-encoding", "identity") != "gzip":
        return body
    try:
        return gzip.decompress(body)
    except (OSError, EOFError, zlib.error) as error:
        raise Refused(400, f"the body is not gzip: {error}") from error
