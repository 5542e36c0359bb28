"""The shipper of the demonstration: another company, which is told of every order by a webhook.

What it is told is signed, and it verifies that. Now and then its answer gets lost after it has
taken the orders: they come again, and it knows them by the key of the request.
"""

from __future__ import annotations

import asyncio
import secrets
from base64 import b64encode
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from trunkline.broker import webhook_calls
from trunkline.broker.receiver import Receiver, Refused
from trunkline.core.errors import NotFound, Unavailable
from trunkline.core.extras import insist_on
from trunkline.demo.figures import Proof

if TYPE_CHECKING:
    from trunkline.demo.figures import Figures
    from trunkline.platform import Platform

_HOST = "127.0.0.1"
_BATCH = 100  # orders in a request at most
_RETRY = [timedelta(seconds=wait) for wait in (0.2, 1, 5)]
_LOST_EVERY = 5  # requests: of so many the first is taken and its answer lost
_POLL_EVERY = 0.05  # seconds after which the receiver sees that it is to end


class Shipping:
    """Takes the orders that the outbox publishes, over HTTP."""

    def __init__(self, platform: Platform, topic: str, figures: Figures):
        self._platform = platform
        self._topic = topic
        self._group = f"{topic}.shipping"
        self._figures = figures
        self._taken: Counter[int] = Counter()
        self._known: set[str | None] = set()
        self._one_at_a_time = Lock()
        self._receiver: Receiver | None = None
        self._webhook: int | None = None

    async def start(self) -> None:
        """Listen, and have every order posted from now on; `Unavailable` where that is not allowed.

        The address is a private one, which a database has to allow. Nobody else's rules are changed
        for a demonstration.
        """
        insist_on("webhooks", "the webhook")
        if not (await self._platform.db.run(webhook_calls.rules())).private:
            raise Unavailable(
                "This database posts to no private address: broker.webhook_private is off."
            )
        secret = f"whsec_{b64encode(secrets.token_bytes(32)).decode()}"
        self._receiver = Receiver(_HOST, 0, secret=secret, take=self._take, say=_unheard)
        Thread(target=self._receiver.serve_forever, args=[_POLL_EVERY], daemon=True).start()
        self._webhook = await self._platform.broker.webhook_add(
            self._group,
            f"http://{_HOST}:{self._receiver.server_port}/orders",
            {"topic": self._topic},
            secret=secret,
            retry=_RETRY,
            batch=_BATCH,
        )

    def done(self) -> bool:
        """Whether every order was taken."""
        return self._figures.shipped >= self._figures.placed

    def prove(self) -> list[Proof]:
        """What was taken, against what was placed."""
        once = sum(times == 1 for times in self._taken.values())
        return [Proof("orders posted, signed and taken once", self._figures.placed, once)]

    async def close(self) -> None:
        """Take nothing any more; webhook and group go."""
        if self._webhook is not None:
            await self._platform.broker.webhook_remove(self._webhook)
            with suppress(NotFound):
                await self._platform.broker.group_delete(self._group)
        if self._receiver is not None:
            await asyncio.to_thread(self._receiver.shutdown)
            self._receiver.server_close()

    def _take(self, key: str | None, items: list[Any]) -> bool:
        with self._one_at_a_time:
            if key in self._known:
                return True
            self._known.add(key)
            self._taken.update(item["payload"]["number"] for item in items)
            self._figures.shipped = len(self._taken)
            if len(self._known) % _LOST_EVERY == 1:
                self._figures.unanswered += 1
                raise Refused(500, "the orders are taken, and the answer is lost")
        return True


def _unheard(_text: str) -> None:
    """Nobody is told of answers that get lost: the figures count them."""
