"""`Storing`: how the batches of a `Producer` come into the log, and what their senders are told.

The batches of a lane keep their order. A full one is sent before the one ahead of it is answered,
on the same connection, and the server carries it out only if that one is stored. Whatever goes
wrong there is left to the careful way: one batch after the other.

Each batch carries its producer's id and a rising number. When the answer to a commit got lost it is
sent again with both, and the log stores it once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING
from uuid import uuid4

from trunkline.core import telemetry
from trunkline.core.errors import (
    Conflict,
    Forbidden,
    Invalid,
    SchemaMismatch,
    TooLarge,
    TrunklineError,
    Unavailable,
)
from trunkline.log import calls
from trunkline.log.batches import Codec
from trunkline.log.lanes import combine
from trunkline.log.models import Appended

if TYPE_CHECKING:
    from collections.abc import Callable

    from trunkline.core.calls import Call
    from trunkline.core.db import AsyncDb
    from trunkline.core.listen import Notifier
    from trunkline.log.batches import PackedBatch
    from trunkline.log.lanes import Entry, Lane, Stamp
    from trunkline.log.models import Topic
    from trunkline.log.topics import Known, Topics

    Sent = deque[tuple[list[Entry], Stamp]]
    """The batches of a lane whose answers have not come, and what they are known by."""

logger = telemetry.get_logger(__name__)

_UNDER_WAY = 2  # batches of a lane: the server has work while the next one is made
_BUSY_AFTER = 10  # sends: what a session pays to plan a partition's own function is earned by then
_BUSY_MOST = 32  # lanes: each such function takes some 300 kB of every session that calls it


class Storing:
    """Stores entries of lanes; ``settled`` is called with those that are stored or have failed."""

    def __init__(
        self,
        db: AsyncDb,
        topics: Topics,
        notifier: Notifier,
        *,
        codec: Codec | None,
        idempotent: bool,
        settled: Callable[[Lane, list[Entry]], None],
    ):
        self._db = db
        self._topics = topics
        self._notifier = notifier
        self._codec = codec
        self._idempotent = idempotent
        self._settled = settled
        self._busy = 0
        self.failure: Exception | None = None
        """The first one of which perhaps nobody else is told."""

    def codec_of(self, known: Known) -> Codec:
        """How messages of a topic are packed."""
        return Codec.parse(known.topic.codec) if self._codec is None else self._codec

    async def store(self, lane: Lane, entries: list[Entry], stamp: Stamp | None = None) -> None:
        """Store entries as one batch and wait until it is durable."""
        try:
            await self._store(lane, entries, stamp)
        except asyncio.CancelledError:
            self.abandon(lane, entries)
            raise
        except Exception as error:  # noqa: BLE001 - it belongs to the callers
            self._fail(entries, error)
        self._settled(lane, entries)

    async def stream(
        self, lane: Lane, entries: list[Entry], following: Callable[[], list[Entry]]
    ) -> None:
        """Store entries, and the full batches that follow as long as there are any."""
        sent: Sent = deque([(entries, lane.stamp())])
        try:
            if await self._may_stream(lane):
                await self._stream(lane, sent, following)
            else:
                await self._store_each(lane, sent)
        except asyncio.CancelledError:
            for left, _ in sent:
                self.abandon(lane, left)
            raise

    def abandon(self, lane: Lane, entries: list[Entry]) -> None:
        """Tell whoever waits, and the log: perhaps nobody does."""
        error = _ended()
        if lost := sum(entry.n for entry in entries if not entry.answer.done()):
            logger.error(str(error), topic=lane.topic, partition=lane.partition, messages=lost)
        self._fail(entries, error)
        self._settled(lane, entries)

    async def _may_stream(self, lane: Lane) -> bool:
        try:
            known = await self._topics.get(lane.topic)
        except TrunklineError:
            return False
        return self._db.prepares and not known.topic.early_release

    async def _stream(self, lane: Lane, sent: Sent, following: Callable[[], list[Entry]]) -> None:
        try:
            await self._send_and_hear(lane, sent, following)
        except _Refused:  # and so was what follows it
            await self._store_each(lane, sent)
        except Exception as error:  # noqa: BLE001 - it belongs to the callers
            given = lane.producer_seq
            while sent:
                entries, stamp = sent.popleft()
                if not self._idempotent:  # perhaps it is stored
                    self._fail(entries, error)
                    self._settled(lane, entries)
                elif lane.producer_seq == given:
                    await self.store(lane, entries, stamp)
                else:  # the one ahead was stored in parts, that is, not before: nor was this
                    await self.store(lane, entries)

    async def _store_each(self, lane: Lane, sent: Sent) -> None:
        while sent:
            entries, _ = sent.popleft()
            await self.store(lane, entries)

    async def _send_and_hear(
        self, lane: Lane, sent: Sent, following: Callable[[], list[Entry]]
    ) -> None:
        def more() -> bool:
            if len(sent) < _UNDER_WAY and not self._db.crowded and (entries := following()):
                sent.append((entries, lane.stamp()))
                return True
            return False

        fresh = True
        async with self._db.pipeline() as pipeline:
            while sent:
                if fresh:
                    entries, stamp = sent[-1]
                    known = await self._topics.get(lane.topic)
                    batch, own = self._batch(entries, known), self._own(lane, known.topic)
                    await pipeline.send(self._call(lane, batch, stamp, own))
                fresh = more()
                if not fresh:
                    try:
                        first, _ = await pipeline.answer()
                    except Unavailable:
                        raise
                    except TrunklineError as error:
                        raise _Refused from error
                    entries, _ = sent.popleft()
                    self._tell(lane, entries, first)
                    self._settled(lane, entries)
                    fresh = more()

    async def _store(self, lane: Lane, entries: list[Entry], stamp: Stamp | None = None) -> None:
        known = await self._topics.get(lane.topic)
        try:
            batch = self._batch(entries, known)
            first = await self._append(lane, batch, stamp or lane.stamp(), known.topic)
        except (Unavailable, Conflict, asyncio.CancelledError):
            # nobody knows whether it is stored: what follows must not be taken for its repeat
            lane.producer_id = uuid4()
            raise
        except (Invalid, TooLarge) as error:
            self._topics.forget(lane.topic)
            if len(entries) == 1:
                self._fail(entries, error)
                return
            middle = len(entries) // 2  # one bad entry must not harm its company: find it
            await self._store(lane, entries[:middle])
            await self._store(lane, entries[middle:])
            return
        except TrunklineError:
            self._topics.forget(lane.topic)
            raise
        self._tell(lane, entries, first)

    def _batch(self, entries: list[Entry], known: Known) -> PackedBatch:
        return entries[0].packed or combine(entries, self.codec_of(known))

    async def _append(self, lane: Lane, batch: PackedBatch, stamp: Stamp, topic: Topic) -> int:
        if own := self._own(lane, topic):
            try:
                return (await self._db.run(self._call(lane, batch, stamp, own)))[0]
            except (SchemaMismatch, Forbidden):
                lane.without_own = own
        early = topic.early_release
        call = self._call(lane, batch, stamp, release_early=early)
        # In one session: a crash that loses what was released early also ends the session.
        return (await self._db.run(call, then=calls.flush() if early else None))[0]

    def _call(
        self,
        lane: Lane,
        batch: PackedBatch,
        stamp: Stamp,
        own: int | None = None,
        *,
        release_early: bool = False,
    ) -> Call[tuple[int, int]]:
        return calls.append_batch(
            lane.topic,
            lane.partition,
            batch,
            producer_id=stamp.producer_id if self._idempotent else None,
            producer_seq=stamp.producer_seq if self._idempotent else None,
            release_early=release_early,
            topic_id=own,
        )

    def _own(self, lane: Lane, topic: Topic) -> int | None:
        """The topic whose function of the partition's own is to be called, if that is so."""
        if not lane.busy and lane.settled >= _BUSY_AFTER and self._busy < _BUSY_MOST:
            lane.busy = True
            self._busy += 1
        plain = not (topic.early_release or topic.compact or lane.without_own == topic.topic_id)
        return topic.topic_id if lane.busy and plain else None

    def _tell(self, lane: Lane, entries: list[Entry], first: int) -> None:
        """Tell everybody: these are stored, from this offset on."""
        self._notifier.notify(f"log:{lane.topic}:{lane.partition}")
        n = sum(entry.n for entry in entries)
        telemetry.counter("log_appended_messages", topic=lane.topic).inc(n)
        for entry in entries:
            if not entry.answer.done():
                entry.answer.set_result(
                    Appended(lane.topic, lane.partition, first, first + entry.n - 1)
                )
            first += entry.n

    def _fail(self, entries: list[Entry], error: Exception) -> None:
        for entry in entries:
            stored = entry.answer.done() and not entry.answer.cancelled()
            if entry.background and not stored and self.failure is None:
                self.failure = error
            if not entry.answer.done():
                entry.answer.set_exception(error)
                entry.answer.exception()  # it counts as seen: flush() and append() raise it


class _Refused(Exception):
    """A batch of a stream was: nothing of it was done, nor of what follows it."""


def _ended() -> Unavailable:
    return Unavailable(
        "the program ended before the message was acknowledged.",
        hint="It may be stored or not. Flush, or close the connection, before the loop ends.",
    )
