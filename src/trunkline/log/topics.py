"""Settings of topics as clients need them, remembered for a few seconds."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trunkline.core.calls import Call, scalar
from trunkline.core.errors import Invalid
from trunkline.log import calls

if TYPE_CHECKING:
    from trunkline.core.db import AsyncDb
    from trunkline.log.models import Topic

REMEMBER_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Known:
    """What was true of a topic when it was asked for."""

    topic: Topic
    message_bytes: int
    until: float


class Topics:
    """Asks once for many, who then go on together: what they append shares a batch.

    A topic that gained partitions is noticed within `REMEMBER_SECONDS`.
    """

    def __init__(self, db: AsyncDb):
        self._db = db
        self._known: dict[str, Known] = {}
        self._asking: dict[str, asyncio.Task[Known]] = {}

    async def get(self, topic: str) -> Known:
        """The settings of a topic; `NotFound` when there is none."""
        if not isinstance(topic, str):
            raise Invalid(f"a topic is text, got {type(topic).__name__}.")
        if known := self._remembered(topic):
            return known
        asking = self._asking.get(topic)
        if asking is None:
            asking = self._asking[topic] = asyncio.create_task(self._ask(topic))
        return await asyncio.shield(asking)

    async def _ask(self, topic: str) -> Known:
        try:
            known = self._known[topic] = Known(
                await self._db.run(calls.settings(topic)),
                await self._db.run(_message_bytes()),
                time.monotonic() + REMEMBER_SECONDS,
            )
        finally:
            del self._asking[topic]
        return known

    def _remembered(self, topic: str) -> Known | None:
        known = self._known.get(topic)
        return None if known is None or known.until < time.monotonic() else known

    def forget(self, topic: str) -> None:
        """Ask anew next time."""
        self._known.pop(topic, None)


def _message_bytes() -> Call[int]:
    return Call(
        "config_get",
        {"name": "log.message_bytes"},
        lambda rows: int(scalar(rows)),
        safe_to_repeat=True,
    )
