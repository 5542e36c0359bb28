"""`Producer`: many small sends become few record batches.

One lane per partition. What arrives while a batch is under way waits and goes out together with the
next one, so concurrent callers share a commit (group commit) and a lone caller waits for nobody.
Only a full batch, which has no room for more, follows at once; see `trunkline.log.storing`.

Memory is bounded by ``in_flight_bytes``: what is not yet acknowledged counts with its bytes and
with what Python needs to hold it, and a send that does not fit waits for its turn. The batches that
a lane has under way, at most two, are there a second time, packed.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Self, SupportsFloat, SupportsIndex

from trunkline.core.errors import Invalid, NotFound, TooLarge
from trunkline.core.waiting import set_within
from trunkline.log.batches import Codec, encoded_headers, partition_of, route
from trunkline.log.columns import columns, encode
from trunkline.log.lanes import Entry, Lane
from trunkline.log.models import Appended
from trunkline.log.storing import Storing

if TYPE_CHECKING:
    from types import TracebackType

    from trunkline.core.db import AsyncDb
    from trunkline.core.listen import Notifier
    from trunkline.log.columns import Columns
    from trunkline.log.topics import Known, Topics

Text = bytes | str

_SEEMS_HELD = 0.2  # seconds without an answer, after which keyless messages go elsewhere
_COMPANY = 100  # messages: a batch that is larger waits for no more


class Producer:
    """Sends messages in the background: each partition's in order, and once, however often the
    connection breaks.

    ``linger`` seconds are waited for company before a batch goes out; with 0 only what gathers
    while another batch is under way goes together. A batch is full with ``batch_messages`` or
    ``batch_bytes`` and then follows the one before it at once. A send waits while
    ``in_flight_bytes`` are not yet acknowledged. Without ``idempotent`` a batch whose answer got
    lost is told as `Unavailable`, and is not sent again.
    """

    def __init__(
        self,
        db: AsyncDb,
        topics: Topics,
        notifier: Notifier,
        *,
        topic: str | None = None,
        linger: float = 0.0,
        batch_messages: int = 5_000,
        batch_bytes: int = 1 << 20,
        in_flight_bytes: int = 64 << 20,
        codec: str | None = None,
        idempotent: bool = True,
    ):
        for name, value in (
            ("batch_messages", batch_messages),
            ("batch_bytes", batch_bytes),
            ("in_flight_bytes", in_flight_bytes),
        ):
            if not isinstance(value, SupportsIndex) or value < 1:
                raise Invalid(f"{name} must be a whole number of at least 1, got {value!r}.")
        if not isinstance(linger, SupportsFloat) or linger < 0:
            raise Invalid(f"linger is a number of seconds, not negative, got {linger!r}.")
        self._topics = topics
        self._topic = topic
        self._linger = linger
        self._batch_messages = batch_messages
        self._batch_bytes = batch_bytes
        self._in_flight_bytes = in_flight_bytes
        self._storing = Storing(
            db,
            topics,
            notifier,
            codec=None if codec is None else Codec.parse(codec),
            idempotent=idempotent,
            settled=self._settled,
        )
        self._lanes: dict[tuple[str, int], Lane] = {}
        self._turn = 0
        self._in_flight = 0
        self._room = asyncio.Event()
        self._queue = asyncio.Lock()
        self.closed = False

    async def send(
        self,
        value: Text | None,
        *,
        key: Text | None = None,
        headers: dict[str, Any] | None = None,
        partition: int | None = None,
        topic: str | None = None,
    ) -> asyncio.Future[Appended]:
        """Hand over one message; the future has its offset once it is durable.

        Waits while ``in_flight_bytes`` are under way. A failure comes from the future, and also
        from the next `flush`, so that nobody needs to look at futures.
        """
        name = self._named("send", topic)
        known = await self._topics.get(name)
        encoded, encoded_key = encode("value", value), encode("key", key)
        size = _check_message(known, encoded, encoded_key)
        if partition is None:
            partition = (
                self._next_partition(known)
                if encoded_key is None
                else partition_of(encoded_key, known.topic.partitions)
            )
        entry = Entry(
            1,
            size,
            [encoded],
            None if encoded_key is None else [encoded_key],
            encoded_headers([headers]),
            background=True,
        )
        await self._enqueue(name, partition, entry)
        return entry.answer

    async def send_many(
        self,
        messages: Any,
        *,
        keys: Any = None,
        headers: Any = None,
        partition: int | None = None,
        topic: str | None = None,
    ) -> list[asyncio.Future[Appended]]:
        """Hand over messages as `append` takes them; a future per partition has their offsets.

        Waits and fails as `send`, and takes far less time than to send one after the other.
        """
        name = self._named("send_many", topic)
        rows = columns(messages, keys, headers)
        return await self._hand_over(name, rows, partition, codec=None, background=True)

    async def append(
        self,
        topic: str,
        messages: Any,
        *,
        keys: Any = None,
        headers: Any = None,
        partition: int | None = None,
        codec: str | None = None,
    ) -> list[Appended]:
        """Append messages and wait until they are durable; one answer per partition."""
        rows = columns(messages, keys, headers)
        results = await self._appended(topic, rows, partition, codec)
        if partition is None and all(isinstance(result, NotFound) for result in results):
            # nothing is stored: the topic was made again with fewer partitions
            results = await self._appended(topic, rows, partition, codec)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return [result for result in results if isinstance(result, Appended)]

    async def _appended(
        self, topic: str, rows: Columns, partition: int | None, codec: str | None
    ) -> list[Appended | BaseException]:
        answers = await self._hand_over(topic, rows, partition, codec=codec, background=False)
        return await asyncio.gather(*answers, return_exceptions=True)

    async def flush(self) -> None:
        """Wait until everything handed over is durable; raises the first failure since the last.

        What others hand over meanwhile is not waited for.
        """
        for lane, goal in [(lane, lane.accepted) for lane in self._lanes.values()]:
            while lane.settled < goal:
                lane.full.set()
                self._room.clear()
                await self._room.wait()
        failure, self._storing.failure = self._storing.failure, None
        if failure is not None:
            raise failure

    async def close(self) -> None:
        """Flush and refuse further sends."""
        self.closed = True
        await self.flush()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def _named(self, method: str, topic: str | None) -> str:
        name = self._topic if topic is None else topic
        if name is None:
            raise Invalid(f"{method}() needs a topic: the producer was made without one.")
        return name

    async def _hand_over(
        self,
        topic: str,
        rows: Columns,
        partition: int | None,
        *,
        codec: str | None,
        background: bool,
    ) -> list[asyncio.Future[Appended]]:
        known = await self._topics.get(topic)
        chosen = self._storing.codec_of(known) if codec is None else Codec.parse(codec)
        _check_size(known, rows.largest)
        entries = [
            (to, self._entry(known, share, chosen, background=background))
            for to, share in self._shares(known, rows, partition)
        ]
        for to, entry in entries:
            await self._enqueue(topic, to, entry)
        return [entry.answer for _, entry in entries]

    def _shares(
        self, known: Known, rows: Columns, partition: int | None
    ) -> list[tuple[int, Columns]]:
        if partition is not None:
            return [(partition, rows)]
        keyless = self._next_partition(known)
        if rows.keys is None or known.topic.partitions == 1:
            return [(keyless, rows)]
        routes = route(rows.key_list(), known.topic.partitions, keyless=keyless)
        return [(to, rows.take(indices)) for to, indices in enumerate(routes) if indices]

    def _entry(self, known: Known, rows: Columns, codec: Codec, *, background: bool) -> Entry:
        if (
            rows.arrow
            or len(rows.values) >= self._batch_messages
            or rows.size >= self._batch_bytes
            or codec is not self._storing.codec_of(known)
        ):
            batch = rows.pack(codec)  # it goes alone anyway
            return Entry(batch.n, batch.size, packed=batch, background=background)
        headers = encoded_headers(rows.headers)
        return Entry(
            len(rows.values), rows.size, rows.values, rows.keys, headers, background=background
        )

    def _next_partition(self, known: Known) -> int:
        """For messages without a key: the next one that no open transaction seems to hold."""
        for _ in range(known.topic.partitions):
            self._turn += 1
            partition = self._turn % known.topic.partitions
            lane = self._lanes.get((known.topic.topic, partition))
            since = None if lane is None else lane.storing_since
            if since is None or time.monotonic() - since < _SEEMS_HELD:
                break
        return partition

    async def _enqueue(self, topic: str, partition: int, entry: Entry) -> None:
        if not isinstance(partition, int) or isinstance(partition, bool):
            raise Invalid(f"a partition is an int, got {partition!r}.")
        self._check_open()
        async with self._queue:  # first come, first served: nobody is overtaken for ever
            while self._in_flight and self._in_flight + entry.weight > self._in_flight_bytes:
                self._room.clear()
                await self._room.wait()
        self._check_open()
        self._in_flight += entry.weight
        lane = self._lanes.get((topic, partition))
        if lane is None:
            lane = self._lanes[(topic, partition)] = Lane(topic, partition)
        lane.waiting.append(entry)
        lane.accepted += 1
        lane.size += entry.size
        lane.n += entry.n
        if self._fills_a_batch(lane):
            lane.full.set()
        if lane.task is None:
            lane.task = asyncio.create_task(self._drain(lane), name=f"append {topic}/{partition}")
            lane.task.add_done_callback(partial(self._drained, lane))

    def _check_open(self) -> None:
        if self.closed:
            raise Invalid("the producer is closed.")

    async def _drain(self, lane: Lane) -> None:
        while lane.waiting:
            if self._linger and not lane.full.is_set():
                await set_within(lane.full, self._linger)
            elif lane.n < _COMPANY:
                await asyncio.sleep(0)  # whoever is about to send comes along
            entries = self._take(lane)
            lane.storing_since = time.monotonic()
            try:
                if self._fills_a_batch(lane):
                    await self._storing.stream(lane, entries, partial(self._take_full, lane))
                else:
                    await self._storing.store(lane, entries)
            finally:
                lane.storing_since = None
        lane.task = None

    def _drained(self, lane: Lane, task: asyncio.Task[None]) -> None:
        """Nobody waits for ever: a loop that ends cancels its tasks, even before they begin."""
        if lane.task is task:
            lane.task = None
            left = [*lane.waiting]
            lane.waiting.clear()
            lane.n = lane.size = 0
            self._storing.abandon(lane, left)

    def _settled(self, lane: Lane, entries: list[Entry]) -> None:
        self._in_flight -= sum(entry.weight for entry in entries)
        lane.settled += len(entries)
        self._room.set()

    def _fills_a_batch(self, lane: Lane) -> bool:
        return lane.n >= self._batch_messages or lane.size >= self._batch_bytes

    def _take_full(self, lane: Lane) -> list[Entry]:
        return self._take(lane) if self._fills_a_batch(lane) else []

    def _take(self, lane: Lane) -> list[Entry]:
        entries = [lane.waiting.popleft()]
        n, size = entries[0].n, entries[0].size
        while (
            lane.waiting
            and entries[0].packed is None
            and lane.waiting[0].packed is None
            and n + lane.waiting[0].n <= self._batch_messages
            and size + lane.waiting[0].size <= self._batch_bytes
        ):
            entry = lane.waiting.popleft()
            entries.append(entry)
            n += entry.n
            size += entry.size
        lane.n -= n
        lane.size -= size
        if not self._fills_a_batch(lane):
            lane.full.clear()
        return entries


def _check_message(known: Known, value: bytes | None, key: bytes | None) -> int:
    if value is None and not known.topic.compact:
        raise Invalid(
            f'topic "{known.topic.topic}" is not compacted: a value must not be null.',
            hint="A null value is a tombstone, which only a compacted topic takes.",
        )
    _check_size(known, len(value or b""))
    return len(value or b"") + len(key or b"")


def _check_size(known: Known, size: int) -> None:
    if size > known.message_bytes:
        raise TooLarge(
            f"a message holds at most {known.message_bytes} bytes, got {size}.",
            hint="Send a reference to it, or raise the setting log.message_bytes.",
            details={"limit": known.message_bytes, "bytes": size},
        )
