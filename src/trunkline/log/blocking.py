"""The blocking twins of `Batch`, `Consumer` and `Producer`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trunkline.core.errors import LeaseLost, PositionTrimmed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    import psycopg
    import pyarrow as pa

    from trunkline.core.db import Db
    from trunkline.core.portal import Portal
    from trunkline.log.consumer import Batch, Consumer
    from trunkline.log.models import Message
    from trunkline.log.producer import Producer


class SyncBatch:
    """The blocking twin of `Batch`."""

    def __init__(self, consumer: SyncConsumer, batch: Batch):
        self._consumer = consumer
        self._batch = batch
        self.topic = batch.topic
        self.partition = batch.partition
        self.first_offset = batch.first_offset
        self.last_offset = batch.last_offset
        self.attempts = batch.attempts

    def __len__(self) -> int:
        return len(self._batch)

    @property
    def messages(self) -> list[Message]:
        """Every message as a value of its own."""
        return self._batch.messages

    @property
    def values(self) -> list[bytes | None]:
        """The values alone."""
        return self._batch.values

    @property
    def offsets(self) -> list[int]:
        """The offsets alone."""
        return self._batch.offsets

    def to_arrow(self) -> pa.Table:
        """A table of offset, timestamp, key, value and headers."""
        return self._batch.to_arrow()

    def written_by(self, offset: int) -> int:
        """The incarnation of the server that wrote what stands at an offset of this batch."""
        return self._batch.written_by(offset)

    def commit(self, *, on: psycopg.Connection[Any] | None = None) -> None:
        """Everything up to here is done; with ``on``, when that transaction commits."""
        self._consumer.commit(self._batch, on)

    def commit_soon(self) -> None:
        """Everything up to here is done, and committed while you go on."""
        self._consumer.ask(self._batch.commit_soon)

    def release(self, *, reason: str | None = None, retry_after: float = 0) -> None:
        """Not done: deliver it again."""
        self._consumer.call(self._batch.release(reason=reason, retry_after=retry_after))

    def extend(self, deadline: timedelta) -> None:
        """More time, in a shared group."""
        self._consumer.call(self._batch.extend(deadline))


class SyncConsumer:
    """The blocking twin of `Consumer`."""

    def __init__(self, db: Db, portal: Portal, consumer: Consumer):
        self.topic = consumer.topic
        self.group = consumer.group
        self._db = db
        self._consumer = consumer
        self._portal = portal
        self.call = portal.call
        self.ask = portal.ask

    @property
    def assignment(self) -> list[int]:
        """The partitions that this consumer reads now."""
        return self._consumer.assignment

    def __iter__(self) -> Iterator[SyncBatch]:
        while (batch := self.poll()) is not None:
            yield batch

    def __enter__(self) -> SyncConsumer:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def poll(self, timeout: float | None = None) -> SyncBatch | None:
        """The next batch; None when ``timeout`` seconds brought none."""
        batch = self.call(self._consumer.poll(timeout))
        return None if batch is None else SyncBatch(self, batch)

    def commit(self, batch: Batch, on: psycopg.Connection[Any] | None) -> None:
        """Settle a batch; called by it."""
        if on is None:
            self.call(batch.commit())
        elif (call := self._consumer.settlement(batch)) is not None:
            try:
                self._db.run(call, on=on)
            except (LeaseLost, PositionTrimmed) as error:
                self.ask(self._consumer.lost, batch, error)
                raise
            self.ask(self._consumer.settled, batch)

    def flush(self) -> None:
        """Wait until what was left to `SyncBatch.commit_soon` is durable."""
        self.call(self._consumer.flush())

    def close(self) -> None:
        """Leave: others take over at once. Safe to call twice, and after the connection's end."""
        if not self._portal.closed:
            self.call(self._consumer.close())


class SyncProducer:
    """The blocking twin of `Producer`."""

    def __init__(self, portal: Portal, producer: Producer):
        self._producer = producer
        self._portal = portal
        self._call = portal.call

    def __enter__(self) -> SyncProducer:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def send(
        self,
        value: bytes | str | None,
        *,
        key: bytes | str | None = None,
        headers: dict[str, Any] | None = None,
        partition: int | None = None,
        topic: str | None = None,
    ) -> None:
        """Hand over one message; waits only when too much is in flight. `flush` tells failures."""
        self._call(
            self._producer.send(value, key=key, headers=headers, partition=partition, topic=topic)
        )

    def send_many(
        self,
        messages: Any,
        *,
        keys: Any = None,
        headers: Any = None,
        partition: int | None = None,
        topic: str | None = None,
    ) -> None:
        """Hand over messages as `append` takes them; waits and fails as `send`."""
        self._call(
            self._producer.send_many(
                messages, keys=keys, headers=headers, partition=partition, topic=topic
            )
        )

    def flush(self) -> None:
        """Wait until everything handed over is durable."""
        self._call(self._producer.flush())

    def close(self) -> None:
        """Flush and refuse further sends, as the end of the connection does."""
        if not self._portal.closed:
            self._call(self._producer.close())
