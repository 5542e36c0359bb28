"""`Lab`: the database under test, our client, the baseline, and what to ask the server."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, LiteralString
from uuid import uuid4

import psycopg

from trunkline.core.db import AsyncDb, Db
from trunkline.core.lease import ProcessLease
from trunkline.core.listen import Listener, Notifier
from trunkline.log import calls
from trunkline.log.bench.baseline import Baseline
from trunkline.log.client import Log

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trunkline.core.calls import Call
    from trunkline.log.batches import PackedBatch

_SETTINGS = (
    "server_version",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "wal_compression",
    "autovacuum",
    "shared_buffers",
    "max_wal_size",
)


@dataclass(frozen=True, slots=True)
class Lab:
    """Everything that a cell needs."""

    dsn: str
    db: Db
    log: Log
    baseline: Baseline
    watcher: psycopg.Connection[Any]
    quick: bool
    full: bool
    runs: int
    prefix: str
    _ids: dict[str, int] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """How long a turn lasts."""
        return 0.05 if self.quick else 0.5

    def create(self, name: str, **settings: Any) -> str:
        """A new topic; its full name."""
        topic = f"{self.prefix}.{name}.{uuid4().hex[:8]}"
        self._ids[topic] = self.db.run(calls.create(topic, **settings)).topic_id
        return topic

    def appending(self, topic: str, batch: PackedBatch, **producer: Any) -> Call[tuple[int, int]]:
        """An append to the first partition, as a client asks for it that appends often."""
        return calls.append_batch(topic, 0, batch, topic_id=self._ids[topic], **producer)

    def ask(self, question: LiteralString, *values: Any) -> Any:
        """The first column of the first row."""
        row = self.watcher.execute(question, values).fetchone()
        assert row is not None
        return row[0]

    def wal_position(self) -> int:
        """How many bytes of WAL were ever written."""
        return int(self.ask("select pg_current_wal_insert_lsn() - '0/0'"))

    def checkpoint(self) -> None:
        """Begin afresh, so that nobody pays for the pages of another; where we may."""
        with suppress(psycopg.errors.InsufficientPrivilege):
            self.watcher.execute("checkpoint")

    def maintain(self) -> None:
        """Do what the background service would do."""
        self.watcher.execute("call trunkline.maintain()")

    def flush_statistics(self) -> None:
        """Let the statistics of what was done so far be told now, not when something else is."""
        with self.db.connection() as connection:
            for session in (connection, self.watcher):
                session.execute("select pg_stat_force_next_flush()")

    def clean(self) -> None:
        """Forget the messages of a cell."""
        for topic in self.db.run(calls.list_topics()):
            if topic.topic.startswith(f"{self.prefix}."):
                self.db.run(calls.delete(topic.topic))
        self.baseline.create()
        self.maintain()

    def settings(self) -> dict[str, str]:
        """What of the server's settings bears on speed and durability."""
        return {name: self.ask("select current_setting(%s)", name) for name in _SETTINGS}


@asynccontextmanager
async def open_log(dsn: str, *, listening: bool = True) -> AsyncIterator[Log]:
    """A client as `connect` makes it; without ``listening`` its consumers only poll."""
    db = AsyncDb(dsn)
    lease = ProcessLease(db, name="bench")
    listener = Listener(db.connect if listening else _unreachable)
    notifier = Notifier(db.connect)
    log = Log(db, lease=lease, listener=listener, notifier=notifier)
    try:
        yield log
    finally:
        await log.close()
        await lease.close()
        await listener.close()
        await notifier.close()
        await db.close()


@asynccontextmanager
async def open_lab(dsn: str, *, quick: bool, full: bool, runs: int) -> AsyncIterator[Lab]:
    """A lab that leaves nothing behind."""
    db = Db(dsn)
    baseline = Baseline(dsn)
    watcher = psycopg.connect(dsn, autocommit=True)
    try:
        async with open_log(dsn) as log:
            lab = Lab(
                dsn=dsn,
                db=db,
                log=log,
                baseline=baseline,
                watcher=watcher,
                quick=quick,
                full=full,
                runs=runs,
                prefix=f"bench.{uuid4().hex[:8]}",
            )
            baseline.create()
            try:
                yield lab
            finally:
                lab.clean()
                baseline.drop()
    finally:
        watcher.close()
        baseline.close()
        db.close()


async def _unreachable() -> psycopg.AsyncConnection[Any]:
    never: asyncio.Future[psycopg.AsyncConnection[Any]] = asyncio.get_running_loop().create_future()
    return await never
