"""`Enqueuer`: many small publications become few transactions.

What is handed over is written down as it is at that moment. It gathers until it is enough, or until
it has waited long enough, or until somebody calls `Enqueuer.flush`; then it is published as one
batch, in the order of the calls. One batch is under way at a time. An event that is refused fails
alone, whatever was with it.

A batch whose connection broke before the commit was asked for is published again. If it broke
during the commit nobody can know what became of it: those who wait get `Unavailable` and decide.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trunkline.broker import calls
from trunkline.core import telemetry
from trunkline.core.backoff import Backoff
from trunkline.core.errors import BadRequest, Invalid, TrunklineError, Unavailable
from trunkline.core.execution import execute_async, translated
from trunkline.core.waiting import set_within

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from trunkline.broker.models import NewEvent, WrittenEvent
    from trunkline.core.db import AsyncDb

logger = telemetry.get_logger(__name__)

_MOST_FAILED = 1_000  # errors kept for `flush`, which raises one
_LONGEST_BATCH = 32 << 20  # characters: a message to the server may have 1 GB, escapes included


class Answer(asyncio.Future[int]):
    """The id of an event, or its error. It knows whether a caller sees the error."""

    def __init__(self, settled: Callable[[Answer], None]) -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self._retrieved = False
        self._waiting = 0
        super().add_done_callback(lambda _: settled(self))

    @property
    def failure(self) -> BaseException | None:
        """The error, without marking it as seen."""
        return None if self.cancelled() else super().exception()

    @property
    def is_seen(self) -> bool:
        """Whether a caller retrieved the answer, or waited when it came."""
        return self._retrieved or self._waiting > 0

    def when_done(self, callback: Callable[[], object]) -> None:
        """Call back without counting as a caller that waits."""
        super().add_done_callback(lambda _: callback())

    def add_done_callback(self, *given: Any, **named: Any) -> None:
        self._waiting += 1
        super().add_done_callback(*given, **named)

    def remove_done_callback(self, *given: Any) -> int:
        removed = super().remove_done_callback(*given)
        self._waiting -= removed
        return removed

    def result(self) -> int:
        self._retrieved = True
        return super().result()

    def exception(self) -> BaseException | None:
        self._retrieved = True
        return super().exception()

    def __await__(self) -> Generator[Any, None, int]:
        self._retrieved = self._retrieved or self.done()
        return (yield from super().__await__())


@dataclass(slots=True, eq=False)
class Entry:
    """An event on its way, and the answer for its caller."""

    event: WrittenEvent
    answer: Answer

    @property
    def length(self) -> int:
        """How much of a batch it takes, in characters."""
        return len(self.event.payload) + len(self.event.metadata or "")


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
        self._unsettled: dict[Answer, None] = {}
        self._hurry = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._failed: list[Answer] = []
        self.closed = False

    async def enqueue(self, event: NewEvent) -> Answer:
        """Hand over one event; the answer is its id once it is published, or its error."""
        self._check_open()
        await self._room.acquire()
        if self.closed:
            self._room.release()
            self._check_open()
        answer = Answer(self._settled)
        self._unsettled[answer] = None
        try:
            self._waiting.append(Entry(calls.written(event), answer))
        except Exception as error:  # noqa: BLE001 - a payload may be anything of the user's
            answer.set_exception(error)
            return answer
        if len(self._waiting) >= self._batch_events or self._room.locked():
            self._hurry.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work(), name="enqueuer")
            self._task.add_done_callback(self._stopped)
        return answer

    async def flush(self) -> None:
        """Wait until everything handed over is published. Raise the first error no caller has seen.

        A caller sees the error of an event when it awaits the answer of `enqueue`.
        """
        wanted = list(self._unsettled)
        moved = asyncio.Event()
        for answer in wanted:
            answer.when_done(moved.set)
        while wanted:
            self._hurry.set()
            await moved.wait()
            moved.clear()
            wanted = [answer for answer in wanted if not answer.done()]
        failed, self._failed = self._failed, []
        for answer in failed:
            if answer.failure is not None and not answer.is_seen:
                raise answer.failure

    async def close(self) -> None:
        """Refuse further events and flush. Safe to call twice."""
        self.closed = True
        await self.flush()

    def _check_open(self) -> None:
        if self.closed:
            raise BadRequest("the enqueuer is closed.")

    def _settled(self, answer: Answer) -> None:
        del self._unsettled[answer]
        self._room.release()
        if answer.failure is not None:
            if len(self._failed) >= _MOST_FAILED:
                self._failed = [one for one in self._failed if not one.is_seen]
            if len(self._failed) < _MOST_FAILED:
                self._failed.append(answer)

    async def _work(self) -> None:
        """Publish until nothing is left."""
        while self._waiting:
            if len(self._waiting) < self._batch_events and not self.closed:
                await set_within(self._hurry, self._linger)
            self._hurry.clear()
            await self._publish(self._next_batch())

    def _stopped(self, task: asyncio.Task[None]) -> None:
        """Nobody waits for ever: a loop that ends cancels its tasks, even before they begin."""
        if self._task is task:
            _abandon(self._waiting)
            self._waiting.clear()

    def _next_batch(self) -> list[Entry]:
        """Take what goes out together: at least one, whatever its size."""
        batch = [self._waiting.popleft()]
        room = _LONGEST_BATCH - batch[0].length
        while self._waiting and len(batch) < self._batch_events:
            room -= self._waiting[0].length
            if room < 0:
                break
            batch.append(self._waiting.popleft())
        return batch

    async def _publish(self, batch: Sequence[Entry]) -> None:
        """Publish a batch; whatever becomes of it, everybody gets an answer."""
        while batch := [entry for entry in batch if not entry.answer.done()]:
            try:
                ids = await self._commit([entry.event for entry in batch])
            except asyncio.CancelledError:
                _abandon(batch)
                raise
            except Exception as error:  # noqa: BLE001 - nobody shall wait for ever
                batch = await self._without_culprit(batch, error)
            else:
                for entry, event_id in zip(batch, ids, strict=True):
                    if not entry.answer.done():
                        entry.answer.set_result(event_id)

    async def _without_culprit(self, batch: Sequence[Entry], error: Exception) -> Sequence[Entry]:
        """Answer those who failed; what is left to be published."""
        place = error.details.get("place") if isinstance(error, TrunklineError) else None
        if len(batch) == 1 or isinstance(error, Unavailable):
            _refuse(batch, error)
            return []
        if isinstance(place, int):
            _refuse([batch[place - 1]], error)
            return batch
        for entry in batch:  # nobody said which one it is
            await self._publish([entry])
        return []

    async def _commit(self, events: Sequence[WrittenEvent]) -> list[int]:
        call = calls.publish_written(events)
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


def _abandon(batch: Iterable[Entry]) -> None:
    """Tell whoever waits, and the log: perhaps nobody does."""
    lost = [entry for entry in batch if not entry.answer.done()]
    if lost:
        error = Unavailable(
            "the program ended before the event was published.",
            hint="Flush, or close the connection, before the event loop ends.",
        )
        logger.error(str(error), events=len(lost))
        _refuse(lost, error)


def _refuse(batch: Iterable[Entry], error: Exception) -> None:
    for entry in batch:
        if not entry.answer.done():
            entry.answer.set_exception(error)
