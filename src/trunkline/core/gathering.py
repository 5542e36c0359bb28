"""`GatheringDb`: calls of one kind that a crowd makes at about the same time become one call.

A thousand tasks that each ask for their own would keep a server busy with nothing but asking. Here
what comes while a call of the kind is under way waits and goes together with the next one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeVar

from trunkline.core import telemetry
from trunkline.core.db import SparingDb
from trunkline.core.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import psycopg

    from trunkline.core.calls import Call
    from trunkline.core.db import AsyncDb

    Together = Callable[[Sequence[Call[Any]]], Call[list[Any]]]
    """One call for many: its answer has theirs in their order, or `ALONE`."""

T = TypeVar("T")

ALONE: Final = object()
"""Instead of an answer: this one has to be asked alone, where it waits for itself or is refused."""

_MOST_AT_ONCE = 500

logger = telemetry.get_logger(__name__)


class GatheringDb(SparingDb):
    """The pool of another, of which it uses ``most`` connections, and asks for many at once.

    What goes wrong with one call is never another's trouble: it is made again alone.
    """

    pause: float = 0.0
    """Seconds that a call waits for others to come along."""

    def __init__(self, db: AsyncDb, most: int, together: Mapping[str, Together]):
        super().__init__(db, most)
        self._together = together
        self._waiting: dict[str, list[tuple[Call[Any], asyncio.Future[Any]]]] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}

    async def run(
        self,
        call: Call[T],
        *,
        on: psycopg.AsyncConnection[Any] | None = None,
        then: Call[Any] | None = None,
    ) -> T:
        if on is not None or then is not None or call.function not in self._together:
            return await super().run(call, on=on, then=then)
        answer = await self._asked(call)
        if answer is ALONE:
            return await super().run(call)
        found: T = answer
        return found

    def _asked(self, call: Call[Any]) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        kind = call.function
        self._waiting.setdefault(kind, []).append((call, answer))
        if kind not in self._asking:
            self._asking[kind] = asyncio.create_task(self._ask(kind), name=f"gather {kind}")
        return answer

    async def _ask(self, kind: str) -> None:
        try:
            while kind in self._waiting:
                full = len(self._waiting[kind]) >= _MOST_AT_ONCE
                await asyncio.sleep(0 if full else self.pause)
                waiting = self._waiting.pop(kind)
                if more := waiting[_MOST_AT_ONCE:]:
                    self._waiting[kind] = more
                await self._answer(kind, waiting[:_MOST_AT_ONCE])
        finally:
            del self._asking[kind]

    async def _answer(
        self, kind: str, waiting: Sequence[tuple[Call[Any], asyncio.Future[Any]]]
    ) -> None:
        answers: list[Any] = [ALONE] * len(waiting)
        try:
            if len(waiting) > 1:
                answers = await super().run(self._together[kind]([call for call, _ in waiting]))
        except (Unavailable, OSError) as error:
            for _, answer in waiting:
                if not answer.done():
                    answer.set_exception(error)
        except Exception as error:  # noqa: BLE001 - whose fault it is will show
            logger.debug("not together", kind=kind, calls=len(waiting), error=str(error))
        for (_, answer), found in zip(waiting, answers, strict=True):
            if not answer.done():
                answer.set_result(found)
