"""A log topic that follows a table: every change is appended.

The key of a message is ``relation:shard:key``; its headers are relation, shard, version (a text:
it goes beyond what many JSON readers take for a number) and deleted. In a compacted topic the value
is the document and a deleted row is a null value, so whoever reads it to the end has the table. In
any other topic every value is an object {relation, shard, key, version, deleted, document}.

A log keeps what it is given, so an older version cannot be refused once it is there. What this
process appends is in order: a change older than the last one it appended for that key is left out
(the last 100,000 keys are remembered). A worker that stalled in *another* process for longer than
its lease may still append an old change late. A reader that must not go back compares the version
in the headers with the last one it took, and leaves out lower ones.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from zlib import crc32

from trunkline.core.acting import RoleDb
from trunkline.core.db import AsyncDb
from trunkline.core.errors import (
    Conflict,
    Invalid,
    NotFound,
    TooLarge,
    TrunklineError,
    Unavailable,
)
from trunkline.core.listen import Notifier
from trunkline.core.words import counted
from trunkline.log import calls
from trunkline.log.producer import Producer
from trunkline.log.reading import Reading
from trunkline.log.topics import Topics
from trunkline.tube.downstreams.base import Downstream, Page, chunks, halved, identity, named

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from trunkline.log.models import Message, Partition, Topic
    from trunkline.tube.models import Change, Version

_REMEMBERED_KEYS = 100_000
_APPEND_BYTES = 1 << 20
_FOLD_MESSAGES = 1_000_000  # how much of a partition a listing holds in memory, in messages
_FETCH_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class _Opened:
    db: AsyncDb
    pool: AsyncDb
    notifier: Notifier
    producer: Producer
    settings: Topic


class TopicDownstream(Downstream):
    """Messages in a topic of the same or another database that has Trunkline; see the module."""

    def __init__(
        self,
        *,
        dsn: str,
        topic: str,
        create: bool = True,
        partitions: int | None = None,
        compact: bool | None = None,
        author: str | None = None,
    ):
        """Make a missing topic with one partition, compacted by default.

        ``author`` is the role that configured it, as which the topic is written; None: as we are.
        """
        if not isinstance(topic, str) or not topic:
            raise Invalid(f"topic is the name of a topic, got {topic!r}.")
        if partitions is not None and partitions < 1:
            raise Invalid(f"partitions must be at least 1, got {partitions}.")
        self._dsn = dsn
        self._topic = topic
        self._create = create
        self._partitions = partitions
        self._compact = compact
        self._author = author
        self._opened: _Opened | None = None
        self._appended: OrderedDict[str, Version] = OrderedDict()

    async def open(self) -> None:
        if self._opened is not None:
            return
        pool = AsyncDb(self._dsn)
        db = pool
        if self._author is not None:
            db = RoleDb(pool, self._author, what=f'the downstream topic "{self._topic}"')
        try:
            settings = await self._settings(db)
        except BaseException:
            await pool.close()
            raise
        notifier = Notifier(pool.connect)
        self._opened = _Opened(db, pool, notifier, Producer(db, Topics(db), notifier), settings)

    async def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is None:
            return
        async with AsyncExitStack() as last:  # whatever fails, the rest is closed too
            last.push_async_callback(opened.pool.close)
            last.push_async_callback(opened.notifier.close)
            await opened.producer.close()

    async def upsert(self, changes: Sequence[Change]) -> Mapping[Change, str]:
        return await self._write(changes)

    async def delete(self, changes: Sequence[Change]) -> Mapping[Change, str]:
        return await self._write(changes)

    async def older_than(
        self, relation: str, shard: int | None, version: Version, after: str | None, limit: int
    ) -> Page:
        """Reads the topic: a page is what a partition says, or a share of its keys."""
        partition, share = (int(part) for part in (after or "0:0").split(":"))
        partitions = await self._there.db.run(calls.describe(self._topic))
        described = partitions[partition]
        messages = described.last_offset - described.first_offset + 1
        shares = max(1, -(-messages // _FOLD_MESSAGES))
        prefix = f"{named(relation)}:".encode()
        older: dict[bytes, bool] = {}
        async for message in self._read(described):
            key, about = message.key, message.headers
            if key is None or about is None or not key.startswith(prefix):
                continue
            if crc32(key) % shares == share and shard in {None, about.get("shard")}:
                older[key] = not about["deleted"] and int(about["version"]) < version.number
        keys = [_place(key.removeprefix(prefix)) for key, is_older in older.items() if is_older]
        if share + 1 < shares:
            return Page(keys, f"{partition}:{share + 1}")
        more = partition + 1 < len(partitions)
        return Page(keys, f"{partition + 1}:0" if more else None)

    @property
    def _there(self) -> _Opened:
        if self._opened is None:
            raise Unavailable("the downstream is not open.")
        return self._opened

    async def _settings(self, db: AsyncDb) -> Topic:
        try:
            found = await db.run(calls.settings(self._topic))
        except NotFound:
            if not self._create:
                raise
            return await db.run(
                calls.create(
                    self._topic,
                    partitions=self._partitions or 1,
                    compact=self._compact is not False,
                )
            )
        if self._partitions not in {None, found.partitions} or self._compact not in {
            None,
            found.compact,
        }:
            raise Conflict(
                f'topic "{self._topic}" is there with {counted(found.partitions, "partition")} and'
                f" compact={found.compact}, asked for {self._partitions} and {self._compact}."
            )
        return found

    async def _write(self, changes: Sequence[Change]) -> Mapping[Change, str]:
        newer = [change for change in changes if self._remember(change)]
        failures: dict[Change, str] = {}
        sizes = [len(change.document or "") for change in newer]
        for part in chunks(newer, sizes, most=len(newer), most_bytes=_APPEND_BYTES):
            failures |= await halved(part, self._append, refusals=(Invalid, TooLarge, ValueError))
        return failures

    async def _append(self, changes: Sequence[Change]) -> Mapping[Change, str]:
        there = self._there
        envelope = _document if there.settings.compact else _envelope
        try:
            await there.producer.append(
                self._topic,
                [envelope(change) for change in changes],
                keys=[identity(change).encode() for change in changes],
                headers=[_about(change) for change in changes],
            )
        except (Invalid, TooLarge, Unavailable):
            raise
        except TrunklineError as error:
            raise Unavailable(f'topic "{self._topic}" takes nothing: {error}') from error
        return {}

    def _remember(self, change: Change) -> bool:
        """Whether a change is not older than the last of its key; it is the last one then."""
        name = identity(change)
        last = self._appended.get(name)
        if last is not None and change.version < last:
            return False
        self._appended[name] = change.version
        self._appended.move_to_end(name)
        if len(self._appended) > _REMEMBERED_KEYS:
            self._appended.popitem(last=False)
        return True

    async def _read(self, partition: Partition) -> AsyncIterator[Message]:
        reading = Reading(
            self._topic, partition.partition, partition.first_offset, None, _FETCH_BYTES
        )
        while call := reading.next_call():
            for row in await self._there.db.run(call):
                for message in reading.messages(row):
                    yield message


def _about(change: Change) -> dict[str, Any]:
    return {
        "relation": change.relation,
        "shard": change.shard,
        "version": str(change.version.number),
        "deleted": change.document is None,
    }


def _document(change: Change) -> bytes | None:
    return None if change.document is None else change.document.encode()


def _envelope(change: Change) -> bytes:
    # The document is put in as it is: Python would lose the last digits of its numbers.
    about = json.dumps({**_about(change), "key": change.key}, ensure_ascii=False)
    document = "null" if change.document is None else change.document
    json.loads(document)
    return f'{about[:-1]}, "document": {document}}}'.encode()


def _place(rest: bytes) -> tuple[int, str]:
    shard, _, key = rest.decode().partition(":")
    return int(shard), key
