"""`eventually` and `wait_until`: waiting for what comes true, without sleeping."""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import TYPE_CHECKING, Any, TypeVar, overload

from trunkline.core.arguments import checked
from trunkline.core.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

T = TypeVar("T")

_FIRST_WAIT = 0.005  # seconds
_LONGEST_WAIT = 0.2


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
