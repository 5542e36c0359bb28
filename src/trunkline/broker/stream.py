"""`EventStream`: events for whoever looks, resumable on any node by a token; nothing is kept.

A stream reads events by position and leaves no trace in the database: no group, no subscription, no
lease. So it may begin anywhere in the history that is still there, and go on elsewhere with the
token of the last event. It reads a page only when the one before is used up: a slow reader costs no
memory.
"""

from __future__ import annotations

import asyncio
import base64
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar

from trunkline.broker import calls
from trunkline.core import telemetry
from trunkline.core.backoff import Backoff
from trunkline.core.calls import as_json
from trunkline.core.errors import Invalid, PositionTrimmed, Unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
    from datetime import datetime

    from trunkline.broker.models import Scanned
    from trunkline.core.db import AsyncDb
    from trunkline.core.listen import Listener

T = TypeVar("T")
logger = telemetry.get_logger(__name__)

_LOOK_EVERY = 1.0  # seconds, where no wake-up comes


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """An event of a stream; a stream that is given its ``token`` goes on after it."""

    token: str
    event_id: int
    topic: str
    key: str | None
    payload: Any
    metadata: dict[str, Any] | None
    at: datetime


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The stream begins, or nothing came for a while; ``token`` says up to where."""

    token: str


@dataclass(frozen=True, slots=True)
class Reset:
    """The history after the token is gone: what follows begins at the present end."""

    token: str
    reason: str


@dataclass(frozen=True, slots=True)
class Place:
    """A position, and the life of the server in which it was told."""

    incarnation: int
    position: int

    @property
    def token(self) -> str:
        """The place as text that says nothing to whoever keeps it."""
        text = f"{self.incarnation}.{self.position}"
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @classmethod
    def parse(cls, token: str) -> Place:
        with suppress(ValueError):  # as that of base64 is, too
            text = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
            incarnation, position = (int(number) for number in text.decode("ascii").split("."))
            if 0 < incarnation < 2**31 and 0 <= position < 2**63:
                return cls(incarnation, position)
        raise Invalid(
            f'"{token[:80]}" is not a token of a stream.',
            hint="Give the token of the last event, or none to begin with what comes now.",
        )


class EventStream:
    """``async for event in stream``; `items` also tells of silence and of lost history.

    Looped over, a stream that was given a token raises `PositionTrimmed` when the history after it
    is gone; one without says so in the log and goes on with what comes.
    """

    def __init__(
        self,
        db: AsyncDb,
        listener: Listener,
        *,
        condition: str | None,
        params: Mapping[str, Any],
        after: str | None = None,
        page: int = 1_000,
        heartbeat: float = 15.0,
        json_text: bool = False,
    ):
        if heartbeat < 0:
            raise Invalid(f"heartbeat is a number of seconds, not negative, got {heartbeat}.")
        self._db = db
        self._listener = listener
        self._condition = condition
        self._params = as_json(dict(params), of="params")
        self._resumed = after is not None
        self._place = None if after is None else Place.parse(after)
        self._page = page
        self._heartbeat = heartbeat
        self._json_text = json_text
        self._begun = False
        self._closed = False

    @property
    def token(self) -> str | None:
        """Where the stream stands: after the last event that it gave; None before it is open."""
        return None if self._place is None else self._place.token

    async def open(self) -> None:
        """Begin: what is published from now on is seen. Checks the condition."""
        if self._place is None:
            await self._db.run(calls.scan(self._condition, self._params))
            self._place = await present_end(self._db)

    async def close(self) -> None:
        """End; whoever loops over it stops after the event at hand.

        The end of the connection is the end of its streams.
        """
        self._closed = True

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def __aiter__(self) -> AsyncIterator[StreamEvent]:
        async for item in self.items():
            event = self.told(item)
            if event is not None:
                yield event

    def told(self, item: StreamEvent | Heartbeat | Reset) -> StreamEvent | None:
        """What a loop is told of an item: the event, if it is one."""
        if isinstance(item, Reset):
            if self._resumed:
                raise PositionTrimmed(item.reason, hint="Start again without a token.")
            logger.error("events lost", reason=item.reason)
        return item if isinstance(item, StreamEvent) else None

    async def items(self) -> AsyncGenerator[StreamEvent | Heartbeat | Reset, None]:
        """Events, a `Heartbeat` after every silence, a `Reset` where history is gone.

        Without a token to go on after, a `Heartbeat` comes first: whoever is cut off before the
        first event can go on from there.
        """
        async with self._listener.subscribe("broker:tick") as heard:
            await self.open()
            if not (self._resumed or self._begun):
                self._begun = True
                yield Heartbeat(self.token or "")
            spoken = time.monotonic()
            while not self._closed:
                page = await self._read()
                if isinstance(page, Reset):
                    yield page
                    continue
                for place, event in page:
                    if self._closed:
                        return
                    self._place = place  # who stops here goes on after this one
                    if event is not None:
                        yield event
                        spoken = time.monotonic()
                silence = self._heartbeat - (time.monotonic() - spoken)
                if silence <= 0:
                    yield Heartbeat(self.token or "")
                    spoken = time.monotonic()
                elif not page:
                    await heard.wait(min(_LOOK_EVERY, silence))

    async def _read(self) -> list[tuple[Place, StreamEvent | None]] | Reset:
        """The next events and how far was looked; empty when nothing is new."""
        assert self._place is not None
        try:
            rows = await self._scan(self._place)
        except PositionTrimmed as error:
            self._place = await self._patiently(lambda: present_end(self._db))
            return Reset(self._place.token, error.message)
        except Unavailable:
            if not self._closed:
                raise
            return []  # the connection was closed, and the stream with it
        incarnation = self._place.incarnation
        return [_found(row, Place(incarnation, row.up_to)) for row in rows]

    async def _scan(self, place: Place) -> list[Scanned]:
        call = calls.scan(
            self._condition,
            self._params,
            after=place.position,
            incarnation=place.incarnation,
            max_events=self._page,
            json_text=self._json_text,
        )
        return await self._patiently(lambda: self._db.run(call))

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        return await patiently(ask, until=lambda: self._closed)


async def patiently(ask: Callable[[], Awaitable[T]], *, until: Callable[[], bool]) -> T:
    """An answer, however long it takes the server to be there; ``until`` nobody waits for it."""
    waits = Backoff(first=0.1, longest=5.0)
    while True:
        try:
            return await ask()
        except Unavailable as error:
            if until():
                raise
            wait = waits.next()
            logger.warning("stream held back", error=str(error), retry_after=round(wait, 2))
            await asyncio.sleep(wait)


async def present_end(db: AsyncDb) -> Place:
    """The present end, told by one call: a position belongs to the server that tells it."""
    ends = await db.run(calls.ends())
    return Place(ends.incarnation, ends.last_one)


def _found(row: Scanned, place: Place) -> tuple[Place, StreamEvent | None]:
    """What a row tells: an event, or only how far was looked."""
    if row.event_id is None:
        return place, None
    return place, StreamEvent(
        token=place.token,
        event_id=row.event_id,
        topic=row.topic,
        key=row.key,
        payload=row.payload,
        metadata=row.metadata,
        at=row.at,
    )
