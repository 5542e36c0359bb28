"""`LogStream`: the messages of a topic for whoever looks."""

from __future__ import annotations

import base64
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trunkline.broker.stream import Reset
from trunkline.core.errors import Invalid, NotFound, PositionTrimmed
from trunkline.gateway.streams import PAGE, FollowedStream
from trunkline.log import calls
from trunkline.log.decoding import decode

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from trunkline.core.db import AsyncDb
    from trunkline.core.listen import Listener
    from trunkline.log.models import Ends, Message, Start

_PAGE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class LogPlaces:
    """The next offset of each partition, and the life of the server that wrote what lies before."""

    topic_id: int
    next: dict[int, tuple[int, int | None]]

    @property
    def token(self) -> str:
        """The places as text that says nothing to whoever keeps it."""
        parts = (f"{place}.{offset}.{life or 0}" for place, (offset, life) in self.next.items())
        text = ":".join((str(self.topic_id), *parts))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @classmethod
    def parse(cls, token: str) -> LogPlaces:
        with suppress(ValueError):  # as that of base64 is, too
            raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
            topic_id, *parts = raw.decode("ascii").split(":")
            found = [tuple(map(int, part.split("."))) for part in parts]
            next_ones = {place: (offset, life or None) for place, offset, life in found}
            if all(0 <= number < 2**63 for each in found for number in each):
                return cls(int(topic_id), next_ones)
        raise Invalid(
            f'"{token[:80]}" is not a token of a stream of a topic.',
            hint="Give the id of the last message, or none.",
        )


@dataclass(frozen=True, slots=True)
class LogItem:
    """A message of a stream; one that is given its ``token`` goes on after it."""

    token: str
    message: Message


class LogStream(FollowedStream):
    """The messages of a topic, each partition in order; a partition that is added is followed too.

    Where messages have left before they were read, it goes on with the first that is there.
    """

    def __init__(
        self,
        db: AsyncDb,
        listener: Listener,
        topic: str,
        *,
        partition: int | None = None,
        start: Start = "latest",
        after: str | None = None,
        heartbeat: float = 15.0,
    ):
        super().__init__(listener, f"log:{topic}:", resumed=after is not None, heartbeat=heartbeat)
        self._db = db
        self._topic = topic
        self._partition = partition
        self._start = start
        self._places = None if after is None else LogPlaces.parse(after)

    @property
    def token(self) -> str:
        return "" if self._places is None else self._places.token

    async def open(self) -> None:
        ends = await self._ends()
        if self._places is None:
            next_ones: dict[int, tuple[int, int | None]] = {
                place: (await self._begin(end), None) for place, end in ends.items()
            }
            self._places = LogPlaces(_topic_id(ends), next_ones)

    async def _begin(self, end: Ends) -> int:
        if isinstance(self._start, int):
            return self._start
        if self._start == "latest":
            return end.last_offset + 1
        return await self._db.run(calls.place(self._topic, end.partition, self._start))

    async def _look(self) -> AsyncGenerator[LogItem | Reset, None]:
        assert self._places is not None
        ends = await self._ends()
        if _topic_id(ends) != self._places.topic_id:
            self._places = LogPlaces(_topic_id(ends), dict.fromkeys(ends, (1, None)))
            yield Reset(self.token, f'the topic "{self._topic}" was deleted and created again.')
        for place, end in ends.items():
            offset, life = self._places.next.setdefault(place, (1, None))
            if offset == end.last_offset + 1:
                continue
            try:
                rows = await self._db.run(
                    calls.fetch(
                        self._topic,
                        place,
                        offset,
                        max_messages=PAGE,
                        max_bytes=_PAGE_BYTES,
                        incarnation=life,
                    )
                )
            except PositionTrimmed as error:
                yield await self._reset(place, error)
                continue
            for row in rows:
                part = decode(row)
                for message in part.messages(self._topic, place):
                    self._places.next[place] = (message.offset + 1, part.incarnation)
                    yield LogItem(self.token, message)
                if part.skip + part.take == part.n:  # compaction may have left nothing at its end
                    self._places.next[place] = (part.last_offset + 1, part.incarnation)

    async def _reset(self, place: int, error: PositionTrimmed) -> Reset:
        """Go on with the first message that is there and was not told."""
        assert self._places is not None
        if (cut := error.details.get("cut")) is not None:
            first = int(cut) + 1
        else:
            parts = await self._db.run(calls.describe(self._topic))
            first = next(part.first_offset for part in parts if part.partition == place)
        self._places.next[place] = (first, None)
        return Reset(self.token, error.message)

    async def _ends(self) -> dict[int, Ends]:
        found = await self._db.run(calls.ends([self._topic]))
        ends = {each.partition: each for each in found if self._partition in (None, each.partition)}
        if not ends:
            raise NotFound(f'topic "{self._topic}" has no partition {self._partition}.')
        return ends


def _topic_id(ends: dict[int, Ends]) -> int:
    return next(iter(ends.values())).topic_id
