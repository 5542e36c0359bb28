"""Making the call of a handler: in time, wherever it runs, and whatever it raises."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
import traceback
from typing import TYPE_CHECKING, Any

from trunkline.core import telemetry

if TYPE_CHECKING:
    from collections.abc import Callable

_CANCEL_PATIENCE = 5.0  # seconds for a handler that was cancelled to let go
_FRAMES = 8  # of a traceback, the innermost


class Failed(Exception):
    """A handler failed; the text says how. It is ``stuck`` when it does not even end.

    ``last``: another try would not help. ``wait``: the next one comes not before so many seconds.
    """

    def __init__(
        self, text: str, *, stuck: bool = False, last: bool = False, wait: float | None = None
    ):
        super().__init__(text)
        self.stuck = stuck
        self.last = last
        self.wait = wait


class Withdrawn(Exception):
    """A handler gives its events back, as if it had never been called with them."""


async def invoke(call: Callable[[], Any], *, is_async: bool, timeout: float) -> None:
    """Make a call, in this loop or in a thread; `Failed` when it raises or takes too long.

    A handler of ours may raise `Failed` or `Withdrawn` itself, to say more.

    A thread cannot be stopped: when its time is over it counts as failed and goes on by itself.
    """
    work = asyncio.create_task(_run(call, is_async=is_async))
    try:
        await asyncio.wait({work}, timeout=timeout)
        if not work.done():
            work.cancel()
            await asyncio.wait({work}, timeout=_CANCEL_PATIENCE)
            raise Failed(f"TimeoutError: it took longer than {timeout:g} s", stuck=not work.done())
    finally:
        work.cancel()
    if work.cancelled():
        raise Failed("CancelledError: the handler was cancelled")
    if error := work.exception():
        if isinstance(error, Failed | Withdrawn):
            raise error
        raise Failed(told(error)) from error


def told(error: BaseException) -> str:
    """An error as it is kept: type and message, then where it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    outer = [frame for frame in frames if frame.filename != __file__][-_FRAMES:]
    where = "".join(traceback.format_list(outer)).rstrip()
    text = f"{type(error).__name__}: {error}".rstrip(": ")
    return telemetry.redact(f"{text}\n{where}".rstrip())


async def _run(call: Callable[[], Any], *, is_async: bool) -> None:
    try:
        answer = call() if is_async else await _in_thread(call)
        if inspect.isawaitable(answer):
            await answer
    except SystemExit as error:  # the loop would end with it, and so would everybody else
        raise RuntimeError(f"the handler called exit({error.code!r})") from error


async def _in_thread(call: Callable[[], Any]) -> Any:
    """Run in a thread of its own, which keeps neither us nor the interpreter from ending."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is None:
            answer.set_result(result)
        else:
            answer.set_exception(error)

    def work() -> None:
        result, error = None, None
        try:
            result = context.run(call)
        except BaseException as raised:  # noqa: BLE001 - it is the handler's outcome
            error = RuntimeError(str(raised)) if isinstance(raised, StopIteration) else raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=work, name="trunkline handler", daemon=True).start()
    return await answer
