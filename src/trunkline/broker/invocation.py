"""Making the call of a handler: in time, wherever it runs, and whatever it raises."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
import time
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from trunkline.core import telemetry

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

_CANCEL_PATIENCE = 5.0  # seconds for a handler that was cancelled to let go
_FRAMES = 8  # of a traceback, the innermost
_MOST_AT_WORK = 128  # calls of one handler, with those that go on after their time: more than lanes
_LOOK_EVERY = 0.1  # seconds


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


class AtWork:
    """What the calls of a handler are about that have not ended, in whatever thread or loop.

    A thread cannot be stopped, and not every coroutine lets itself be. As long as a call goes on
    after its time no other is made for its keys.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[Calling, frozenset[Hashable]] = {}

    @property
    def crowded(self) -> bool:
        """Whether there are as many calls as there may be."""
        return len(self._calls) >= _MOST_AT_WORK

    def has(self, about: Iterable[Hashable]) -> bool:
        """Whether a call that is about one of these has not ended."""
        if not self._calls:
            return False
        asked = set(about)
        with self._lock:
            return any(not asked.isdisjoint(known) for known in self._calls.values())

    def call(self, about: Iterable[Hashable]) -> Calling:
        """Note a call that begins."""
        call = Calling(self._ended)
        with self._lock:
            self._calls[call] = frozenset(about)
        return call

    def _ended(self, call: Calling) -> None:
        with self._lock:
            del self._calls[call]


class Calling:
    """A call that is made: it has ended when its task has, and its thread, if there is one."""

    def __init__(self, ended: Callable[[Calling], None]):
        self._ended = ended
        self._lock = threading.Lock()
        self._going = 0

    @property
    def goes_on(self) -> bool:
        """Whether it has not ended."""
        return self._going > 0

    def begin(self) -> None:
        """The task begins, or the thread."""
        with self._lock:
            self._going += 1

    def end(self, _task: object = None) -> None:
        """The task has ended, or the thread."""
        with self._lock:
            self._going -= 1
            ended = not self._going
        if ended:
            self._ended(self)


async def invoke(
    call: Callable[[], Any],
    *,
    is_async: bool,
    timeout: float,
    at_work: AtWork | None = None,
    about: Iterable[Hashable] = (),
) -> None:
    """Make a call, in this loop or in a thread; `Failed` when it raises or takes too long.

    A handler of ours may raise `Failed` or `Withdrawn` itself, to say more.

    A thread cannot be stopped: when its time is over it counts as failed and goes on by itself.
    ``at_work`` knows what it is ``about`` until it has ended.
    """
    at_work = at_work or AtWork()
    await _until_there_is_room(at_work, timeout)
    made = at_work.call(about)
    made.begin()
    work = asyncio.create_task(_run(call, made, is_async=is_async))
    work.add_done_callback(made.end)
    try:
        await asyncio.wait({work}, timeout=timeout)
        if not work.done():
            work.cancel()
            await asyncio.wait({work}, timeout=_CANCEL_PATIENCE)
            raise Failed(
                f"TimeoutError: it took longer than {timeout:g} s",
                stuck=made.goes_on,
                wait=timeout if made.goes_on else None,
            )
    finally:
        work.cancel()
    if work.cancelled():
        raise Failed("CancelledError: the handler was cancelled")
    if error := work.exception():
        if isinstance(error, Failed | Withdrawn):
            raise error
        raise Failed(told(error)) from error


def beside(timeout: float) -> Failed:
    """Why a call is not made: another one for the same key has not ended."""
    return Failed(
        "TimeoutError: a call for its key that took too long is still at work; no other is made"
        " beside it",
        wait=timeout,
    )


async def _until_there_is_room(at_work: AtWork, timeout: float) -> None:
    until = time.monotonic() + timeout
    while at_work.crowded:
        if time.monotonic() >= until:
            raise Failed(
                f"TimeoutError: {_MOST_AT_WORK} calls that took too long are still at work",
                wait=timeout,
            )
        await asyncio.sleep(min(_LOOK_EVERY, timeout))


def told(error: BaseException) -> str:
    """An error as it is kept: type and message, then where it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    outer = [frame for frame in frames if frame.filename != __file__][-_FRAMES:]
    where = "".join(traceback.format_list(outer)).rstrip()
    name = type(error).__name__
    try:
        text = f"{name}: {error}".rstrip(": ")
    except Exception:  # noqa: BLE001 - it is the user's function
        text = f"{name}: its text cannot be told"
    return telemetry.redact(f"{text}\n{where}".rstrip())


async def _run(call: Callable[[], Any], made: Calling, *, is_async: bool) -> None:
    try:
        answer = call() if is_async else await _in_thread(call, made)
        if inspect.isawaitable(answer):
            answer = await answer
        if inspect.isgenerator(answer) or inspect.isasyncgen(answer):
            raise TypeError("the handler returned a generator, which does nothing by itself")
    except SystemExit as error:  # the loop would end with it, and so would everybody else
        raise RuntimeError(f"the handler called exit({error.code!r})") from error


async def _in_thread(call: Callable[[], Any], made: Calling) -> Any:
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
            error = raised
            if isinstance(raised, StopIteration | KeyboardInterrupt):  # the loop would end with it
                error = RuntimeError(repr(raised))
        made.end()  # before anybody hears of it, who might make the next call
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, error)

    made.begin()
    threading.Thread(target=work, name="trunkline handler", daemon=True).start()
    return await answer
