"""`EagerConnection`: an asynchronous connection that reads what has come before it waits for more.

psycopg goes through the event loop for every few kilobytes of an answer, which for a large one
costs more than everything else. Here the loop is asked only when the socket is empty.
"""

from __future__ import annotations

import asyncio
import select
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.waiting import Ready, Wait

from trunkline.core.cursors import AsyncKeptCursor
from trunkline.core.waiting import cancelled

if TYPE_CHECKING:
    from psycopg.abc import PQGen

T = TypeVar("T")


class EagerConnection(psycopg.AsyncConnection[Any]):
    """Otherwise as psycopg's, but for what it keeps."""

    acting_role: str | None = None
    """The role that `core.acting` has taken for the present transaction."""

    @cached_property
    def kept_cursor(self) -> AsyncKeptCursor:
        """Not for two at once: the answer of one would be taken for that of the other."""
        return AsyncKeptCursor(self)

    @cached_property
    def pipelined(self) -> dict[tuple[bytes, tuple[int, ...]], bytes]:
        """The names of what a `Pipeline` has prepared here, by statement and types."""
        return {}

    async def wait(self, gen: PQGen[T], *args: Any, **kwargs: Any) -> T:
        """Run a generator of psycopg's to its end.

        Who is cancelled meanwhile is cancelled: psycopg lets the statement end first, and tells
        only of its failure if there is one, as when the server goes.
        """
        task = asyncio.current_task()
        before = task.cancelling() if task else 0
        if hasattr(select, "poll"):
            gen = _drained(gen, self.pgconn.socket)
        try:
            return await super().wait(gen, *args, **kwargs)
        except psycopg.Error:
            if task and task.cancelling() > before:
                await cancelled()
            raise


def _drained(gen: PQGen[T], socket: int) -> PQGen[T]:
    """The generator, waiting only where nothing is there to be read."""
    poll = None
    try:
        state = next(gen)
        while True:
            if poll is not None and state == Wait.R and poll.poll(0):
                state = gen.send(Ready.R)
                continue
            ready = yield state
            if poll is None:  # most answers come whole: only a second wait is worth a look
                poll = select.poll()
                poll.register(socket, select.POLLIN)
            state = gen.send(ready)
    except StopIteration as end:
        answer: T = end.value
        return answer
