"""`Enqueuer`: many small publications become few transactions.

What is handed over gathers until it is enough, or until it has waited long enough, or until
somebody calls `Enqueuer.flush`; then it is published as one batch, in the order of the calls. One
batch is under way at a time. An event that the database refuses fails alone, whatever was with it.

A batch whose connection broke before the commit was asked for is published again. If it broke
during the commit nobody can know what became of it: those who wait get `Unavailable` and decide.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trunkline.broker import calls
from trunkline.core.backoff import Backoff
from trunkline.core.db import execute_async, translated
from trunkline.core.errors import BadRequest, Invalid, TrunklineError, Unavailable
from trunkline.core.waiting import set_within

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trunkline.broker.models import NewEvent
    from trunkline.core.db import AsyncDb


def _answer() -> asyncio.Future[int]:
    return asyncio.get_running_loop().create_future()


@dataclass(slots=True, eq=False)
class Entry:
    """An event on its way, and who waits for its id."""

    event: NewEvent
    answer: asyncio.Future[int] = field(default_factory=_answer)


class Enqueuer:
    """Publishes in the background; see the module for what it promises.

    A batch goes out when it has ``batch_events``, ``linger`` seconds after its first event, or on
    `flush`. At most ``in_flight`` events are accepted and not yet published: then `enqueue` waits.
    While the server is away, a batch is tried again for ``patience`` seconds.
    """

    def __init__(
        self,
        db: AsyncDb,
        *,
        batch_events: int = 1_000,
        linger: float = 0.01,
        in_flight: int = 10_000,
        patience: float = 30.0,
    ):
        if batch_events < 1 or in_flight < 1:
            raise Invalid(
                f"batch_events and in_flight must be at least 1, got {batch_events}, {in_flight}."
            )
        if linger < 0 or patience < 0:
            raise Invalid(f"linger and patience must not be negative, got {linger}, {patience}.")
        self._db = db
        self._batch_events = batch_events
        self._linger = linger
        self._patience = patience
        self._room = asyncio.Semaphore(in_flight)
        self._waiting: deque[Entry] = deque()
        self._unsettled: dict[asyncio.Future[int], None] = {}
        self._hurry = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        self.closed = False

    async def enqueue(self, event: NewEvent) -> asyncio.Future[int]:
        """Hand over one event; the answer is its id once it is published, or why it is not."""
        self._check_open()
        await self._room.acquire()
        try:
            self._check_open()
            entry = Entry(event)
        except BaseException:
            self._room.release()
            raise
        self._waiting.append(entry)
        self._unsettled[entry.answer] = None
        entry.answer.add_done_callback(self._settled)
        if len(self._waiting) >= self._batch_events:
            self._hurry.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work(), name="enqueuer")
        return entry.answer

    async def flush(self) -> None:
        """Wait until everything handed over is published; raises the first failure there was."""
        wanted = list(self._unsettled)
        while wanted:
            self._hurry.set()
            await asyncio.wait(wanted, return_when=asyncio.FIRST_COMPLETED)
            wanted = [answer for answer in wanted if not answer.done()]
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def close(self) -> None:
        """Refuse further events and flush. Safe to call twice."""
        self.closed = True
        await self.flush()

    def _check_open(self) -> None:
        if self.closed:
            raise BadRequest("the enqueuer is closed.")

    def _settled(self, answer: asyncio.Future[int]) -> None:
        del self._unsettled[answer]
        self._room.release()
        if not answer.cancelled():
            error = answer.exception()
            self._failure = self._failure or error

    async def _work(self) -> None:
        """Publish until nothing is left."""
        while self._waiting:
            if len(self._waiting) < self._batch_events and not self.closed:
                await set_within(self._hurry, self._linger)
            self._hurry.clear()
            size = min(self._batch_events, len(self._waiting))
            await self._publish([self._waiting.popleft() for _ in range(size)])

    async def _publish(self, batch: Sequence[Entry]) -> None:
        """Publish a batch; whatever becomes of it, everybody gets an answer."""
        while batch := [entry for entry in batch if not entry.answer.done()]:
            try:
                ids = await self._commit([entry.event for entry in batch])
            except asyncio.CancelledError:
                _refuse(batch, Unavailable("the program ended before the event was published."))
                raise
            except TrunklineError as error:
                batch = await self._without_culprit(batch, error)
            except Exception as error:  # noqa: BLE001 - nobody shall wait for ever
                _refuse(batch, error)
            else:
                for entry, event_id in zip(batch, ids, strict=True):
                    if not entry.answer.done():
                        entry.answer.set_result(event_id)

    async def _without_culprit(
        self, batch: Sequence[Entry], error: TrunklineError
    ) -> Sequence[Entry]:
        """Answer those who failed; what is left to be published."""
        place = error.details.get("place")
        if len(batch) == 1 or isinstance(error, Unavailable):
            _refuse(batch, error)
            return []
        if isinstance(place, int):
            _refuse([batch[place - 1]], error)
            return batch
        for entry in batch:  # the database did not say which one it is
            await self._publish([entry])
        return []

    async def _commit(self, events: Sequence[NewEvent]) -> list[int]:
        call = calls.publish_many(events)
        waits = Backoff(first=0.05, longest=2.0)
        give_up = time.monotonic() + self._patience
        while True:
            committing = False
            try:
                async with self._db.connection() as connection:
                    with translated():
                        async with connection.transaction():
                            ids = await execute_async(connection, call)
                            committing = True
                        return ids
            except Unavailable as error:
                if committing:
                    error.hint = "It broke during the commit: the events may be there or not."
                    raise
                if time.monotonic() > give_up:
                    raise
            await asyncio.sleep(waits.next())


def _refuse(batch: Sequence[Entry], error: Exception) -> None:
    for entry in batch:
        if not entry.answer.done():
            entry.answer.set_exception(error)
