"""Background work: a `Service` does a little, a `Loop` repeats it, a `Supervisor` runs all.

A service never loops, sleeps or catches by itself; tests call `run_once`. A loop goes on at once
(or after the pause that a service asks for) while there is work, waits longer and longer (up to the
service's interval) while there is none, and outlives whatever a service raises. To stop, a run that
is under way is finished first, within the supervisor's grace.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from trunkline.core import telemetry
from trunkline.core.backoff import Backoff
from trunkline.core.errors import TrunklineError
from trunkline.core.waiting import set_within

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from types import FrameType

T = TypeVar("T")

_CANCEL_PATIENCE = 5.0  # seconds for what was cancelled to let go of its connection

logger = telemetry.get_logger(__name__)


class Probe(Generic[T]):
    """A place in the code that tests can wait for. Costs a call where nobody waits; keeps nothing.

    `wait` listens from the moment it is called, not from the moment it is awaited::

        claimed = worker.claimed.wait(lambda n: n > 0)
        await append(...)
        await claimed
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[asyncio.Future[T], Callable[[T], bool] | None]] = []

    def send(self, value: T) -> None:
        """Tell those who wait; from the event loop's thread."""
        if not self._waiting:
            return
        for future, predicate in tuple(self._waiting):
            if not future.done() and (predicate is None or predicate(value)):
                future.set_result(value)

    def wait(
        self, predicate: Callable[[T], bool] | None = None, *, timeout: float = 10
    ) -> asyncio.Future[T]:
        """The next value (that fulfils the predicate); `TimeoutError` when none comes."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        entry = (future, predicate)
        timer = loop.call_later(timeout, _expire, future, timeout)

        def forget(_: asyncio.Future[T]) -> None:
            timer.cancel()
            self._waiting.remove(entry)

        self._waiting.append(entry)
        future.add_done_callback(forget)
        return future


def _expire(future: asyncio.Future[Any], timeout: float) -> None:
    if not future.done():
        future.set_exception(TimeoutError(f"the probe stayed silent for {timeout} s"))


class Service(ABC):
    """A kind of background work. Subclasses give ``name`` and `run_once`."""

    name: str
    interval: float = 1.0
    """Seconds between two runs when there is nothing to do."""
    pause: float = 0.0
    """Seconds between two runs when there was something to do."""

    @abstractmethod
    async def run_once(self) -> int:
        """Do what there is to do now, in bounded time; return how much it was."""

    async def close(self) -> None:
        """Let go of what outlives a run; called once, after the last run."""

    @cached_property
    def wake(self) -> asyncio.Event:
        """Set it to have the service run now."""
        return asyncio.Event()


class Loop:
    """Runs one service again and again."""

    def __init__(
        self,
        service: Service,
        *,
        backoff: Backoff | None = None,
        metrics: telemetry.Metrics = telemetry.default,
    ):
        self.service = service
        self.runs = 0
        self.errors = 0
        self.last_error: str | None = None
        self.ran: Probe[int] = Probe()
        self._last_run: float | None = None
        self._idle_wait = 0.0
        self._backoff = backoff or Backoff(first=0.1, longest=30.0)
        self._run_counter = metrics.counter("service_runs", service=service.name)
        self._error_counter = metrics.counter("service_errors", service=service.name)

    async def run(self, stop: asyncio.Event) -> None:
        """Repeat until ``stop`` is set; a run that is under way is finished."""
        stopped = asyncio.create_task(stop.wait())
        stopped.add_done_callback(lambda _: self.service.wake.set())
        try:
            while not stop.is_set():
                wait = await self._step()
                if not wait:
                    await asyncio.sleep(0)
                elif self._backoff.attempts:
                    # Nothing wakes a failing service early, or it would fail at full speed.
                    await set_within(stop, wait)
                elif not stop.is_set():
                    await set_within(self.service.wake, wait)
        finally:
            stopped.cancel()

    async def _step(self) -> float:
        """Run once; how many seconds to wait afterwards."""
        # Cleared before the run: a wake-up that comes while we look must make us look again.
        self.service.wake.clear()
        try:
            done = await self.service.run_once()
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return self._failed(error)
        except Exception as error:  # noqa: BLE001 - one bad thing harms only itself
            return self._failed(error)
        return self._succeeded(done)

    def _succeeded(self, done: int) -> float:
        interval = self.service.interval
        self._idle_wait = 0.0 if done else min(interval, self._idle_wait * 2 or interval / 8)
        self._backoff.reset()
        self.runs += 1
        self._last_run = time.monotonic()
        self._run_counter.inc()
        self.ran.send(done)
        return self.service.pause if done else self._idle_wait

    def _failed(self, error: BaseException) -> float:
        wait = self._backoff.next()
        self.errors += 1
        self.last_error = telemetry.redact(f"{type(error).__name__}: {error}")
        self._error_counter.inc()
        logger.error(
            "service failed",
            service=self.service.name,
            failures=self._backoff.attempts,
            retry_after=round(wait, 3),
            error=self.last_error,
            exc_info=None if isinstance(error, TrunklineError) else error,
        )
        return wait

    def health(self) -> dict[str, Any]:
        """Runs, errors, the last error, and seconds since the last run that went well."""
        age = None if self._last_run is None else time.monotonic() - self._last_run
        return {
            "runs": self.runs,
            "errors": self.errors,
            "last_error": self.last_error,
            "last_run_age": age,
        }


async def _first_of(timeout: float, *awaitables: Awaitable[Any]) -> None:
    """Wait until one of them is done or the time has passed."""
    futures = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
    try:
        await asyncio.wait(futures, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for future in futures:
            future.cancel()


class Supervisor:
    """Runs services until it is told to stop: by `stop`, by an event, by SIGTERM or SIGINT.

    The first signal lets the runs under way finish, for ``grace`` seconds; the second cuts them
    short, and from then on signals do what they did before. A handler that the program has for
    them, as a web server does, is called too.
    """

    def __init__(
        self,
        services: Sequence[Service],
        *,
        grace: float = 10.0,
        metrics: telemetry.Metrics = telemetry.default,
    ):
        self._loops = {service.name: Loop(service, metrics=metrics) for service in services}
        if len(self._loops) != len(services):
            raise ValueError("two services have the same name")
        self._grace = grace
        self._signals = 0
        self._handlers: dict[signal.Signals, Any] = {}
        self._started = False
        self._stopping = asyncio.Event()
        self._hurrying = asyncio.Event()
        self._finished = asyncio.Event()

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Run everything and return once it has been stopped. A supervisor runs once."""
        if self._started:
            raise RuntimeError("a supervisor runs once")
        self._started = True
        self._take_signals()
        try:
            await self._run(stop or self._stopping)
        finally:
            self._return_signals()
            self._finished.set()

    async def stop(self) -> None:
        """Stop and wait until everything has stopped; at any time, any number of times."""
        self._stopping.set()
        if self._started:
            await self._finished.wait()

    def health(self) -> dict[str, dict[str, Any]]:
        """`Loop.health` of every service, by name."""
        return {name: loop.health() for name, loop in self._loops.items()}

    def loop(self, name: str) -> Loop:
        """The loop of a service."""
        return self._loops[name]

    async def _run(self, stop: asyncio.Event) -> None:
        tasks = [
            asyncio.create_task(loop.run(self._stopping), name=name)
            for name, loop in self._loops.items()
        ]
        told = [asyncio.create_task(event.wait()) for event in {stop, self._stopping}]
        try:
            # A loop that ends untold has met something that no loop outlives.
            await asyncio.wait([*told, *tasks], return_when=asyncio.FIRST_COMPLETED)
            self._stopping.set()
            if tasks:
                await _first_of(self._grace, asyncio.wait(tasks), self._hurrying.wait())
        finally:
            for wait in told:
                wait.cancel()
            await _cut_short(tasks)
            for loop in self._loops.values():
                await _close(loop.service)
        for task in tasks:
            if task.done() and not task.cancelled():
                task.result()

    def _take_signals(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        events = asyncio.get_running_loop()

        def handle(number: int, frame: FrameType | None) -> None:
            events.call_soon_threadsafe(self._signalled, signal.Signals(number))
            before = self._handlers.get(signal.Signals(number))
            if callable(before) and not _is_of_asyncio(before):
                with suppress(SystemExit, KeyboardInterrupt):  # we end in good order
                    before(number, frame)

        # Not `loop.add_signal_handler`: what was there before could not be put back.
        for number in (signal.SIGTERM, signal.SIGINT):
            self._handlers[number] = signal.signal(number, handle)

    def _return_signals(self) -> None:
        while self._handlers:
            number, handler = self._handlers.popitem()
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _signalled(self, number: signal.Signals) -> None:
        self._signals += 1
        logger.info("stopping", signal=number.name, at_once=self._signals > 1)
        self._stopping.set()
        if self._signals > 1:
            self._hurrying.set()
            self._return_signals()


def _is_of_asyncio(handler: Any) -> bool:
    """Whether a handler of signals is that of `asyncio.run`, which would cancel us."""
    method = getattr(handler, "func", handler)
    return isinstance(getattr(method, "__self__", None), asyncio.Runner)


async def _close(service: Service) -> None:
    try:
        await service.close()
    except Exception as error:  # noqa: BLE001 - the others want to be closed too
        reason = telemetry.redact(str(error))
        logger.warning("service not closed", service=service.name, error=reason)


async def _cut_short(tasks: Sequence[asyncio.Task[None]]) -> None:
    late = [task for task in tasks if task.cancel()]
    if not late:
        return
    logger.warning("services cut short", services=[task.get_name() for task in late])
    _, stuck = await asyncio.wait(late, timeout=_CANCEL_PATIENCE)
    if stuck:
        logger.error("services do not stop", services=[task.get_name() for task in stuck])
