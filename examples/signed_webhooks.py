"""A webhook and its receiver: every event is posted, signed, and taken once.

The receiver verifies what comes. It takes the first order and then its answer gets lost; the order
comes again under the same id, and is known. Somebody without the secret is refused.
"""

import asyncio
import json
from base64 import b64encode
from contextlib import contextmanager, suppress
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_bytes
from threading import Thread
from typing import ClassVar
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from standardwebhooks import Webhook, WebhookVerificationError

import trunkline
from trunkline.core.service import Supervisor
from trunkline.testing import eventually

GROUP, TOPIC = "example.shipping", "example.shipped"
SECRET = f"whsec_{b64encode(token_bytes(32)).decode()}"


class Receiver(BaseHTTPRequestHandler):
    requests = 0
    taken: ClassVar[dict[str, list[dict]]] = {}  # by the id of the request; in earnest: a table

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            message = Webhook(SECRET).verify(body, dict(self.headers))
        except WebhookVerificationError:
            self.answer(401)
            return
        Receiver.requests += 1
        self.taken.setdefault(self.headers["webhook-id"], message["items"])
        self.answer(500 if Receiver.requests == 1 else 200)

    def answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_) -> None: ...


@contextmanager
def receiving():
    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        Thread(target=server.serve_forever, args=[0.05], daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/orders"
        server.shutdown()


def forge(url: str) -> int:
    """Post without the secret; what is answered."""
    headers = {"webhook-id": "1", "webhook-timestamp": "1", "webhook-signature": "v1,forged"}
    body = json.dumps({"items": [{"payload": "ship me a yacht"}]}).encode()
    try:
        return urlopen(Request(url, body, headers)).status
    except HTTPError as error:
        return error.code


async def setting(tl: trunkline.Platform, value: str) -> str:
    """Say whether webhooks may go to private addresses, as this receiver's is; what it was."""
    async with tl.transaction() as connection:
        query = "select trunkline.config_get(%s), trunkline.config_set(%s, %s)"
        name = "broker.webhook_private"
        cursor = await connection.execute(query, [name, name, value])
        return (await cursor.fetchall())[0][0]


async def main() -> None:
    async with trunkline.connect() as tl:
        with suppress(trunkline.NotFound):
            await tl.broker.group_delete(GROUP)
        before = await setting(tl, "true")
        supervisor = Supervisor(tl.services())  # as `trunkline up` does
        running = asyncio.create_task(supervisor.run())
        with receiving() as url:
            webhook = await tl.broker.webhook_add(
                GROUP, url, {"topic": TOPIC}, secret=SECRET, retry=[timedelta(milliseconds=100)]
            )
            for number in (1, 2, 3):
                await tl.broker.publish(TOPIC, {"order": number}, key="in this order")

            async def logged() -> list:
                entries = list(reversed(await tl.broker.webhook_log(webhook)))
                assert [entry.status for entry in entries].count(200) == 3
                return entries

            for entry in await eventually(logged, timeout=30):
                print(f"try {entry.attempt} was answered with {entry.status}")
            print(
                "taken:", [item["payload"] for items in Receiver.taken.values() for item in items]
            )
            print("forged:", await asyncio.to_thread(forge, url))
        await tl.broker.webhook_remove(webhook)
        await tl.broker.group_delete(GROUP)
        await supervisor.stop()
        await running
        await setting(tl, before)


asyncio.run(main())
