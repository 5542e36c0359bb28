"""What a `Producer` holds: entries of callers, in lanes, until they are combined and stored."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID, uuid4

from trunkline.log.batches import pack_encoded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trunkline.log.batches import Codec, PackedBatch
    from trunkline.log.models import Appended

_ENTRY_BYTES = 800  # what Python needs to hold an entry, measured
_MESSAGE_BYTES = 100  # ... and each of its messages


def _answer() -> asyncio.Future[Appended]:
    return asyncio.get_running_loop().create_future()


@dataclass(slots=True, eq=False)
class Entry:
    """What one caller hands to one lane: messages, or a batch that is packed already."""

    n: int
    size: int
    values: Sequence[bytes | None] = ()
    keys: Sequence[bytes | None] | None = None
    headers: bytes | None = None
    packed: PackedBatch | None = None
    background: bool = False
    """Perhaps nobody waits for the answer: `flush` tells if it is bad."""
    answer: asyncio.Future[Appended] = field(default_factory=_answer)

    @property
    def weight(self) -> int:
        """Bytes of memory, about."""
        objects = 0 if self.packed else self.n * _MESSAGE_BYTES
        headers = self.packed.headers if self.packed else self.headers
        return self.size + len(headers or b"") + objects + _ENTRY_BYTES

    @property
    def header_list(self) -> bytes:
        """The headers of its messages, separated by commas."""
        return b",".join([b"null"] * self.n) if self.headers is None else self.headers[1:-1]


class Stamp(NamedTuple):
    """By which the log knows a batch again that is sent twice."""

    producer_id: UUID
    producer_seq: int


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
    accepted: int = 0
    settled: int = 0
    full: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    storing_since: float | None = None
    """Monotonic time at which the server was given what it has not answered yet."""
    busy: bool = False
    """It has sent enough to be worth a function of its own."""
    without_own: int | None = None
    """The topic whose function of the partition's own could not be called."""

    def stamp(self) -> Stamp:
        """The number of the next batch, and whose."""
        self.producer_seq += 1
        return Stamp(self.producer_id, self.producer_seq)


def combine(entries: list[Entry], codec: Codec) -> PackedBatch:
    """One batch of what several callers sent."""
    if len(entries) == 1:
        entry = entries[0]
        return pack_encoded(entry.values, keys=entry.keys, headers=entry.headers, codec=codec)
    keyed = any(entry.keys is not None for entry in entries)
    headed = any(entry.headers is not None for entry in entries)
    return pack_encoded(
        [value for entry in entries for value in entry.values],
        keys=[key for entry in entries for key in entry.keys or [None] * entry.n]
        if keyed
        else None,
        headers=b"[%b]" % b",".join([entry.header_list for entry in entries]) if headed else None,
        codec=codec,
    )
