"""`Producer`: many small sends become few record batches.

One lane per partition; a lane has one batch under way at a time. What arrives meanwhile waits and
goes out together with the next one, so concurrent callers share a commit (group commit) and a lone
caller waits for nobody. Each batch carries the producer's id and a rising number: when the answer
to a commit got lost it is sent again, and the log stores it once.

Memory is bounded by ``in_flight_bytes`` (keys and values that are not yet acknowledged): a send
that does not fit waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID, uuid4

from trunkline.core import telemetry
from trunkline.core.errors import Conflict, Invalid, TooLarge, TrunklineError, Unavailable
from trunkline.log import calls
from trunkline.log.batches import Codec, PackedBatch, pack, pack_arrow, partition_of, route
from trunkline.log.models import Appended, Outgoing

if TYPE_CHECKING:
    from types import TracebackType

    from trunkline.core.db import AsyncDb
    from trunkline.core.listen import Notifier
    from trunkline.log.topics import Known, Topics

Text = bytes | str


@dataclass(slots=True, eq=False)
class Entry:
    """What one caller hands to one lane: messages, or a batch that is packed already."""

    n: int
    size: int
    answer: asyncio.Future[Appended]
    values: Sequence[bytes | None] = ()
    keys: Sequence[bytes | None] | None = None
    headers: Sequence[dict[str, Any] | None] | None = None
    packed: PackedBatch | None = None


@dataclass(slots=True, eq=False)
class Lane:
    """The entries of one partition that are not yet under way."""

    topic: str
    partition: int
    producer_id: UUID = field(default_factory=uuid4)
    producer_seq: int = 0
    waiting: deque[Entry] = field(default_factory=deque)
    size: int = 0
    n: int = 0
    full: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class Producer:
    """Sends messages in the background; see the module for what it promises.

    ``linger`` seconds are waited for company before a batch goes out; with 0 only what gathers
    while another batch is under way goes together.
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
            if value < 1:
                raise Invalid(f"{name} must be at least 1, got {value}.")
        if linger < 0:
            raise Invalid(f"linger must not be negative, got {linger}.")
        self._db = db
        self._topics = topics
        self._notifier = notifier
        self._topic = topic
        self._linger = linger
        self._batch_messages = batch_messages
        self._batch_bytes = batch_bytes
        self._in_flight_bytes = in_flight_bytes
        self._codec = None if codec is None else Codec.parse(codec)
        self._idempotent = idempotent
        self._lanes: dict[tuple[str, int], Lane] = {}
        self._turn = 0
        self._in_flight = 0
        self._room = asyncio.Event()
        self._failures: list[BaseException] = []
        self._closed = False

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

        Waits while ``in_flight_bytes`` are under way. Failures come from the future or, if nobody
        looks at it, from the next `flush`.
        """
        name = topic or self._topic
        if name is None:
            raise Invalid("send() needs a topic: the producer was made without one.")
        known = await self._topics.get(name)
        encoded, encoded_key = encode("value", value), encode("key", key)
        size = _check_message(known, encoded, encoded_key)
        if partition is None:
            partition = (
                self._next_partition(known)
                if encoded_key is None
                else partition_of(encoded_key, known.topic.partitions)
            )
        answer: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(self._note_failure)
        entry = Entry(
            1,
            size,
            answer,
            [encoded],
            None if encoded_key is None else [encoded_key],
            None if headers is None else [headers],
        )
        if headers is not None:
            pack([b""], headers=[headers])  # bad headers are the caller's mistake: say so now
        await self._enqueue(name, partition, entry)
        return answer

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
        known = await self._topics.get(topic)
        chosen = self._codec_of(known) if codec is None else Codec.parse(codec)
        loop = asyncio.get_running_loop()
        answers = []
        for to, entry in self._entries(known, messages, keys, headers, partition, chosen):
            entry.answer = loop.create_future()
            answers.append(entry.answer)
            await self._enqueue(topic, to, entry)
        results = await asyncio.gather(*answers, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return [result for result in results if isinstance(result, Appended)]

    async def flush(self) -> None:
        """Wait until everything handed over is durable; raises the first failure since the last."""
        while tasks := [lane.task for lane in self._lanes.values() if lane.task is not None]:
            for lane in self._lanes.values():
                lane.full.set()
            await asyncio.wait(tasks)
        failures, self._failures = self._failures, []
        if failures:
            raise failures[0]

    async def close(self) -> None:
        """Flush and refuse further sends."""
        self._closed = True
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

    def _entries(
        self,
        known: Known,
        messages: Any,
        keys: Any,
        headers: Any,
        partition: int | None,
        codec: Codec,
    ) -> list[tuple[int, Entry]]:
        partitions = known.topic.partitions
        nobody: asyncio.Future[Appended] = None  # type: ignore[assignment]  # append() sets it
        if is_arrow(messages):
            values, keys, headers = arrow_columns(messages, keys, headers)
            shares = _arrow_shares(keys, len(values), partitions, partition, self._turn)
            self._turn += 1
            found = []
            for to, rows in shares:
                batch = pack_arrow(
                    values if rows is None else values.take(rows),
                    keys=keys if rows is None or keys is None else keys.take(rows),
                    headers=headers if rows is None or headers is None else headers.take(rows),
                    codec=codec,
                )
                found.append((to, Entry(batch.n, batch.size, nobody, packed=batch)))
            return found
        rows = plain_columns(messages, keys, headers)
        if not rows.values:
            raise Invalid("the batch is empty.", hint="Append at least one message.")
        largest = (
            max(len(value) for value in rows.values if value is not None)
            if any(value is not None for value in rows.values)
            else 0
        )
        _check_size(known, largest)
        if partition is not None or partitions == 1 or rows.keys is None:
            to = self._next_partition(known) if partition is None else partition
            return [(to, self._entry(rows, None, codec, nobody))]
        routes = route(rows.keys, partitions, keyless=self._next_partition(known))
        return [
            (to, self._entry(rows, indices, codec, nobody))
            for to, indices in enumerate(routes)
            if indices
        ]

    def _entry(self, rows: Columns, indices: list[int] | None, codec: Codec, nobody: Any) -> Entry:
        values, keys, headers = rows.values, rows.keys, rows.headers
        if indices is not None:
            values = [values[index] for index in indices]
            keys = None if keys is None else [keys[index] for index in indices]
            headers = None if headers is None else [headers[index] for index in indices]
        if len(values) >= self._batch_messages or codec is not self._codec:
            batch = pack(values, keys=keys, headers=headers, codec=codec)
            if len(values) >= self._batch_messages:
                return Entry(batch.n, batch.size, nobody, packed=batch)
        elif headers is not None:
            pack([b""] * len(values), headers=headers)
        size = sum(map(len, filter(None, values))) + sum(map(len, filter(None, keys or ())))
        return Entry(len(values), size, nobody, values, keys, headers)

    def _next_partition(self, known: Known) -> int:
        self._turn += 1
        return self._turn % known.topic.partitions

    def _codec_of(self, known: Known) -> Codec:
        return Codec.parse(known.topic.codec) if self._codec is None else self._codec

    async def _enqueue(self, topic: str, partition: int, entry: Entry) -> None:
        while self._in_flight and self._in_flight + entry.size > self._in_flight_bytes:
            self._room.clear()
            await self._room.wait()
        if self._closed:
            raise Invalid("the producer is closed.")
        self._in_flight += entry.size
        lane = self._lanes.get((topic, partition))
        if lane is None:
            lane = self._lanes[(topic, partition)] = Lane(topic, partition)
        lane.waiting.append(entry)
        lane.size += entry.size
        lane.n += entry.n
        if lane.n >= self._batch_messages or lane.size >= self._batch_bytes:
            lane.full.set()
        if lane.task is None:
            lane.task = asyncio.create_task(self._drain(lane), name=f"append {topic}/{partition}")

    async def _drain(self, lane: Lane) -> None:
        try:
            while lane.waiting:
                if self._linger and not lane.full.is_set():
                    try:
                        async with asyncio.timeout(self._linger):
                            await lane.full.wait()
                    except TimeoutError:
                        pass
                else:
                    await asyncio.sleep(0)  # whoever is about to send comes along
                entries = self._take(lane)
                lane.full.clear()
                try:
                    await self._store(lane, entries)
                except Exception as error:  # noqa: BLE001 - it belongs to the callers
                    _fail(entries, error)
                finally:
                    self._in_flight -= sum(entry.size for entry in entries)
                    self._room.set()
        finally:
            lane.task = None

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
        return entries

    async def _store(self, lane: Lane, entries: list[Entry]) -> None:
        known = await self._topics.get(lane.topic)
        batch = entries[0].packed or _combine(entries, self._codec_of(known))
        lane.producer_seq += 1
        early = known.topic.early_release
        call = calls.append_batch(
            lane.topic,
            lane.partition,
            batch,
            producer_id=lane.producer_id if self._idempotent else None,
            producer_seq=lane.producer_seq if self._idempotent else None,
            release_early=early,
        )
        try:
            first, _ = await self._db.run(call)
        except (Unavailable, Conflict):
            # nobody knows whether it is stored: what follows must not be taken for its repeat
            lane.producer_id = uuid4()
            raise
        except TrunklineError:
            self._topics.forget(lane.topic)
            if len(entries) == 1:
                raise
            for entry in entries:  # one bad entry must not harm its company
                try:
                    await self._store(lane, [entry])
                except Exception as error:  # noqa: BLE001 - it belongs to this caller
                    _fail([entry], error)
            return
        if early:
            await self._db.run(calls.flush())
        self._notifier.notify(f"log:{lane.topic}:{lane.partition}")
        telemetry.counter("log_appended_messages", topic=lane.topic).inc(batch.n)
        for entry in entries:
            if not entry.answer.done():
                entry.answer.set_result(
                    Appended(lane.topic, lane.partition, first, first + entry.n - 1)
                )
            first += entry.n

    def _note_failure(self, answer: asyncio.Future[Appended]) -> None:
        if not answer.cancelled() and (error := answer.exception()) is not None:
            self._failures.append(error)


@dataclass(frozen=True, slots=True)
class Columns:
    """Messages to append, column by column."""

    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None
    headers: Sequence[dict[str, Any] | None] | None


def plain_columns(messages: Any, keys: Any, headers: Any) -> Columns:
    """Bring what people pass into columns: one message, many, or `Outgoing` values."""
    if isinstance(messages, bytes | str | Outgoing):
        messages = [messages]
        keys = None if keys is None else [keys] if isinstance(keys, bytes | str) else keys
        headers = [headers] if isinstance(headers, dict) else headers
    elif not isinstance(messages, Sequence):
        messages = list(messages)
    if any(isinstance(message, Outgoing) for message in messages):
        if keys is not None or headers is not None:
            raise Invalid("keys and headers are given twice: in the messages and beside them.")
        wholes = [
            message if isinstance(message, Outgoing) else Outgoing(message) for message in messages
        ]
        messages = [whole.value for whole in wholes]
        keys = [whole.key for whole in wholes]
        headers = [whole.headers for whole in wholes]
    values = [encode("value", value) for value in messages]
    columns = Columns(
        values,
        None if keys is None else [encode("key", key) for key in keys],
        None if headers is None else list(headers),
    )
    for name, column in (("keys", columns.keys), ("headers", columns.headers)):
        if column is not None and len(column) != len(values):
            raise Invalid(f"{len(values)} messages came with {len(column)} {name}.")
    if columns.keys is not None and all(key is None for key in columns.keys):
        return Columns(values, None, columns.headers)
    return columns


def encode(name: str, value: Any) -> bytes | None:
    """Text becomes UTF-8; everything but bytes and text is refused."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise Invalid(
        f"a {name} is bytes, text or None, got {type(value).__name__}.",
        hint="Encode it first, for example with json.dumps().",
    )


def is_arrow(messages: Any) -> bool:
    """Tell Arrow data without importing Arrow."""
    return type(messages).__module__.partition(".")[0] == "pyarrow"


def arrow_columns(messages: Any, keys: Any, headers: Any) -> tuple[Any, Any, Any]:
    """Columns ``value``, ``key`` and ``headers`` of a table; an array is all values."""
    if not hasattr(messages, "column_names"):
        return messages, keys, headers
    names = messages.column_names
    if "value" not in names:
        raise Invalid(f'the table needs a column "value", it has: {", ".join(names)}.')
    return (
        messages.column("value"),
        messages.column("key") if keys is None and "key" in names else keys,
        messages.column("headers") if headers is None and "headers" in names else headers,
    )


def _arrow_shares(
    keys: Any, n: int, partitions: int, partition: int | None, turn: int
) -> list[tuple[int, Any]]:
    if partition is not None:
        return [(partition, None)]
    if keys is None or partitions == 1:
        return [(turn % partitions, None)]
    encoded = [encode("key", key) for key in keys.to_pylist()]
    routes = route(encoded, partitions, keyless=turn % partitions)
    return [(to, rows) for to, rows in enumerate(routes) if rows]


def _combine(entries: list[Entry], codec: Codec) -> PackedBatch:
    if len(entries) == 1:
        entry = entries[0]
        return pack(entry.values, keys=entry.keys, headers=entry.headers, codec=codec)
    keyed = any(entry.keys is not None for entry in entries)
    headed = any(entry.headers is not None for entry in entries)
    return pack(
        [value for entry in entries for value in entry.values],
        keys=[key for entry in entries for key in entry.keys or [None] * entry.n]
        if keyed
        else None,
        headers=[header for entry in entries for header in entry.headers or [None] * entry.n]
        if headed
        else None,
        codec=codec,
    )


def _fail(entries: list[Entry], error: Exception) -> None:
    for entry in entries:
        if not entry.answer.done():
            entry.answer.set_exception(error)


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
