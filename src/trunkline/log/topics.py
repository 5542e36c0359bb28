"""Settings of topics as clients need them, remembered for a few seconds."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from functools import wraps
from inspect import isawaitable, signature
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

from trunkline.core.calls import Call, scalar
from trunkline.core.errors import Invalid
from trunkline.log import calls

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trunkline.core.db import AsyncDb
    from trunkline.log.models import Topic

REMEMBER_SECONDS = 5.0

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Known:
    """What was true of a topic when it was asked for."""

    topic: Topic
    message_bytes: int
    until: float


class Topics:
    """Asks once for many, who then go on together: what they append shares a batch.

    What this client changes is noticed at once, what others change within `REMEMBER_SECONDS`.
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
        this = asyncio.current_task()
        try:
            known = Known(
                await self._db.run(calls.settings(topic)),
                await self._db.run(_message_bytes()),
                time.monotonic() + REMEMBER_SECONDS,
            )
            if self._asking.get(topic) is this:
                self._known[topic] = known
        finally:
            if self._asking.get(topic) is this:
                del self._asking[topic]
        return known

    def _remembered(self, topic: str) -> Known | None:
        known = self._known.get(topic)
        return None if known is None or known.until < time.monotonic() else known

    def forget(self, topic: str) -> None:
        """Ask again next time; an answer that is under way is not remembered."""
        self._asking.pop(topic, None)
        self._known.pop(topic, None)


def noticed(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """A method of a client that changes a topic: afterwards the client asks for it again."""
    describe = signature(method)

    @wraps(method)
    def changing(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        answer: Any = method(self, *args, **kwargs)
        topic = describe.bind(*args, **kwargs).arguments["topic"]
        if isawaitable(answer):
            return cast("T", _and_forget(answer, self._topics, topic))
        self._topics.forget(topic)
        return cast("T", answer)

    return changing


async def _and_forget(answer: Awaitable[T], topics: Topics, topic: str) -> T:
    found = await answer
    topics.forget(topic)
    return found


def _message_bytes() -> Call[int]:
    return Call(
        "config_get",
        {"name": "log.message_bytes"},
        lambda rows: int(scalar(rows)),
        safe_to_repeat=True,
    )
