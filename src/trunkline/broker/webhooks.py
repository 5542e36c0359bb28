"""`BrokerWebhooks`: the service that sends webhooks.

Each webhook is a handler of its group, and a `HandlerWorker` brings it its events: with lanes,
retries and dead letters like those of any other handler. So any number of processes may send, each
lane belongs to one of them, and an endpoint that fails or hangs holds back nobody else.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from trunkline.broker import webhook_calls as calls
from trunkline.broker.circuit import Circuit
from trunkline.broker.endpoints import handler_of
from trunkline.broker.handler_calls import commit_together, fetch_together
from trunkline.broker.worker import HandlerWorker
from trunkline.core import telemetry
from trunkline.core.errors import NotFound, TrunklineError, Unavailable
from trunkline.core.extras import needed_for
from trunkline.core.gathering import GatheringDb
from trunkline.core.service import Probe, Service

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from uuid import UUID

    import httpcore

    from trunkline.broker.addresses import Resolve
    from trunkline.broker.endpoints import Endpoint, Rules
    from trunkline.broker.lane import Lane
    from trunkline.broker.resolver import Resolver
    from trunkline.broker.webhook_sender import Sent, WebhookSender
    from trunkline.core.db import AsyncDb
    from trunkline.core.lease import ProcessLease
    from trunkline.core.listen import Listener

logger = telemetry.get_logger(__name__)

_READ_AHEAD = 4  # batches of a lane
_MOST_AHEAD = 50_000  # events that one lane of each may hold together
_CONNECTIONS = 4
_LONGEST_PAUSE = 0.1  # seconds that what a webhook asks waits for what others ask
_FEW = 20  # webhooks, which need not spare the database
_STOP_WITHIN = 5.0  # seconds for requests under way when the service ends
_LOG_EVERY = 0.1  # seconds
_MOST_ENTRIES = 10_000  # that wait for the log; more are not noted


class WebhookWorker(HandlerWorker):
    """Works for one webhook, as fast as its circuit lets it."""

    def __init__(
        self,
        db: AsyncDb,
        lease: ProcessLease,
        listener: Listener,
        sender: WebhookSender,
        circuit: Circuit,
    ):
        from trunkline.broker import webhook_messages

        handler = handler_of(
            sender.endpoint,
            sender.post,
            parts=lambda events: webhook_messages.parts(events, sender.rules.body_bytes),
        )
        super().__init__(db, lease, listener, handler, member="webhooks", read_ahead=_READ_AHEAD)
        self.circuit = circuit
        self._sender = sender
        self._registered_once = False
        self._spread = random.uniform(0.5, 1.5)  # noqa: S311 - or all would look at the same time

    def share(self, workers: int) -> None:
        """One of so many: the more there are, the more each does at once, and the less often.

        With a thousand endpoints each is woken once a second at most, and the less each reads
        ahead, so that what waits here is no more than for a few of them.
        """
        self.pace = workers / 1_000 if workers > _FEW else 0.0
        self.look_every = max(HandlerWorker.look_every, self._spread * workers / 25)
        self.rejoin_every = max(HandlerWorker.rejoin_every, self._spread * workers / 20)
        batch = self.handler.batch
        self.reading.room = max(batch, min(_READ_AHEAD * batch, _MOST_AHEAD // workers))

    async def register(self) -> int:
        """Nothing: that was done when the webhook was added, and one that was removed stays so."""
        if self._registered_once:
            raise Unavailable(f"webhook {self._sender.endpoint.webhook} was removed.")
        self._registered_once = True
        return self._sender.endpoint.group_id

    async def _register_anew(self) -> None:
        """Nothing: a standby that has not heard of the webhook has none."""

    async def _finish(self, process: UUID) -> None:
        # who waits to be let through looks again once it is known that we stop
        asyncio.get_running_loop().call_soon(self.circuit.look_again)
        await super()._finish(process)

    def admission(self, lane: Lane) -> AbstractAsyncContextManager[bool]:
        """Not while the endpoint is to be left alone."""
        return self.circuit.admitted(lambda: self.is_stopping or lane.ends)


class _Running:
    """A webhook at work."""

    def __init__(self, worker: WebhookWorker, sender: WebhookSender):
        self.worker = worker
        self.sender = sender
        self._stop = asyncio.Event()
        self.task = asyncio.create_task(worker.run(self._stop), name=worker.handler.name)

    def is_other_than(self, endpoint: Endpoint | None) -> bool:
        """Whether it was removed; its number may be given again by a standby that lacked it."""
        return endpoint is None or endpoint.identity != self.sender.endpoint.identity

    def stop(self) -> None:
        """Begin nothing more."""
        self._stop.set()

    async def ended(self) -> None:
        """Wait until it has stopped, and let go of its connections."""
        try:
            await asyncio.wait({self.task})
            if not self.task.cancelled() and (error := self.task.exception()):
                logger.warning(
                    "webhook stopped",
                    webhook=self.sender.endpoint.webhook,
                    error=telemetry.redact(f"{type(error).__name__}: {error}"),
                )
        finally:
            await self.sender.close()


class BrokerWebhooks(Service):
    """Sends webhooks. Any number may run; each lane of a webhook has one of them."""

    name = "broker-webhooks"
    interval = 5.0

    def __init__(
        self,
        db: AsyncDb,
        lease: ProcessLease,
        listener: Listener,
        *,
        resolve: Resolve | None = None,
        backend: httpcore.AsyncNetworkBackend | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ):
        self._db = GatheringDb(
            db,
            _CONNECTIONS,
            {
                "broker_fetch": fetch_together,
                "broker_commit": commit_together,
                "_broker_cut": commit_together,
            },
        )
        self._lease = lease
        self._listener = listener
        self._resolve = resolve
        self._own_resolver: Resolver | None = None
        self._inner = backend
        self._ssl = ssl_context
        self._guard: httpcore.AsyncNetworkBackend | None = None
        self._rules: Rules | None = None
        self._running: dict[int, _Running] = {}
        self._withdrawn: set[int] = set()
        self._ending: dict[int, asyncio.Task[None]] = {}
        self._entries: list[Sent] = []
        self._helpers: list[asyncio.Task[None]] = []
        self.sent: Probe[Sent] = Probe()

    async def run_once(self) -> int:
        """Start and stop what was added, paused and removed since."""
        if not self._helpers:
            self._helpers = [
                asyncio.create_task(self._listen(), name="webhooks listen"),
                asyncio.create_task(self._write_log(), name="webhooks log"),
            ]
        withdrawn = frozenset(self._withdrawn)
        rules = await self._db.run(calls.rules())
        found = {endpoint.webhook: endpoint for endpoint in await self._db.run(calls.endpoints())}
        if self._rules is not None and self._rules.reach != rules.reach:
            self._guard = None
            self._end(list(self._running))  # connections that are open were checked by other rules
        self._rules = rules
        self._end(
            [
                webhook
                for webhook, running in self._running.items()
                if running.is_other_than(found.get(webhook))
                or webhook in withdrawn
                or running.task.done()
            ]
        )
        self._withdrawn -= withdrawn
        for webhook, endpoint in found.items():
            if running := self._running.get(webhook):
                running.sender.endpoint = endpoint
                running.sender.rules = rules
                running.worker.circuit.most_failures = rules.failures
            elif webhook not in self._ending:  # which would take its lanes along
                self._running[webhook] = self._start(endpoint, rules)
        for running in self._running.values():
            running.worker.share(len(self._running))
        self._db.pause = min(_LONGEST_PAUSE, len(self._running) / 10_000)
        return 0

    async def close(self) -> None:
        """Let requests under way end, for a while; what is cut short is sent again by others."""
        for helper in self._helpers:
            helper.cancel()
        senders = [running.sender for running in self._running.values()]
        self._end(list(self._running))
        if self._ending:
            await asyncio.wait(self._ending.values(), timeout=_STOP_WITHIN)
        for sender in senders:
            sender.cut_short()
        if self._ending:
            await asyncio.wait(self._ending.values(), timeout=_STOP_WITHIN)
        with suppress(TrunklineError, OSError):
            await self._flush()
        if self._own_resolver is not None:
            self._own_resolver.close()

    def _start(self, endpoint: Endpoint, rules: Rules) -> _Running:
        circuit = Circuit(failures=rules.failures, concurrency=endpoint.concurrency)
        sender = self._sender(endpoint, rules, circuit)
        return _Running(
            WebhookWorker(self._db, self._lease, self._listener, sender, circuit), sender
        )

    def _sender(self, endpoint: Endpoint, rules: Rules, circuit: Circuit) -> WebhookSender:
        with needed_for("sending webhooks", "webhooks"):
            from trunkline.broker.addresses import GuardedBackend
            from trunkline.broker.resolver import Resolver
            from trunkline.broker.webhook_sender import WebhookSender
        if self._resolve is None:
            self._resolve = self._own_resolver = Resolver()
        if self._ssl is None:
            self._ssl = ssl.create_default_context()
        if self._guard is None:
            self._guard = GuardedBackend(self._resolve, inner=self._inner, **rules.reach)
        return WebhookSender(
            endpoint,
            rules,
            circuit,
            backend=self._guard,
            ssl_context=self._ssl,
            tell=self._note,
            gone=self._gone,
        )

    def _end(self, webhooks: list[int]) -> None:
        """Stop working for webhooks; nobody waits for it."""
        for webhook in webhooks:
            running = self._running.pop(webhook)
            running.stop()
            self._ending[webhook] = asyncio.create_task(
                self._ended(running), name=f"end webhook {webhook}"
            )

    async def _ended(self, running: _Running) -> None:
        try:
            await running.ended()
        finally:
            del self._ending[running.sender.endpoint.webhook]
            self.wake.set()  # it may have been wanted again meanwhile

    async def _gone(self, endpoint: Endpoint, error: str) -> None:
        """The endpoint does not want any more: it is paused until somebody resumes it.

        Its circuit is shut for good, so it begins anew even if it was resumed before we look.
        """
        logger.warning("webhook paused", webhook=endpoint.webhook, error=error)
        try:
            with suppress(NotFound):
                await self._db.run(calls.pause(endpoint.webhook, error))
        finally:
            self._withdrawn.add(endpoint.webhook)
            self.wake.set()

    async def _listen(self) -> None:
        async with self._listener.subscribe("broker:webhooks") as heard:
            while True:
                if await heard.wait(60):
                    self.wake.set()

    def _note(self, sent: Sent) -> None:
        if len(self._entries) < _MOST_ENTRIES:
            self._entries.append(sent)
        self.sent.send(sent)

    async def _write_log(self) -> None:
        while True:
            await asyncio.sleep(_LOG_EVERY)
            try:
                await self._flush()
            except (TrunklineError, OSError) as error:
                logger.warning("webhook log not written", error=telemetry.redact(str(error)))

    async def _flush(self) -> None:
        """Write what is to be noted; what cannot be written now is kept."""
        entries: list[dict[str, Any]] = [sent.entry() for sent in self._entries]
        if not entries:
            return
        try:
            await self._db.run(calls.log_add(entries))
        except (Unavailable, OSError):
            raise
        except TrunklineError:  # one of them cannot be written, now or ever
            for entry in entries:
                await self._write_entry(entry)
        del self._entries[: len(entries)]

    async def _write_entry(self, entry: dict[str, Any]) -> None:
        try:
            await self._db.run(calls.log_add([entry]))
        except (Unavailable, OSError):
            raise
        except TrunklineError as error:
            reason = telemetry.redact(str(error))
            logger.warning("webhook log misses an entry", webhook=entry["webhook"], error=reason)
