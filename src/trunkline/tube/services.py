"""Background services of tubes: numbering, backfills, and running what `tube_downstream` names."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trunkline.core import telemetry
from trunkline.core.errors import Invalid, TrunklineError
from trunkline.core.quiet import Quiet
from trunkline.core.service import Service
from trunkline.tube import calls
from trunkline.tube.downstreams import check, make
from trunkline.tube.enrichment import QueryEnricher, RowEnricher
from trunkline.tube.pace import Pace
from trunkline.tube.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trunkline.core.db import AsyncDb
    from trunkline.core.lease import ProcessLease
    from trunkline.core.listen import Listener
    from trunkline.tube.models import DownstreamRow

logger = telemetry.get_logger(__name__)

_PACE_OPTIONS = frozenset(Pace.__dataclass_fields__)


class TubeSequencer(Service):
    """Numbers what was committed. Any number may run; one works at a time."""

    name = "tube-sequencer"
    interval = 0.05

    def __init__(self, db: AsyncDb):
        self._db = db
        self._quiet = Quiet(db)

    async def run_once(self) -> int:
        return await self._quiet.unless_still(lambda: self._db.run(calls.tick()))


class Backfiller(Service):
    """Does the next chunk of every backfill that is under way."""

    name = "tube-backfiller"
    interval = 1.0

    def __init__(self, db: AsyncDb):
        self._db = db

    async def run_once(self) -> int:
        more = 0
        for backfill in await self._db.run(calls.backfill_status()):
            if backfill.status in {"running", "finishing"}:
                more += await self._db.run(calls.backfill_step(backfill.backfill))
        return more


@dataclass(slots=True, eq=False)
class Running:
    """A worker that the runner started, and what for."""

    row: DownstreamRow
    stop: asyncio.Event
    task: asyncio.Task[None]


class TubeRunner(Service):
    """Keeps one worker per tube that has a downstream; notices new and changed ones."""

    name = "tube-runner"
    interval = 2.0

    def __init__(self, db: AsyncDb, lease: ProcessLease, listener: Listener):
        self._db = db
        self._lease = lease
        self._listener = listener
        self._running: dict[str, Running] = {}
        self._refused: dict[str, DownstreamRow] = {}

    async def run_once(self) -> int:
        wanted = {row.tube: row for row in await self._db.run(calls.downstreams())}
        changed = 0
        for tube, running in list(self._running.items()):
            if wanted.get(tube) != running.row or running.task.done():
                await self._stop(tube)
                changed += 1
        for tube, row in wanted.items():
            if tube not in self._running and self._refused.get(tube) != row:
                changed += self._start(row)
        return changed

    async def close(self) -> None:
        for tube in list(self._running):
            await self._stop(tube)

    def _start(self, row: DownstreamRow) -> int:
        try:
            worker = worker_for(self._db, self._lease, self._listener, row)
        except TrunklineError as error:  # said once; looked at again when it is changed
            self._refused[row.tube] = row
            logger.warning("tube not started", tube=row.tube, error=str(error))
            return 0
        stop = asyncio.Event()
        task = asyncio.create_task(worker.run(stop), name=f"tube {row.tube}")
        self._running[row.tube] = Running(row, stop, task)
        logger.info("tube started", tube=row.tube, downstream=row.kind)
        return 1

    async def _stop(self, tube: str) -> None:
        running = self._running.pop(tube)
        running.stop.set()
        await asyncio.wait({running.task}, timeout=60)
        if running.task.done() and not running.task.cancelled():
            error = running.task.exception()
            if error is not None:
                logger.error("tube failed", tube=tube, error=telemetry.redact(str(error)))


def worker_for(db: AsyncDb, lease: ProcessLease, listener: Listener, row: DownstreamRow) -> Worker:
    """A worker as the options of a downstream describe it.

    Options that begin with ``worker.`` set the `Pace`; ``enrich`` is a query by keys; all others
    belong to the downstream itself.
    """
    options, query, pace = _sorted(row.options)
    return Worker(
        db,
        lease,
        listener,
        tube=row.tube,
        downstream=make(row.kind, options, dsn=db.dsn),
        enricher=RowEnricher(db) if query is None else QueryEnricher(db, query),
        pace=Pace(**pace),
    )


def check_options(kind: str, options: Mapping[str, Any]) -> None:
    """Refuse options of which `worker_for` would not know what to do."""
    check(kind, _sorted(options)[0])


def _sorted(given: Mapping[str, Any]) -> tuple[dict[str, Any], str | None, dict[str, Any]]:
    """Options of the downstream, the query, the pace."""
    options = dict(given)
    query = options.pop("enrich", None)
    pace: dict[str, Any] = {}
    for name in [name for name in options if name.startswith("worker.")]:
        setting = name.removeprefix("worker.")
        if setting not in _PACE_OPTIONS:
            known = ", ".join(sorted(_PACE_OPTIONS))
            raise Invalid(f'there is no worker option "{setting}".', hint=f"Known: {known}.")
        pace[setting] = options.pop(name)
    return options, query, pace
