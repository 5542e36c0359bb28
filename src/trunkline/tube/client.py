"""`Tubes` and `SyncTubes`: the tubes' functions as methods, one line per call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trunkline.core.arguments import checked
from trunkline.core.calls import AsyncFace, SyncFace, awaited, blocking
from trunkline.core.db import AsyncDb
from trunkline.core.errors import Invalid
from trunkline.tube import backfill_calls, calls
from trunkline.tube.downstreams import make
from trunkline.tube.downstreams.base import Downstream
from trunkline.tube.downstreams.callable import CallableDownstream
from trunkline.tube.enrichment import FunctionEnricher, QueryEnricher, RowEnricher
from trunkline.tube.pace import Pace
from trunkline.tube.services import Backfiller, TubeRunner, TubeSequencer, worker_for
from trunkline.tube.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trunkline.core.db import Db
    from trunkline.core.lease import ProcessLease
    from trunkline.core.listen import Listener
    from trunkline.core.quiet import Commits
    from trunkline.core.service import Service
    from trunkline.tube.enrichment import Enricher
    from trunkline.tube.models import DownstreamRow


class Tubes(AsyncFace):
    """Which rows changed, as keys, in order, with backfill, into any downstream."""

    def __init__(self, db: AsyncDb, *, lease: ProcessLease, listener: Listener):
        self._db = db
        self._lease = lease
        self._listener = listener
        self._members = 0

    ensure = awaited(calls.ensure)
    drop = awaited(calls.drop)
    attach = awaited(calls.attach)
    detach = awaited(calls.detach)
    list = awaited(calls.list_tubes)
    stats = awaited(calls.stats)
    touch = awaited(calls.touch)
    insert = awaited(calls.insert)
    tick = awaited(calls.tick)
    parked = awaited(calls.parked)
    unpark = awaited(calls.unpark)
    backfill_schedule = awaited(backfill_calls.schedule)
    backfill_step = awaited(backfill_calls.step)
    backfill_status = awaited(backfill_calls.status)
    backfill_pause = awaited(backfill_calls.pause)
    backfill_cancel = awaited(backfill_calls.cancel)
    downstream = awaited(calls.downstream)
    downstreams = awaited(calls.downstreams)

    @checked
    def worker(
        self,
        tube: str,
        downstream: Any,
        *,
        enrich: Any = None,
        replica: AsyncDb | None = None,
        pace: Pace | None = None,
    ) -> Worker:
        """A worker for this process: ``await worker.run(stop)``.

        ``downstream`` is a `Downstream`, an async function that takes a list of `Change`, or
        ``(kind, options)``. ``enrich`` is a query with ``%(keys)s`` or an async function; without
        it a document is the attached row.
        """
        if not isinstance(replica, AsyncDb | None):
            raise Invalid(
                f"replica is the AsyncDb of a standby, got {replica!r:.100}.",
                hint="For example (await connect(dsn_of_the_standby)).db.",
            )
        if not isinstance(pace, Pace | None):
            raise Invalid(f"pace is a Pace, got {pace!r:.100}.")
        self._members += 1
        return Worker(
            self._db,
            self._lease,
            self._listener,
            tube=tube,
            downstream=self._downstream(downstream),
            enricher=self._enricher(enrich, replica),
            member=f"worker {self._members}",
            pace=pace,
        )

    def worker_for(self, row: DownstreamRow) -> Worker:
        """The worker that ``trunkline up`` would run for a tube's downstream."""
        return worker_for(self._db, self._lease, self._listener, row)

    def services(self, commits: Commits | None = None) -> Sequence[Service]:
        """The background work of tubes that ``trunkline up`` runs."""
        return [
            TubeSequencer(self._db, commits),
            Backfiller(self._db),
            TubeRunner(self._db, self._lease, self._listener),
        ]

    def _downstream(self, given: Any) -> Downstream:
        if isinstance(given, Downstream):
            return given
        if isinstance(given, tuple) and len(given) == 2:
            kind, options = given
            return make(kind, options, dsn=self._db.dsn)
        if callable(given):
            return CallableDownstream(given)
        raise Invalid(
            "a downstream is a Downstream, an async function, or (kind, options),"
            f" got {given!r:.100}."
        )

    def _enricher(self, given: Any, replica: AsyncDb | None) -> Enricher:
        if given is None:
            return RowEnricher(self._db, replica=replica)
        if isinstance(given, str):
            return QueryEnricher(self._db, given, replica=replica)
        if not callable(given):
            raise Invalid(f"enrich is a query or an async function, got {given!r:.100}.")
        return FunctionEnricher(given)


class SyncTubes(SyncFace):
    """The blocking twin of `Tubes`, without workers."""

    def __init__(self, db: Db):
        self._db = db

    ensure = blocking(calls.ensure)
    drop = blocking(calls.drop)
    attach = blocking(calls.attach)
    detach = blocking(calls.detach)
    list = blocking(calls.list_tubes)
    stats = blocking(calls.stats)
    touch = blocking(calls.touch)
    insert = blocking(calls.insert)
    tick = blocking(calls.tick)
    parked = blocking(calls.parked)
    unpark = blocking(calls.unpark)
    backfill_schedule = blocking(backfill_calls.schedule)
    backfill_step = blocking(backfill_calls.step)
    backfill_status = blocking(backfill_calls.status)
    backfill_pause = blocking(backfill_calls.pause)
    backfill_cancel = blocking(backfill_calls.cancel)
    downstream = blocking(calls.downstream)
    downstreams = blocking(calls.downstreams)
