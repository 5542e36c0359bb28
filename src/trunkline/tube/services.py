"""Background services of tubes: numbering, backfills, and running what `tube_downstream` names."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trunkline.core import telemetry
from trunkline.core.acting import RoleDb
from trunkline.core.errors import Forbidden, Invalid, TrunklineError, Unavailable
from trunkline.core.quiet import Quiet
from trunkline.core.service import Service
from trunkline.core.settings import Settings
from trunkline.tube import backfill_calls, calls
from trunkline.tube.downstreams import check, stored
from trunkline.tube.enrichment import RowEnricher, StoredQueryEnricher
from trunkline.tube.pace import Pace
from trunkline.tube.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trunkline.core.db import AsyncDb
    from trunkline.core.lease import ProcessLease
    from trunkline.core.listen import Listener
    from trunkline.core.quiet import Commits
    from trunkline.tube.models import DownstreamRow

logger = telemetry.get_logger(__name__)

_FAILED_REST = 10.0  # seconds until a backfill or a tube that failed is tried again
_FORBIDDEN_REST = 60.0  # seconds until it is tried again whether a role is granted by now
_STOP_WITHIN = 60.0  # seconds for batches under way when the service ends
_PACE_OPTIONS = frozenset(Pace.__dataclass_fields__)


class TubeSequencer(Service):
    """Numbers what was committed. Any number may run; one works at a time."""

    name = "tube-sequencer"
    interval = 0.05

    def __init__(self, db: AsyncDb, commits: Commits | None = None):
        self._db = db
        self._quiet = Quiet(db, commits=commits, within=self.interval, wake=self.wake.set)

    async def run_once(self) -> int:
        return await self._quiet.unless_still(lambda: self._db.run(calls.tick()))


class Backfiller(Service):
    """Does the next chunk of every backfill that is under way."""

    name = "tube-backfiller"
    interval = 1.0

    def __init__(self, db: AsyncDb):
        self._db = db
        self._rests_until: dict[int, float] = {}

    async def run_once(self) -> int:
        more = 0
        for backfill in await self._db.run(backfill_calls.status()):
            number = backfill.backfill
            if backfill.status not in {"running", "finishing"}:
                continue
            if time.monotonic() < self._rests_until.get(number, 0.0):
                continue
            try:
                more += await self._db.run(backfill_calls.step(number))
            except Unavailable:
                raise
            except TrunklineError as error:  # its table or order: that of the others is sound
                self._rests_until[number] = time.monotonic() + _rest(error)
                logger.warning(
                    "backfill failed", tube=backfill.tube, backfill=number, error=str(error)
                )
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
        self._ending: dict[str, asyncio.Task[None]] = {}
        self._refused: dict[str, DownstreamRow] = {}
        self._rests: dict[str, tuple[DownstreamRow, float]] = {}

    async def run_once(self) -> int:
        wanted = {row.tube: row for row in await self._db.run(calls.downstreams())}
        ended = [
            tube
            for tube, running in self._running.items()
            if wanted.get(tube) != running.row or running.task.done()
        ]
        for tube in ended:
            self._end(tube)
        changed = len(ended)
        for tube, row in wanted.items():
            if tube in self._running or tube in self._ending:  # which would take its lanes along
                continue
            if self._refused.get(tube) != row and not self._resting(row):
                changed += self._start(row)
        return changed

    async def close(self) -> None:
        for tube in list(self._running):
            self._end(tube)
        if self._ending:
            await asyncio.wait(self._ending.values(), timeout=_STOP_WITHIN)

    def _resting(self, row: DownstreamRow) -> bool:
        """Whether it failed just now, and nobody has changed it since."""
        failed, until = self._rests.get(row.tube, (None, 0.0))
        return failed == row and time.monotonic() < until

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

    def _end(self, tube: str) -> None:
        """Stop working a tube; nobody waits for it."""
        running = self._running.pop(tube)
        running.stop.set()
        self._ending[tube] = asyncio.create_task(self._ended(running), name=f"end tube {tube}")

    async def _ended(self, running: Running) -> None:
        tube = running.row.tube
        try:
            await asyncio.wait({running.task})
            if not running.task.cancelled() and (error := running.task.exception()):
                rest = _rest(error)
                self._rests[tube] = running.row, time.monotonic() + rest
                logger.error(
                    "tube failed", tube=tube, error=telemetry.redact(str(error)), retry_after=rest
                )
        finally:
            del self._ending[tube]
            self.wake.set()  # it may be wanted with another downstream


def _rest(error: BaseException) -> float:
    return _FORBIDDEN_REST if isinstance(error, Forbidden) else _FAILED_REST


def worker_for(db: AsyncDb, lease: ProcessLease, listener: Listener, row: DownstreamRow) -> Worker:
    """A worker as the options of a downstream describe it.

    Options that begin with ``worker.`` set the `Pace`; ``enrich`` is a query by keys; all others
    belong to the downstream itself. Rows are read, and documents written, as the role that set it.
    """
    if row.role is None:
        raise Forbidden(
            f'the downstream of tube "{row.tube}" was set before roles were recorded.',
            hint="Set it again: it then runs as the role that does so.",
        )
    if row.options is None:
        raise Forbidden(
            f'the downstream of tube "{row.tube}" is for roles that manage the tube.',
            hint=f'Have a DBA run: grant "{row.role}" to the role of this worker.',
        )
    options, query, pace = _sorted(row.options)
    acting = RoleDb(db, row.role, what=f'the downstream of tube "{row.tube}"')
    return Worker(
        db,
        lease,
        listener,
        tube=row.tube,
        downstream=stored(
            row.kind, options, dsn=db.dsn, author=row.role, callables=Settings.load().callables
        ),
        enricher=RowEnricher(acting) if query is None else StoredQueryEnricher(acting, query),
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
