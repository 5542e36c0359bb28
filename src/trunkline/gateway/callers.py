"""`Caller`: one who asks, and what is done for him; `Me` is what routes take."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

from fastapi import Depends, Request

from trunkline.broker.stream import Heartbeat, Reset
from trunkline.core.db import SparingDb
from trunkline.gateway import sse
from trunkline.gateway.acting import ActingDb
from trunkline.gateway.auth import Identity, token_of
from trunkline.gateway.problems import problem
from trunkline.log.producer import Producer
from trunkline.log.topics import Topics

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from trunkline.core.calls import Call
    from trunkline.core.listen import Listener
    from trunkline.gateway.feeds import Feed
    from trunkline.gateway.gateway import Gateway

T = TypeVar("T")

_RETRY = 2_000  # milliseconds after which a browser comes again
_MOST_PRODUCERS = 100


class Callers:
    """All who ask, and what they share."""

    def __init__(self, gateway: Gateway):
        self.gateway = gateway
        platform, settings = gateway.platform, gateway.settings
        self._within = settings.gateway_request_seconds
        # However many streams look for news at once, half of the connections are for the rest.
        self._crowd = SparingDb(platform.db, max(1, settings.pool_max // 2))
        self._producers: dict[str | None, Producer] = {}
        self._topics: dict[str | None, Topics] = {}

    async def identified(self, request: Request) -> Caller:
        """Who asks; raises `Unauthenticated`."""
        identity = await self.gateway.admit(token_of(request))
        return Caller(self, identity, self.acting(identity))

    def acting(self, identity: Identity, *, in_a_crowd: bool = False) -> ActingDb:
        """The database as somebody may use it."""
        db = self._crowd if in_a_crowd else self.gateway.platform.db
        return ActingDb(db, identity, within=self._within)

    def producer(self, identity: Identity) -> Producer:
        """What appends for a role: what its callers append at once shares a commit."""
        found = self._producers.get(identity.role)
        if found is None:
            if len(self._producers) >= _MOST_PRODUCERS:
                self._producers.clear()  # what they have under way ends well
                self._topics.clear()
            db = self.acting(Identity(identity.role))
            topics = self._topics[identity.role] = Topics(db)
            found = Producer(db, topics, self.gateway.platform.notifier)
            self._producers[identity.role] = found
        return found

    def forget(self, topic: str) -> None:
        """Let all producers ask again for a topic that a request changed."""
        for topics in self._topics.values():
            topics.forget(topic)


class Caller:
    """One who asks."""

    def __init__(self, callers: Callers, identity: Identity, db: ActingDb):
        self.identity = identity
        self.db = db
        self._callers = callers

    @property
    def producer(self) -> Producer:
        """What appends for him."""
        return self._callers.producer(self.identity)

    async def change(self, topic: str, call: Call[T]) -> T:
        """Run a call that changes a topic; what is appended next sees the change."""
        answer = await self.run(call)
        self._callers.forget(topic)
        return answer

    @property
    def crowd(self) -> ActingDb:
        """The database, for streams."""
        return self._callers.acting(self.identity, in_a_crowd=True)

    @property
    def listener(self) -> Listener:
        """What wakes streams."""
        return self._callers.gateway.platform.listener

    @property
    def stopping(self) -> bool:
        """Whether nobody should wait for anything any more."""
        return self._callers.gateway.stopping.is_set()

    def notify(self, *keys: str) -> None:
        """Wake those who wait for these."""
        for key in keys:
            self._callers.gateway.platform.notifier.notify(key)

    async def run(self, call: Call[T]) -> T:
        """Run one call as him."""
        return await self.db.run(call)

    async def follow(self, stream: Any, tell: Callable[[Any], str]) -> sse.EventStream:
        """A stream as the answer to him; ``tell`` makes an item a frame."""
        feeds, stack = self._callers.gateway.feeds, AsyncExitStack()
        feed = await stack.enter_async_context(feeds.open(stream, self.identity))
        return await sse.EventStream.begin(_frames(stack, feed, tell))


async def _frames(
    stack: AsyncExitStack, feed: Feed, tell: Callable[[Any], str]
) -> AsyncGenerator[str, None]:
    async with stack:
        yield f"retry: {_RETRY}\nid: {feed.token}\n\n"
        try:
            async for item in feed.items():
                if isinstance(item, Heartbeat):
                    yield f"id: {item.token}\n{sse.COMMENT}"
                elif isinstance(item, Reset):
                    yield sse.frame({"reason": item.reason}, token=item.token, event="reset")
                else:
                    yield tell(item)
        except Exception as error:  # noqa: BLE001 - told to whoever reads
            yield sse.frame(problem(error), event="error")


async def identified(request: Request) -> Caller:
    """Who asks, for routes."""
    return await cast("Callers", request.app.state.callers).identified(request)


Me = Annotated[Caller, Depends(identified)]
