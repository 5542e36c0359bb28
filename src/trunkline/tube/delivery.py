"""Delivery: a batch of keys becomes documents downstream, and what was refused is told.

`Carried` reads the version, enriches, and writes to any downstream. `Mirrored` asks the server to
do the same in one statement, where rows and documents are in one database: nothing travels.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Protocol

from trunkline.core.errors import Forbidden, TrunklineError, Unavailable
from trunkline.tube import calls
from trunkline.tube.enrichment import RowEnricher
from trunkline.tube.models import Change, KeyId

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trunkline.core.db import AsyncDb
    from trunkline.tube.downstreams.base import Downstream, Mirror
    from trunkline.tube.enrichment import Enricher
    from trunkline.tube.lanes import Lanes
    from trunkline.tube.queue import Pending


class Delivery(Protocol):
    """Brings a batch downstream; the keys that were refused, with the reason."""

    @property
    def stretch(self) -> int:
        """How many times as large as others its batches may well be."""
        ...

    async def __call__(self, batch: Sequence[Pending]) -> Mapping[KeyId, str]: ...


def delivery_of(
    db: AsyncDb, enricher: Enricher, downstream: Downstream, *, lanes: Lanes
) -> Delivery:
    """The shortest way from the rows to the downstream."""
    carried = Carried(db, enricher, downstream, lanes)
    if isinstance(enricher, RowEnricher) and enricher.reads_only(db):
        mirror = downstream.mirror_of(db.dsn)
        if mirror is not None:
            return Mirrored(mirror, carried, lanes)
    return carried


def _insist_on(lanes: Lanes) -> None:
    """Write nothing once another process may have taken over: it delivers the same keys."""
    if not lanes.are_fresh:
        raise Unavailable("the lease may have run out: the lanes are looked up first.")


class Carried:
    """Version, enrichment, write: each a call of its own."""

    stretch = 1

    def __init__(self, db: AsyncDb, enricher: Enricher, downstream: Downstream, lanes: Lanes):
        self._lanes = lanes
        self._db = db
        self._enricher = enricher
        self._downstream = downstream

    async def __call__(self, batch: Sequence[Pending]) -> Mapping[KeyId, str]:
        version = await self._db.run(calls.version())
        groups: dict[tuple[int, int], list[Pending]] = defaultdict(list)
        met: Counter[tuple[int, str]] = Counter()
        for pending in batch:  # a row that moved is there in two shards: once in each group
            attachment, _, key = pending.id
            groups[attachment, met[attachment, key]].append(pending)
            met[attachment, key] += 1
        upserts: list[Change] = []
        deletes: list[Change] = []
        origin: dict[Change, KeyId] = {}
        for (attachment, _), group in groups.items():
            touches = [pending.touch() for pending in group]
            documents = await self._enricher(attachment, touches, version)
            for pending in group:
                document = documents.get(pending.id.key)
                change = Change(
                    pending.relation or "", pending.id.shard, pending.id.key, document, version
                )
                origin[change] = pending.id
                (deletes if document is None else upserts).append(change)
        failures: dict[Change, str] = {}
        _insist_on(self._lanes)
        if upserts:
            failures |= await self._downstream.upsert(upserts)
        if deletes:
            _insist_on(self._lanes)
            failures |= await self._downstream.delete(deletes)
        return {origin[change]: reason for change, reason in failures.items()}


class Mirrored:
    """One statement for the keys of an attachment; what it refuses is carried, to find who is at
    fault. Only keys travel, so a statement is given many."""

    stretch = 4

    def __init__(self, mirror: Mirror, carried: Carried, lanes: Lanes):
        self._lanes = lanes
        self._mirror = mirror
        self._carried = carried
        self._apart: set[int] = set()

    async def __call__(self, batch: Sequence[Pending]) -> Mapping[KeyId, str]:
        groups: dict[int, list[Pending]] = defaultdict(list)
        for pending in batch:
            groups[pending.id.attachment].append(pending)
        failures: dict[KeyId, str] = {}
        for attachment, group in groups.items():
            if attachment in self._apart:
                failures |= await self._carried(group)
                continue
            _insist_on(self._lanes)
            try:
                await self._mirror(attachment, [pending.id for pending in group])
            except Unavailable:
                raise
            except Forbidden:  # rows and documents belong to different roles
                self._apart.add(attachment)
                failures |= await self._carried(group)
            except TrunklineError:
                failures |= await self._carried(group)
        return failures
