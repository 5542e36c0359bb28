"""`Puller`: brings what changed in another instance to this one, and keeps the two equal.

It copies everything once, then follows the other's changes by position. Each part is committed
together with how far it goes, under an epoch, so that any number of processes may try and one
works. What it passes on is text: Python does not look at keys.

Lives: a copy that was restored, failed over or forgotten begins a new life, copies everything again
and learns which of its keys were deleted meanwhile (`kv_make_whole`). When the *other* begins a new
life, what it numbered since it began is read again; until it is whole, the state notes as ``sure``
up to where we had everything of the life before: it may ask. Each greeting compares what both know
of each other, so that a server whose files were replaced by older ones begins a new life before
anything is read from it or applied to it. See docs/explanation/converging.md.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from trunkline.core import telemetry
from trunkline.core.db import AsyncDb
from trunkline.core.errors import (
    Conflict,
    DatabaseError,
    LeaseLost,
    PositionTrimmed,
    TrunklineError,
)
from trunkline.core.listen import Listener, Waker
from trunkline.core.service import Probe, Service
from trunkline.kv import pull_calls as calls

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trunkline.core.calls import Call
    from trunkline.core.lease import ProcessLease
    from trunkline.kv.models import Digest, Hello, KvPeer, Pulled

T = TypeVar("T")
logger = telemetry.get_logger(__name__)

_MOST = 2_000  # keys or changes at a time; fewer after the server said that it is too much
_CONNECT_WITHIN = 3.0  # seconds
_ROUNDS = 50  # in one run
_GREET_EVERY = 60.0  # seconds between greetings of a peer
_COMPARE_EVERY = 3600.0  # seconds
_KEYS_PER_PART = 1_000
_TOO_MUCH = {"57014", "53200", "54000", "54001"}  # time, memory, a limit, the stack


@dataclass(slots=True, eq=False)
class Place:
    """Where a puller is: as the database knows it, and what of it is in force."""

    epoch: int
    life: int
    read_at: int
    up_to: int
    state: dict[str, Any]
    waiting: bool = False  # keys that are stored here wait for a lock


class Puller(Service):
    """Pulls from one instance. Any number may run; one works at a time."""

    interval = 1.0

    def __init__(self, db: AsyncDb, lease: ProcessLease, here: str, peer: KvPeer):
        self.name = f"kv-puller {peer.instance}"
        self.peer = peer
        self.level: Probe[int] = Probe()
        self._db = db
        self._lease = lease
        self._here = here
        self._remote = AsyncDb(
            peer.dsn or "", pool_max=2, patience=0, connect_timeout=_CONNECT_WITHIN
        )
        self._listener = Listener(self._remote.connect)
        self._waker = Waker(self._listener, "kv:", self.wake)
        self._watch = ExitStack()
        self._watch.enter_context(lease.departures(self.wake.set))
        self._place: Place | None = None
        self._most = _MOST
        self._greeted_at = float("-inf")
        self._confirmed = -1
        self._confirmed_at = float("-inf")
        self._compared_at = time.monotonic()

    async def run_once(self) -> int:
        try:
            done = await self._run()
        except LeaseLost:  # others do it, or we were away for too long
            self._place = None
            await self._lease.renew()
            return 0
        except TrunklineError as error:
            self._place = None
            await self._db.run(calls.heard(self.peer.instance, error=telemetry.redact(str(error))))
            raise
        self._waker.start()
        return done

    async def close(self) -> None:
        self._watch.close()
        await self._waker.close()
        await self._listener.close()
        await self._remote.close()

    async def compare(self) -> int:
        """Compare both copies and take what the other has and this one lacks; how many keys."""
        place = self._place or await self._begin()
        if place is None:
            return 0
        self._compared_at = time.monotonic()
        mine = {part.bucket: part for part in await self._db.run(calls.digest(1))}
        parts = max(256, sum(part.keys for part in mine.values()) // _KEYS_PER_PART)
        mine = {part.bucket: part for part in await self._db.run(calls.digest(parts))}
        theirs = await self._remote.run(calls.digest(parts))
        mended = 0
        for chosen in _grouped(part for part in theirs if mine.get(part.bucket) != part):
            told = await self._remote.run(calls.bucket(self._here, place.life, parts, chosen))
            mended += await self._apply(place, place.up_to, place.state, told)
        return mended

    async def _run(self) -> int:
        place = self._place or await self._begin()
        if place is None:
            return 0
        done = 0
        for _ in range(_ROUNDS):
            try:
                moved = await self._step(place)
            except DatabaseError as error:
                if error.sqlstate not in _TOO_MUCH or self._most == 1:
                    raise
                self._most = max(1, self._most // 4)
                continue
            done += moved
            if not moved or self._place is not place:
                break
            self._most = min(_MOST, self._most * 2)
        if place.waiting:
            await self._db.run(calls.release())
        if not done and time.monotonic() - self._compared_at > _COMPARE_EVERY:
            mended = await self.compare()
            logger.info("kv copies compared", instance=self.peer.instance, mended=mended)
        return done

    async def _begin(self) -> Place | None:
        """Own the work and find where it was left; None when another process does it."""
        process = await self._lease.hold()
        epoch = await self._db.run(calls.take(f"kv:from:{self.peer.instance}", process))
        if epoch is None:
            return None
        hello, mine = await self._greet()
        if hello.origin == mine.life:
            await self._tell_apart(mine.life)
            return None
        state = {**mine.state, "start": mine.start} if mine.state else {}
        place = Place(epoch, mine.life, mine.clock, mine.up_to or 0, state)
        if place.state.get("life") != mine.life:
            await self._begin_copy(place, hello, mine.start)
        elif place.state["origin"] != hello.origin:
            if place.state["copied"]:
                self._follow_life(place, hello)
            else:
                await self._begin_copy(place, hello, mine.start)
        elif hello.whole:
            place.state.pop("sure", None)
        self._place = place
        return place

    async def _tell_apart(self, life: int) -> None:
        """One of two copies with one origin (of one data directory) begins anew: which is fixed."""
        logger.warning("kv copies have one origin, one starts again", instance=self.peer.instance)
        if self._here > self.peer.instance:
            await self._db.run(calls.begin_anew(life))

    async def _greet(self, *, is_level: bool = False) -> tuple[Hello, Pulled]:
        """Hear what the other says of itself, and by how much the clock here is ahead of its."""
        before = await self._db.run(calls.pulled(self.peer.instance))
        hello = await self._remote.run(calls.hello(self._here, before.word or {}))
        mine = await self._db.run(calls.pulled(self.peer.instance))
        skew = timedelta(microseconds=(before.clock + mine.clock) // 2 - hello.clock)
        await self._db.run(
            calls.heard(
                self.peer.instance,
                origin=hello.origin,
                head=hello.head,
                is_level=is_level,
                skew=skew,
            )
        )
        if await self._db.run(calls.witness(self.peer.instance, hello.word_back or {})):
            logger.warning("kv server went back: a new life begins", instance=self.peer.instance)
            mine = await self._db.run(calls.pulled(self.peer.instance))
        self._greeted_at = time.monotonic()
        return hello, mine

    def _follow_life(self, place: Place, hello: Hello) -> None:
        """Go on with a new life of the other: what it numbered since it began is new."""
        sure = place.state.get("sure", place.up_to)
        place.up_to = min(place.up_to, hello.began_after)
        place.state = {**place.state, "origin": hello.origin, "sure": sure}
        if hello.whole:
            del place.state["sure"]

    async def _begin_copy(self, place: Place, hello: Hello, start: str | None) -> None:
        place.up_to = await self._remote.run(calls.copy_begin(self._here, place.life))
        place.state = {
            "origin": hello.origin,
            "life": place.life,
            "start": start,
            "copied": False,
            "after": ["", ""],
            "seen": hello.pulled if hello.whole else None,
        }
        if not hello.whole:
            place.state["sure"] = None

    async def _step(self, place: Place) -> int:
        """Bring the next part; how much there was."""
        if not place.state["copied"]:
            return await self._copy(place)
        return await self._follow(place)

    async def _copy(self, place: Place) -> int:
        namespace, key = place.state["after"]
        part = await self._read(
            place,
            calls.copy(
                self._here,
                place.life,
                (namespace, key),
                scope=self.peer.scope,
                max_keys=self._most,
            ),
        )
        if part is None:
            return 1
        state = {**place.state, "after": [part.last_namespace, part.last_key]}
        if part.last_namespace is None:
            state = {**place.state, "copied": True, "after": None}
            logger.info("kv copied", instance=self.peer.instance)
        await self._apply(place, place.up_to, state, part.states)
        return 1

    async def _follow(self, place: Place) -> int:
        changes = await self._read(
            place,
            calls.export(
                self._here,
                place.life,
                place.up_to,
                scope=self.peer.scope,
                max_changes=self._most,
            ),
        )
        if changes is None:
            return 1
        if changes.life != place.state["origin"]:  # it was restored, or failed over
            self._place = None
            return 0
        moved = changes.up_to - place.up_to
        if moved:
            await self._apply(place, changes.up_to, place.state, changes.states)
        await self._tell(place, changes.head, moved)
        return moved

    async def _read(self, place: Place, call: Call[T]) -> T | None:
        """Read from the other; None when the place has to be found again."""
        try:
            return await self._remote.run(call)
        except PositionTrimmed:
            await self._left_behind(place)
        except Conflict:  # its server has started since: greet it first
            self._place = None
        return None

    async def _left_behind(self, place: Place) -> None:
        """What follows has left: copy anew, in a new life if it was we who were forgotten."""
        self._place = None
        hello, mine = await self._greet()
        noted = mine.state or {}
        if place.state["origin"] != hello.origin or place.life != mine.life:  # look again
            return
        if noted.get("origin") == hello.origin and self.peer.scope == "all":
            logger.warning("kv forgotten by a peer, starts again", instance=self.peer.instance)
            await self._db.run(calls.begin_anew(place.life))
            return
        sure = place.state.get("sure")
        await self._begin_copy(place, hello, mine.start)
        if not hello.whole:
            place.state["sure"] = sure
        await self._apply(place, place.up_to, place.state, "[]")

    async def _apply(self, place: Place, up_to: int, state: dict[str, Any], states: str) -> int:
        try:
            done = await self._db.run(
                calls.apply(
                    self.peer.instance, place.epoch, up_to, state, states, read_at=place.read_at
                )
            )
        except Conflict:  # it took too long: what was read may not be true any more
            self._place = None
            raise
        place.read_at, place.up_to, place.state = done.clock, up_to, state
        place.waiting = place.waiting or done.waiting > 0
        if done.held:
            logger.warning(
                "kv keys from a clock too far ahead are held back",
                instance=self.peer.instance,
                keys=done.held,
            )
        return done.applied

    async def _tell(self, place: Place, head: int, moved: int) -> None:
        """Say how far we are: here, and to the other one, which may then forget."""
        is_level = place.up_to >= head
        now = time.monotonic()
        if now - self._greeted_at > _GREET_EVERY:
            await self._greet(is_level=is_level)
            self._place = None  # begin again: the other may be whole by now, or another life
        elif moved:
            await self._db.run(
                calls.heard(
                    self.peer.instance,
                    origin=place.state["origin"],
                    head=head,
                    is_level=is_level,
                )
            )
        else:
            mine = await self._db.run(calls.pulled(self.peer.instance))
            place.read_at, place.waiting = mine.clock, mine.waiting > 0
            if mine.life != place.life:  # another peer has forgotten us
                self._place = None
                return
        if is_level:
            late = now - self._confirmed_at > _GREET_EVERY
            if place.up_to != self._confirmed or late:
                await self._remote.run(calls.confirm(self._here, place.life, place.up_to))
                self._confirmed, self._confirmed_at = place.up_to, now
            self.level.send(place.up_to)


def _grouped(parts: Iterable[Digest]) -> Iterator[list[int]]:
    """Numbers of parts that are asked for together: about as many keys as are told at a time."""
    chosen: list[int] = []
    keys = 0
    for part in parts:
        chosen.append(part.bucket)
        keys += part.keys
        if keys >= _MOST:
            yield chosen
            chosen, keys = [], 0
    if chosen:
        yield chosen
