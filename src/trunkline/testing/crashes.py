"""`crash_handlers`: the handlers of an app, in processes that are killed again and again."""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from psycopg.conninfo import make_conninfo

from trunkline.core import lease
from trunkline.core.arguments import checked
from trunkline.core.errors import Invalid
from trunkline.testing.handlers import check_known
from trunkline.testing.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trunkline.app import App
    from trunkline.broker.delivered import DeadLetterDetails
    from trunkline.broker.models import HandlerLag, NewEvent, Waiting
    from trunkline.platform import Platform

    Begin = Mapping[tuple[str, str, int], int]
    """The position of each lane of each handler."""

_LATEST = 0.02  # seconds after a call began
_PAGE = 1_000
_LAST_WORDS = 800  # characters of what a process said that ended by itself
_TERMINATE = """
select count(pg_terminate_backend(pid)) from pg_catalog.pg_stat_activity where application_name = %s
"""


@dataclass(frozen=True, slots=True)
class HandlerCall:
    """One call of a handler."""

    handler: str
    events: Sequence[int]
    """The ids of its events."""
    returned: bool
    """False when the process died meanwhile."""
    error: str | None
    """What it raised."""


@dataclass(frozen=True, slots=True)
class CrashReport:
    """What became of events while the processes that handled them were killed."""

    calls: Sequence[HandlerCall]
    """Every call of a handler, in order."""
    dead: Sequence[DeadLetterDetails]
    """The dead letters of these events."""
    events: Mapping[str, Sequence[Waiting]]
    """The events that each handler was to handle, lane by lane in order."""

    def handled(self, handler: str) -> dict[int, int]:
        """How often each event was handled to the end, by its id: 1, or more after a crash."""
        counts: Counter[int] = Counter()
        for call in self._calls_of(handler):
            if call.returned and call.error is None:
                counts.update(call.events)
        return {event.event_id: counts[event.event_id] for event in self.events[handler]}

    def missed(self, handler: str) -> list[Waiting]:
        """The events that were neither handled nor became dead letters, nor wait behind one."""
        handled = self.handled(handler)
        dead = {each.event_id for each in self.dead if each.handler == handler}
        held = {each.key for each in self.dead if each.handler == handler} - {None}
        return [
            event
            for event in self.events[handler]
            if not handled[event.event_id] and event.event_id not in dead and event.key not in held
        ]

    def out_of_order(self, handler: str) -> list[Waiting]:
        """The events with which a handler was called only after later ones of their key."""
        met = [event for call in self._calls_of(handler) for event in call.events]
        first = {event: place for place, event in reversed([*enumerate(met)])}
        earliest: dict[str, int] = {}
        late = []
        for event in reversed(self.events[handler]):
            place = first.get(event.event_id)
            if event.key is None or place is None:
                continue
            if place > earliest.get(event.key, place):
                late.append(event)
            earliest[event.key] = min(place, earliest.get(event.key, place))
        return late[::-1]

    def _calls_of(self, handler: str) -> list[HandlerCall]:
        check_known(handler, self.events)
        return [call for call in self.calls if call.handler == handler]


@checked
async def crash_handlers(
    app: str,
    events: Iterable[NewEvent],
    *,
    times: int = 3,
    seed: int = 0,
    timeout: float = 60,
) -> CrashReport:
    """Publish events, and kill the process of an app ``times`` times while it handles them.

    ``app`` is ``module:name``, as for ``trunkline broker worker``. Each process is killed with
    SIGKILL at a moment that ``seed`` chooses: as a call of a handler begins, a little later, or
    when it has returned and nothing is committed. What it leaves is taken over by the next
    one at once. The last one handles all that is left. Then look at your effects::

        report = await crash_handlers("shop:app", [NewEvent("orders", {"number": 1})])
        assert report.missed("bill") == []
    """
    from trunkline.app import load

    loaded, given = load(app), list(events)
    if times < 0 or not given:
        raise Invalid(f"expected events, and how often to kill; got {len(given)} and {times}.")
    with tempfile.TemporaryDirectory() as place:
        async with asyncio.timeout(timeout), loaded.opened() as platform:
            crashes = _Crashes(app, loaded, platform, Path(place), random.Random(seed))  # noqa: S311
            return await crashes.run(given, times)


class _Crashes:
    """One run of `crash_handlers`."""

    def __init__(self, path: str, app: App, platform: Platform, place: Path, chance: random.Random):
        self._path = path
        self._app = app
        self._broker = platform.broker
        self._db = platform.db
        self._dsn = platform.dsn
        self._place = place
        self._chance = chance
        self._handlers = [(handler.group, handler.name) for handler in app.handlers]
        self._calls: list[HandlerCall] = []
        self._died_over: set[int] = set()

    async def run(self, events: list[NewEvent], times: int) -> CrashReport:
        await self._app.register()
        begin = {(lag.group_name, lag.handler, lag.lane): lag.up_to for lag in await self._lags()}
        share, more = divmod(len(events), times + 1)
        for turn in range(times + 1):
            part = share + (turn < more)
            now, events = events[:part], events[part:]
            await self._broker.publish_many(now)
            await self._live_and_die(None if turn == times else max(1, len(now)))
        found = {handler: await self._events(begin, handler) for handler in self._handlers}
        return CrashReport(
            self._calls,
            await self._dead(found),
            {name: events for (_group, name), events in found.items()},
        )

    async def _live_and_die(self, calls: int | None) -> None:
        """A process handles what there is; with ``calls`` it is killed, at one of so many."""
        from trunkline.testing.victim import MOMENTS, Plan

        name = str(uuid4())
        files = _Files(self._place / name)
        plan = Plan(
            app=self._path,
            dsn=make_conninfo(self._dsn, application_name=name),
            record=str(files.record),
            after=None if calls is None else self._chance.randint(1, calls),
            moment=self._chance.choice(MOMENTS),
            later=self._chance.uniform(0, _LATEST),
            spared=sorted(self._died_over),
        )
        plan.write(files.plan)
        with _start(files) as process:
            try:
                await eventually(lambda: self._over(process), timeout=math.inf)
                ended = process.poll()
            finally:
                process.kill()
        if ended is not None and (ended != -signal.SIGKILL or calls is None):
            raise Invalid(
                f"the process of {self._path} ended by itself, with {ended}.",
                hint=f"It said: {files.log.read_text(errors='replace')[-_LAST_WORDS:]}",
            )
        await self._end_sessions(name)
        lines = files.lines()
        for line in lines:
            if "process" not in line:
                continue
            if calls is None:  # it has left nothing undone
                await self._db.run(lease.end(UUID(line["process"])))
            else:
                await self._db.run(lease.expire(UUID(line["process"])))
        self._note(lines)

    async def _over(self, process: subprocess.Popen[bytes]) -> bool:
        return process.poll() is not None or await self._settled()

    async def _settled(self) -> bool:
        """Whether everything is handled; what waits for another try does not wait."""
        from trunkline.broker import handler_calls

        broker = self._broker
        moved = await broker.tick() + await broker.match() + await broker.catch_up()
        for handler in self._handlers:
            moved += await self._db.run(handler_calls.hasten(*handler))
        if moved or any(map(_is_busy, await self._lags())):
            return False
        return not await broker.tick()

    async def _lags(self) -> list[HandlerLag]:
        return [
            lag
            for lag in await self._broker.lag()
            if (lag.group_name, lag.handler) in self._handlers
        ]

    def _note(self, lines: list[dict[str, Any]]) -> None:
        """Remember the calls that a process has written down, and what it died over."""
        ends = {line["call"]: line for line in lines if "returned" in line}
        for line in lines:
            if "events" in line:
                end = ends.get(line["call"])
                if end is None or end is lines[-1]:
                    self._died_over.update(line["events"])
                error = None if end is None else end["error"]
                self._calls.append(
                    HandlerCall(line["handler"], line["events"], end is not None, error)
                )

    async def _end_sessions(self, name: str) -> None:
        async with self._db.connection() as connection:

            async def gone() -> bool:
                found = await connection.execute(_TERMINATE, [name])
                return await found.fetchone() == (0,)

            await eventually(gone, timeout=math.inf)

    async def _events(self, begin: Begin, handler: tuple[str, str]) -> list[Waiting]:
        """What a handler was given since the beginning, lane by lane."""
        group, name = handler
        found: list[Waiting] = []
        for (*place, lane), up_to in begin.items():
            reached = up_to
            while place == [group, name] and (
                page := await self._broker.read(
                    group,
                    handler=name,
                    lane=lane,
                    from_position=reached + 1,
                    max_events=_PAGE,
                    peek=True,
                )
            ):
                found += page
                reached = page[-1].up_to
        return found

    async def _dead(
        self, found: Mapping[tuple[str, str], Sequence[Waiting]]
    ) -> list[DeadLetterDetails]:
        known = {
            (*handler, event.event_id) for handler, events in found.items() for event in events
        }
        letters = [
            await self._broker.dead_show(letter.retry)
            for letter in reversed(await self._broker.dead_list())
            if (letter.group_name, letter.handler) in found
        ]
        return [
            letter
            for letter in letters
            if (letter.group_name, letter.handler, letter.event_id) in known
        ]


class _Files:
    """What a process and the one who starts it tell each other."""

    def __init__(self, place: Path):
        place.mkdir()
        self.plan = place / "plan"
        self.record = place / "record"
        self.log = place / "log"
        self.record.touch()

    def lines(self) -> list[dict[str, Any]]:
        """What the process has written down; it may have died within the last line."""
        whole = self.record.read_text().rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]


def _start(files: _Files) -> subprocess.Popen[bytes]:
    """A process that finds the modules that this one finds, and ends when this one has gone."""
    paths = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
    with files.log.open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "trunkline.testing.victim", str(files.plan)],
            env={**os.environ, "PYTHONPATH": paths},
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
        )


def _is_busy(lag: HandlerLag) -> bool:
    """Whether something is to come; what is parked behind a dead letter is not."""
    return bool(lag.waiting or lag.retrying or (lag.parked and not lag.dead))
