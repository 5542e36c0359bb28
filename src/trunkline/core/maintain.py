"""`Maintainer`: the service that calls ``trunkline.maintain()`` now and then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg.errors import QueryCanceled

from trunkline.core.execution import translated
from trunkline.core.service import Service

if TYPE_CHECKING:
    import psycopg

    from trunkline.core.db import AsyncDb


class Maintainer(Service):
    """Seals, retires and rotates. Any number may run: each duty is done by one at a time.

    Where the time of a statement is limited, a round is over with the first duty that takes longer
    than that. From then on each step of a duty is a statement of its own, so that one which never
    comes to its end does not keep the others from theirs.
    """

    name = "maintainer"

    def __init__(self, db: AsyncDb, *, interval: float = 5.0):
        self.interval = interval
        self._db = db
        self._step_by_step = False

    async def run_once(self) -> int:
        async with self._db.connection() as connection:
            with translated():
                if not self._step_by_step:
                    self._step_by_step = not await _do_all(connection)
                if self._step_by_step:
                    await _do_each(connection)
        return 0


async def _do_all(connection: psycopg.AsyncConnection[Any]) -> bool:
    """Whether there was time for it."""
    try:
        await connection.execute("call trunkline.maintain()")
    except QueryCanceled:
        return False
    return True


async def _do_each(connection: psycopg.AsyncConnection[Any]) -> None:
    duties = await connection.execute("select duty from trunkline.duty_list()")
    cancelled = None
    for (duty,) in await duties.fetchall():
        try:
            while await _step(connection, duty):
                pass
        except QueryCanceled as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


async def _step(connection: psycopg.AsyncConnection[Any], duty: str) -> bool:
    async with connection.transaction():
        await connection.execute("set transaction isolation level read committed")
        answer = await connection.execute("select trunkline._duty_run(%s)", [duty])
        row: Any = await answer.fetchone()
        return bool(row[0])
