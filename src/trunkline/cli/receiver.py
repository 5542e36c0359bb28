"""A small receiver of webhooks: verifies, prints, answers. For trying things out, not for more."""

import gzip
import json
import sys
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from trunkline.cli.output import say
from trunkline.core.errors import BadRequest, Invalid

if TYPE_CHECKING:
    from standardwebhooks import Webhook

_LONGEST_BODY = 64 << 20  # bytes


class Refused(Exception):
    """A request that is not taken, with the status to say so."""

    def __init__(self, status: int, reason: str):
        super().__init__(reason)
        self.status = status


class Server(ThreadingHTTPServer):
    """A thread per request; whoever hangs up early gets a line and no more."""

    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        say(f"a request broke off: {sys.exception()}")


def serve(host: str, port: int, *, secret: str | None, limit: int | None) -> None:
    """Take requests until so many events came, or control-C."""
    printer = _Printer(limit)
    verifier = None if secret is None else _verifier(secret)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            try:
                items = _items(self, verifier)
            except Refused as refusal:
                say(f"refused: {refusal}")
                self._answer(refusal.status, str(refusal))
                return
            self._answer(200, "")
            try:
                enough = printer.print(items)
            except BrokenPipeError:
                enough = True  # nobody reads any more
            if enough:
                Thread(target=server.shutdown, daemon=True).start()

        def log_message(self, *_: Any) -> None:
            """Nothing: what came is printed."""

        def _answer(self, status: int, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            if status != 200:
                self.send_header("connection", "close")
            self.end_headers()
            self.wfile.write(body)

    try:
        server = Server((host, port), Handler)
    except OSError as error:
        raise BadRequest(f"cannot listen on {host}:{port}: {error.strerror}.") from error
    how = "verified" if secret else "not verified: there is no --secret"
    say(f"Listening on http://{host}:{server.server_port}; requests are {how}. Control-C ends.")
    with server:
        try:
            server.serve_forever(poll_interval=0.1)
        except KeyboardInterrupt:
            say("")


class _Printer:
    """Prints events, one after the other, until there were enough."""

    def __init__(self, limit: int | None):
        self._left = limit
        self._one_at_a_time = Lock()

    def print(self, items: list[Any]) -> bool:
        """Print; whether that was enough."""
        with self._one_at_a_time:
            for item in items[: self._left]:
                sys.stdout.write(json.dumps(item, ensure_ascii=False) + "\n")
            sys.stdout.flush()
            if self._left is not None:
                self._left = max(0, self._left - len(items))
            return self._left == 0


def _verifier(secret: str) -> "Webhook":
    try:
        from standardwebhooks import Webhook
    except ModuleNotFoundError as error:
        raise BadRequest(
            "to verify webhooks the package standardwebhooks is needed.",
            hint="Install it: pip install 'trunkline[webhooks]'",
        ) from error
    try:
        return Webhook(secret)
    except Exception as error:
        raise Invalid("--secret is base64, with or without whsec_ before it.") from error


def _items(request: BaseHTTPRequestHandler, verifier: "Webhook | None") -> list[Any]:
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
