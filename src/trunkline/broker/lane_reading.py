"""`LaneReading`: reads ahead for the lanes of a handler, for all that have room at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trunkline.broker import handler_calls as calls
from trunkline.core import telemetry
from trunkline.core.errors import PositionTrimmed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from trunkline.broker.delivered import Delivered
    from trunkline.broker.handlers import Handler
    from trunkline.broker.lane import Lane
    from trunkline.core.db import AsyncDb

logger = telemetry.get_logger(__name__)

_LOOKED_FAR = 1_000  # deliveries that a reading looks through for those that are for us


class LaneReading:
    """What lies ahead of the lanes, which are the worker's."""

    def __init__(
        self,
        db: AsyncDb,
        handler: Handler,
        lanes: Mapping[int, Lane],
        *,
        room: int,
        check: Callable[[], None],
    ):
        self._db = db
        self._handler = handler
        self._lanes = lanes
        self._check = check
        """Raises when what was read may not be for these lanes."""
        self.room = room
        """Events of a lane that may wait here."""

    async def look(self) -> None:
        """See what is ahead without anybody's having said so."""
        if not self._lanes:
            return
        handler = self._handler
        for outlook in await self._db.run(calls.look(handler.group, handler.name, self._lanes)):
            if lane := self._lanes.get(outlook.lane):
                lane.more = lane.more or (outlook.head or 0) > lane.read_up_to
                if outlook.due_in is not None:
                    lane.expect(outlook.due_in.total_seconds())
                    lane.woken.set()

    async def fill(self) -> bool:
        """Fill the queues of lanes that have room; whether anything came."""
        handler = self._handler
        wanting = {number: lane for number, lane in self._lanes.items() if self.wants_more(lane)}
        if not wanting:
            return False
        most = self.room - self.room // 2
        after = {number: lane.read_up_to for number, lane in wanting.items()}
        for lane in wanting.values():  # before the reading: a wake-up during it must count
            lane.more = False
        try:
            found = await self._db.run(
                calls.fetch(
                    handler.group,
                    handler.name,
                    after,
                    max_events=most,
                    json_text=handler.takes_json_text,
                )
            )
            self._check()
        except PositionTrimmed as error:
            self._skip(wanting.values(), error)
            return True
        except Exception:
            for lane in wanting.values():
                lane.more = True
            raise
        for number, lane in wanting.items():
            events = found.get(number, [])
            self._add(lane, events, full=len(events) >= most or _looked_far(events, after[number]))
        return any(lane.more for lane in wanting.values())

    def wants_more(self, lane: Lane) -> bool:
        """Whether there may be more for a lane, and room for it."""
        room = len(lane.queue) * 2 <= self.room or lane.lacks
        return lane.more and not lane.ends and room

    def _add(self, lane: Lane, events: list[Delivered], *, full: bool) -> None:
        if gone := [event for event in events if event.event_id is None and event.position]:
            logger.error("events lost", events=len(gone), lane=lane.number, **self._about())
        lane.more = lane.more or full
        lane.has_read_all = lane.has_read_all or not full
        lane.add(events)
        lane.next_batch()  # forgets those that have left
        if lane.lacks and events:
            lane.more = True
        elif lane.lacks:  # they were there when they were written down
            lane.cuts.clear()

    def _skip(self, lanes: Iterable[Lane], error: PositionTrimmed) -> None:
        """What was not read in time has left: say so, and go on from the first there is."""
        logger.error("events lost", error=str(error), **self._about())
        first = int(error.details.get("first", 0))
        for lane in lanes:
            lane.read_up_to = max(lane.read_up_to, first - 1)
            lane.more = True

    def _about(self) -> dict[str, Any]:
        return {"group": self._handler.group, "handler": self._handler.name}


def _looked_far(events: Sequence[Delivered], after: int) -> bool:
    """Whether a reading ended among deliveries that are for others, and not where they end."""
    last = events[-1] if events else None
    return last is not None and not last.event_id and last.delivery - after >= _LOOKED_FAR
