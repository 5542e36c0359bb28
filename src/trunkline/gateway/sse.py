"""Server-sent events: frames, and an answer that ends as soon as its reader is gone."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, Self

from starlette.responses import Response

from trunkline.core import telemetry
from trunkline.gateway.rendering import written

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.types import Receive, Scope, Send

logger = telemetry.get_logger(__name__)

MEDIA_TYPE = "text/event-stream"
COMMENT = ": still here\n\n"
SEND_WITHIN = 60.0  # seconds; who reads nothing for so long is let go

_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def frame(data: Any = None, *, event: str | None = None, token: str | None = None) -> str:
    """One event; JSON has no line breaks, also where it is another's."""
    head = (f"event: {event}\n" if event else "") + (f"id: {token}\n" if token else "")
    return f"{head}data: {'' if data is None else written(data)}\n\n"


class EventStream(Response):
    """Frames as they come. The next is asked for when the last is on its way."""

    media_type = MEDIA_TYPE

    def __init__(self, frames: AsyncGenerator[str, None], first: str = ""):
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._frames = frames
        self._first = first

    @classmethod
    async def begin(cls, frames: AsyncGenerator[str, None]) -> Self:
        """The answer, with its first frame: what frames have opened is closed whatever happens."""
        return cls(frames, await anext(frames))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(self._send(send))
        leaving = asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.wait({sending, leaving})
            await self._frames.aclose()
        if not sending.cancelled() and (error := sending.exception()) is not None:
            if not isinstance(error, TimeoutError | OSError):
                raise error
            logger.info("reader let go", reason="it does not read")

    async def _send(self, send: Send) -> None:
        async def tell(text: str, *, more: bool = True) -> None:
            async with asyncio.timeout(SEND_WITHIN):
                await send({"type": "http.response.body", "body": text.encode(), "more_body": more})

        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await tell(self._first)
        async with aclosing(self._frames) as frames:
            async for text in frames:
                await tell(text)
        await tell("", more=False)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def with_comments(
    frames: AsyncGenerator[str, None], *, every: float
) -> AsyncGenerator[str, None]:
    """The frames, and a comment after every silence."""
    waiting: asyncio.Task[str] | None = None
    async with aclosing(frames):
        try:
            while True:
                if waiting is None:
                    waiting = asyncio.ensure_future(anext(frames))
                done, _ = await asyncio.wait({waiting}, timeout=every)
                if not done:
                    yield COMMENT
                    continue
                with suppress(StopAsyncIteration):
                    text, waiting = waiting.result(), None
                    yield text
                    continue
                return
        finally:
            if waiting is not None and not waiting.done():
                waiting.cancel()
                await asyncio.wait({waiting})
