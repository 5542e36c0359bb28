"""Background services of the key-value store: numbering, and pulling from every other instance."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trunkline.core import telemetry
from trunkline.core.backoff import Backoff
from trunkline.core.errors import TrunklineError
from trunkline.core.listen import Waker
from trunkline.core.quiet import Quiet
from trunkline.core.service import Loop, Service
from trunkline.core.settings import normalise
from trunkline.kv import calls, parade_calls, pull_calls
from trunkline.kv.puller import Puller

if TYPE_CHECKING:
    from trunkline.core.db import AsyncDb
    from trunkline.core.lease import ProcessLease
    from trunkline.core.listen import Listener
    from trunkline.core.quiet import Commits
    from trunkline.kv.models import KvPeer

logger = telemetry.get_logger(__name__)

_TRY_AGAIN_WITHIN = 5.0  # seconds after which a peer that was away is asked again at the latest
_STOP_WITHIN = 10.0  # seconds for parts under way when the service ends


class KvSequencer(Service):
    """Numbers what was committed. Any number may run; one works at a time."""

    name = "kv-sequencer"
    interval = 0.05

    def __init__(self, db: AsyncDb, commits: Commits | None = None):
        self._db = db
        self._quiet = Quiet(db, commits=commits, within=self.interval, wake=self.wake.set)

    async def run_once(self) -> int:
        return await self._quiet.unless_still(lambda: self._db.run(calls.tick()))


@dataclass(slots=True, eq=False)
class Pulling:
    """A puller at work: from whom, and as whom."""

    peer: KvPeer
    here: str
    loop: Loop
    stop: asyncio.Event
    task: asyncio.Task[None]


class KvReplicator(Service):
    """Keeps one puller for every other instance; notices when the parade changes."""

    name = "kv-replicator"
    interval = 5.0

    def __init__(self, db: AsyncDb, lease: ProcessLease, listener: Listener):
        self._db = db
        self._lease = lease
        self._waker = Waker(listener, "kv:", self.wake, pace=0.5)
        self._pulling: dict[str, Pulling] = {}

    async def run_once(self) -> int:
        topology = await self._db.run(parade_calls.topology())
        here = next((f"{each.zone}/{each.shard}" for each in topology if each.here), None)
        if here is None:
            return await self._change({}, "")
        self._waker.start()
        wanted = {peer.instance: peer for peer in await self._db.run(parade_calls.peers())}
        changed = await self._change(wanted, here)
        await self._db.run(pull_calls.make_whole())
        return changed

    async def close(self) -> None:
        await self._waker.close()
        await self._change({}, "")

    def puller(self, instance: str) -> Loop:
        """The loop that pulls from an instance."""
        return self._pulling[instance].loop

    async def _change(self, wanted: dict[str, KvPeer], here: str) -> int:
        ended = [
            name
            for name, each in self._pulling.items()
            if wanted.get(name) != each.peer or each.here != here
        ]
        for name in ended:
            await self._end(self._pulling.pop(name))
        begun = [peer for name, peer in wanted.items() if name not in self._pulling]
        for peer in begun:
            if peer.dsn is None:
                logger.error("kv peers cannot be reached: only admins are told how")
                return 0
            try:
                self._start(peer, here)
            except TrunklineError as error:  # that of the others may be sound
                await self._db.run(pull_calls.heard(peer.instance, error=str(error)))
                logger.warning("kv cannot pull", instance=peer.instance, error=str(error))
        return len(ended) + len(begun)

    def _start(self, peer: KvPeer, here: str) -> None:
        puller = Puller(self._db, self._lease, here, replace(peer, dsn=normalise(peer.dsn or "")))
        loop = Loop(puller, backoff=Backoff(first=0.1, longest=_TRY_AGAIN_WITHIN))
        stop = asyncio.Event()
        task = asyncio.create_task(loop.run(stop), name=loop.service.name)
        self._pulling[peer.instance] = Pulling(peer, here, loop, stop, task)
        logger.info("kv pulls", instance=peer.instance, scope=peer.scope)

    async def _end(self, pulling: Pulling) -> None:
        pulling.stop.set()
        await asyncio.wait({pulling.task}, timeout=_STOP_WITHIN)
        pulling.task.cancel()
        await asyncio.wait({pulling.task})
        await pulling.loop.service.close()
