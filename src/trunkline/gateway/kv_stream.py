"""`KvStream`: keys as they change, for whoever looks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from trunkline.broker.stream import Place, Reset
from trunkline.core.errors import PositionTrimmed, Unavailable
from trunkline.gateway.streams import PAGE, FollowedStream
from trunkline.kv import calls

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from trunkline.core.db import AsyncDb
    from trunkline.core.listen import Listener
    from trunkline.kv.models import KvChange


@dataclass(frozen=True, slots=True)
class KvItem:
    """A key that changed; a stream that is given its ``token`` goes on after it."""

    token: str
    change: KvChange


class KvStream(FollowedStream):
    """Keys that begin with a prefix, as they change in any zone; in the words of `Kv.watch`."""

    def __init__(
        self,
        db: AsyncDb,
        listener: Listener,
        prefix: str,
        *,
        namespace: str = "default",
        after: str | None = None,
        heartbeat: float = 15.0,
    ):
        super().__init__(listener, "kv:", resumed=after is not None, heartbeat=heartbeat)
        self._db = db
        self._key_prefix = prefix
        self._namespace = namespace
        self._place = None if after is None else Place.parse(after)
        self._of_this_life = False

    @property
    def token(self) -> str:
        return "" if self._place is None else self._place.token

    async def open(self) -> None:
        if self._place is None:
            self._place = await self._end()
        await self._db.run(self._changes((await self._end()).position))  # may one ask that at all?

    async def _look(self) -> AsyncGenerator[KvItem | Reset, None]:
        assert self._place is not None
        before = None
        try:
            while before != self._place:
                before = self._place
                if not self._of_this_life:
                    await self._check_life()
                found, up_to = await self._db.run(self._changes(before.position))
                for change in found:
                    self._place = Place(before.incarnation, change.up_to)
                    yield KvItem(self.token, change)
                self._place = Place(before.incarnation, up_to)
        except PositionTrimmed as error:
            self._place = await self._end()
            self._of_this_life = True
            yield Reset(self.token, error.message)
        except Unavailable:
            self._of_this_life = False
            raise

    async def _check_life(self) -> None:
        """A position of another life of the server may stand for other changes here."""
        assert self._place is not None
        if (await self._end()).incarnation != self._place.incarnation:
            raise PositionTrimmed("the server has begun another life since then.")
        self._of_this_life = True

    def _changes(self, after: int) -> Any:
        call = calls.changes(
            after, prefix=self._key_prefix, namespace=self._namespace, max_changes=PAGE
        )
        return replace(call, json_text=True)  # the JSON null is not nothing

    async def _end(self) -> Place:
        ends = await self._db.run(calls.ends())
        return Place(ends.incarnation, ends.last_one)
