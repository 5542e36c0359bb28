"""Help for the tests of those who build on Trunkline."""

from __future__ import annotations

import asyncio
import inspect
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, overload

from trunkline.core.arguments import checked
from trunkline.core.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence

    from trunkline.app import App
    from trunkline.broker.attempts import Attempt
    from trunkline.broker.delivered import DeadLetterDetails, Delivered
    from trunkline.broker.models import NewEvent

T = TypeVar("T")

_FIRST_WAIT = 0.005  # seconds
_LONGEST_WAIT = 0.2


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the handlers of an app made of events."""

    attempts: Sequence[Attempt]
    """Every call of a handler, in order."""
    dead: Sequence[DeadLetterDetails]
    """The dead letters of the app's handlers, older ones too."""
    handlers: Collection[str]
    """The names of the app's handlers."""

    def handled(self, handler: str) -> list[Delivered]:
        """The events that a handler took without an error, in order."""
        return [
            event
            for attempt in self._attempts_of(handler)
            if attempt.error is None
            for event in attempt.events
        ]

    def errors(self, handler: str) -> list[str]:
        """What went wrong with a handler: the first line of each error, in order."""
        return [
            attempt.error.splitlines()[0] for attempt in self._attempts_of(handler) if attempt.error
        ]

    def _attempts_of(self, handler: str) -> list[Attempt]:
        if handler not in self.handlers:
            known = ", ".join(sorted(self.handlers))
            raise Invalid(f'the app has no handler "{handler}".', hint=f"It has: {known}.")
        return [attempt for attempt in self.attempts if attempt.handler == handler]


@checked
async def run_handlers(
    app: App, events: Iterable[NewEvent] = (), *, timeout: float = 30
) -> Outcome:
    """Publish events and run an app's handlers until nothing is left to do.

    Everything is as in production, on a real database, but what waits for another try does not
    wait. What handlers publish is handled too::

        outcome = await run_handlers(app, [NewEvent("orders", {"number": 1})])
        assert outcome.errors("bill") == []
    """
    from trunkline.app import App
    from trunkline.broker import handler_calls

    if not isinstance(app, App):
        raise Invalid(f"app is an App, got {app!r:.100}.")

    attempts: list[Attempt] = []
    handlers = [(handler.group, handler.name) for handler in app.handlers]
    async with app.opened() as platform, asyncio.timeout(timeout):
        await app.register()
        await platform.broker.publish_many(events)
        more = 1
        while more:
            broker = platform.broker
            while await broker.tick() + await broker.match() + await broker.catch_up():
                pass
            for worker in app.workers(attempts.append):
                await worker.run_until_quiet()
            more = await platform.broker.tick()
            for handler in handlers:
                more += await platform.db.run(handler_calls.hasten(*handler))
        dead = [
            await platform.broker.dead_show(letter.retry)
            for letter in reversed(await platform.broker.dead_list())
            if (letter.group_name, letter.handler) in handlers
        ]
    return Outcome(attempts, dead, [name for _, name in handlers])


@overload
def eventually(
    assertion: Callable[[], Awaitable[T]],
    timeout: float = 10,
    *,
    also: tuple[type[Exception], ...] = (),
) -> Awaitable[T]: ...


@overload
def eventually(
    assertion: Callable[[], Any],
    timeout: float = 10,
    *,
    also: tuple[type[Exception], ...] = (),
) -> Any: ...


@checked
def eventually(
    assertion: Callable[[], Any],
    timeout: float = 10,
    *,
    also: tuple[type[Exception], ...] = (),
) -> Any:
    """Call `assertion` until it neither raises AssertionError (or one of `also`) nor returns False.

    In async code the answer is awaited, whether `assertion` is async or not; elsewhere the call
    blocks. What the assertion returned is returned; its last error is raised when time is over::

        await eventually(lambda: seen == [1, 2, 3])
    """
    if _in_async_code() or inspect.iscoroutinefunction(assertion):
        return _eventually_async(assertion, timeout, also)
    return wait_until(assertion, timeout, also=also)


@checked
def wait_until(
    assertion: Callable[[], Any],
    timeout: float = 10,
    *,
    also: tuple[type[Exception], ...] = (),
) -> Any:
    """`eventually` that blocks wherever it is called from."""
    failures = _failures(also)
    for wait in _waits(timeout):
        try:
            return _checked(assertion())
        except failures:
            if wait is None:
                raise
        time.sleep(wait)
    raise AssertionError("unreachable")


async def _eventually_async(
    assertion: Callable[[], Any], timeout: float, also: tuple[type[Exception], ...]
) -> Any:
    failures = _failures(also)
    for wait in _waits(timeout):
        try:
            answer = assertion()
            return _checked(await answer if inspect.isawaitable(answer) else answer)
        except failures:
            if wait is None:
                raise
        await asyncio.sleep(wait)
    raise AssertionError("unreachable")


def _waits(timeout: float) -> Iterator[float | None]:
    """How long to wait after each failure; None says that it was the last."""
    give_up = time.monotonic() + timeout
    wait = _FIRST_WAIT
    while time.monotonic() < give_up:
        yield wait
        wait = min(wait * 1.5, _LONGEST_WAIT)
    yield None


def _failures(also: Iterable[type[Exception]]) -> tuple[type[Exception], ...]:
    others = tuple(also)
    for kind in others:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise Invalid(f"also is a tuple of exceptions, got {kind!r:.100} in it.")
    return (AssertionError, *others)


def _checked(answer: Any) -> Any:
    if answer is False:  # not an assert: `python -O` leaves those out
        raise AssertionError("the condition stayed false")
    return answer


def _in_async_code() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
