"""`EventStream`: events from now on, for whoever looks at this moment; nothing is kept for later.

The stream has a subscription and a group of its own, which go with it, or with the process. It
reads a page only when the one before is used up, so a slow reader costs no memory.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from trunkline.broker import handler_calls as calls
from trunkline.core import telemetry
from trunkline.core.backoff import Backoff
from trunkline.core.errors import NotFound, PositionTrimmed, TrunklineError, Unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from trunkline.broker.delivered import Delivered
    from trunkline.core.db import AsyncDb
    from trunkline.core.lease import ProcessLease
    from trunkline.core.listen import Listener

logger = telemetry.get_logger(__name__)

_EXPIRY = timedelta(minutes=1)
_LOOK_EVERY = 1.0


class EventStream:
    """``async for event in stream``, or ``async with stream as events`` to begin at once."""

    def __init__(
        self,
        db: AsyncDb,
        lease: ProcessLease,
        listener: Listener,
        *,
        condition: str | None,
        params: Mapping[str, Any],
        page: int = 100,
    ):
        self._db = db
        self._lease = lease
        self._listener = listener
        self._condition = condition
        self._params = params
        self._page = page
        self._group = ""
        self._group_id = 0
        self._subscription: int | None = None
        self._after: int | None = None

    async def open(self) -> None:
        """Begin: what is published from now on is seen."""
        if self._subscription is not None:
            return
        process = await self._lease.hold()
        self._group, self._after = f"stream {uuid4()}", None
        self._subscription = await self._db.run(
            calls.subscribe_stream(
                self._group, self._condition, self._params, expiry=_EXPIRY, process=process
            )
        )
        self._group_id = await self._db.run(calls.group(self._group, lasting=False))

    async def close(self) -> None:
        """End: nothing is left behind. Safe to call twice."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            with suppress(TrunklineError):
                await self._db.run(calls.unsubscribe(subscription))

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    def __aiter__(self) -> AsyncIterator[Delivered]:
        return self._events()

    async def _events(self) -> AsyncIterator[Delivered]:
        ours = self._subscription is None
        await self.open()
        try:
            async with self._listener.subscribe(f"broker:group:{self._group_id}") as heard:
                while self._subscription is not None:
                    events = await self._read()
                    for event in events:
                        yield event
                    if not events:
                        await heard.wait(_LOOK_EVERY)
        finally:
            if ours:
                await self.close()

    async def _read(self) -> list[Delivered]:
        """The next page, however long it takes the server to be there."""
        waits = Backoff(first=0.1, longest=5.0)
        while True:
            try:
                page = await self._db.run(
                    calls.read_stream(self._group, self._after, max_events=self._page)
                )
            except PositionTrimmed as error:
                logger.error("events lost", error=str(error))  # noqa: TRY400 - no bug
                self._after = int(error.details.get("first", 1)) - 1
            except NotFound:  # the lease ran out, and the subscription with it
                logger.warning("events lost", error="the stream expired")
                self._subscription = None
                await self.open()
            except Unavailable as error:
                wait = waits.next()
                logger.warning("stream held back", error=str(error), retry_after=round(wait, 2))
                await asyncio.sleep(wait)
            else:
                self._after = page[-1].delivery if page else self._after
                return page
