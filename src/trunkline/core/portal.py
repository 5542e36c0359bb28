"""`Portal`: an event loop in a thread, so that blocking code can use what is asynchronous."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from trunkline.core.errors import BadRequest
from trunkline.core.forking import is_forked, refuse_forked

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Future

T = TypeVar("T")
P = ParamSpec("P")


class Portal:
    """Runs coroutines for threads that wait; starts with the first call, ends with `close`."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._changing = threading.Lock()
        self._closed = False
        self._process = os.getpid()

    @property
    def forked(self) -> bool:
        """Whether its thread was left behind in the parent of this process."""
        return is_forked(self._process)

    @property
    def closed(self) -> bool:
        """Whether it takes no more calls."""
        return self._closed

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the portal's loop and wait for its result.

        Whoever stops waiting (Control-C) stops the coroutine too.
        """
        future = self._submit(work)
        try:
            return future.result()
        finally:
            future.cancel()

    def ask(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a plain function in the portal's loop: what lives there is touched nowhere else."""

        async def answer() -> T:
            return function(*args, **kwargs)

        return self.call(answer())

    def close(self) -> None:
        """Cancel what still runs and stop the loop. Safe to call twice."""
        if self.forked:
            return
        with self._changing:
            self._closed = True
            loop, self._loop = self._loop, None
            thread = self._thread
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        if self.forked:
            work.close()
            refuse_forked(self._process)
        # Under the lock: the loop must not stop between the look at it and the submission.
        with self._changing:
            if self._closed or threading.current_thread() is self._thread:
                work.close()
                raise BadRequest(
                    "the connection is closed."
                    if self._closed
                    else "a blocking call cannot be made from the thread that answers it."
                )
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_run, args=[self._loop], name="trunkline", daemon=True
                )
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(work, self._loop)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()
