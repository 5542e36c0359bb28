"""What every job has: one owner at a time, and a way to say how far it is."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from trunkline.core import errors, lease, telemetry
from trunkline.core.calls import Call, scalar
from trunkline.core.errors import Conflict, LeaseLost, TrunklineError
from trunkline.core.presence import Tie

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from trunkline.core.db import Db

logger = telemetry.get_logger(__name__)

_RETRY_EVERY = 1.0  # seconds
_TIE_EVERY = 0.5  # seconds between two looks whether the session of the lease is there
_MISSING = 0.9  # seconds that a process whose session ended has to come back, and a little more
_OURS = re.compile(
    r"^(?:\S*: )*trunkline\.core\.errors\.(?P<name>\w+): (?P<text>.+)$", re.MULTILINE
)

Progress = Callable[[int, "int | None", str], None]
"""Told how far a job is (done, total, what): a bar on a terminal, structured lines elsewhere."""


def silent(_done: int, _total: int | None, _what: str) -> None:
    """Say nothing."""


@contextmanager
def shown(title: str) -> Iterator[Progress]:
    """Progress for people on a terminal (stderr), as log lines otherwise."""
    if not sys.stderr.isatty():

        def line(done: int, total: int | None, what: str) -> None:
            logger.info(title, done=done, total=total, what=what)

        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bars(*columns, console=Console(stderr=True)) as bars:
        task = bars.add_task(title, total=None)

        def bar(done: int, total: int | None, what: str) -> None:
            bars.update(task, completed=done, total=total, description=f"{title} {what}".strip())

        yield bar


@contextmanager
def plain_failures() -> Iterator[None]:
    """Raise what a task or a source of ours raised, instead of Spark's account of it."""
    try:
        yield
    except TrunklineError:
        raise
    except Exception as failure:  # of PySpark, or of the bridge to Java
        if (found := _OURS.search(str(failure))) is None:
            raise
        kind = getattr(errors, found["name"], TrunklineError)
        raise kind(found["text"]) from failure


class Ownership:
    """A process lease of the driver, renewed in the background, and what it owns."""

    def __init__(self, db: Db, process: UUID):
        self._db = db
        self.process = process
        self.lost = False

    def take(self, resource: str) -> int:
        """Own a resource; its epoch, or `Conflict` when a living process has it."""
        take: Call[int | None] = Call(
            "owner_take", {"resource": resource, "process": self.process}, scalar
        )
        found = None
        if (epoch := self._db.run(take)) is None:
            found = self._owner(resource)
            if found is None or not is_living(self._db, found["process"]):
                epoch = self._db.run(take)
        if epoch is None:
            name = holder(self._db, found["process"], found["name"]) if found else "another process"
            raise Conflict(
                f'"{resource}" is being worked on by {name}.',
                hint="Wait for it to end. If it died, its lease runs out by itself.",
            )
        return int(epoch)

    def _owner(self, resource: str) -> dict[str, Any] | None:
        owners = self._db.run(
            Call("owner_of", {"resource": resource}, lambda rows: [dict(row) for row in rows])
        )
        return owners[0] if owners else None

    def check(self) -> None:
        """Raise `LeaseLost` when the lease could not be renewed in time."""
        if self.lost:
            raise LeaseLost("the lease of this job ran out.", hint="Start it again.")


def is_living(db: Db, process: UUID) -> bool:
    """Whether the lease of a process lasts; waits while its session has just ended."""
    just_before = UUID(int=process.int - 1)
    while db.run(lease.watch(just_before)) == "missing":
        time.sleep(_MISSING)
    rest = db.run(lease.rest(process))
    return rest is not None and rest.total_seconds() > 0


def holder(db: Db, process: UUID, name: str | None) -> str:
    """Who has what we want, and until when if it died."""
    rest = db.run(lease.rest(process))
    until = "" if rest is None else f" (lease for {max(rest.total_seconds(), 0):.0f} s more)"
    return (name or str(process)) + until


@contextmanager
def owning(db: Db, name: str) -> Iterator[Ownership]:
    """Hold a lease while a job runs; whatever it took is free when the block ends."""
    process = uuid4()
    renewed = time.monotonic()
    db.run(lease.renew(process, name))
    ttl = db.run(lease.ttl()).total_seconds()
    held = Ownership(db, process)
    stop = threading.Event()
    tie = Tie(db.dsn, process)
    tie.hold()

    def keep() -> None:
        good_until, renew_at = renewed + ttl, renewed + ttl / 3
        while not stop.wait(min(_TIE_EVERY, ttl / 3)):
            tie.hold()
            begun = time.monotonic()
            if begun < renew_at:
                continue
            try:
                db.run(lease.renew(process, name))
                good_until, renew_at = begun + ttl, begun + ttl / 3
            except TrunklineError as error:
                logger.warning("lease not renewed", error=str(error))
                renew_at = begun + min(_RETRY_EVERY, ttl / 3)
            if time.monotonic() > good_until:
                held.lost = True
                return

    thread = threading.Thread(target=keep, name="lease", daemon=True)
    thread.start()
    try:
        yield held
    finally:
        stop.set()
        thread.join()
        with suppress(TrunklineError):  # without a goodbye the lease runs out by itself
            db.run(lease.end(process))
        tie.close()


def slots(spark: SparkSession) -> int:
    """How many tasks run at once; a guess where Spark does not tell."""
    from pyspark.errors import PySparkAttributeError

    try:
        return int(spark.sparkContext.defaultParallelism)
    except PySparkAttributeError:  # Spark Connect does not tell
        return 8
