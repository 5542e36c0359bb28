"""`StreamGroup`: the group that a stream of events reads as.

It has one subscription, to the topics of the stream, and one handler, whose cursor follows the
checkpoint. What the handler has not passed stays, and shows as its lag. A batch
is passed when the next one is looked for, so that one which is done again finds its events.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from trunkline.broker import calls, handler_calls, subscription_calls
from trunkline.core.backoff import Backoff
from trunkline.core.errors import Conflict, NotFound, Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trunkline.core.db import Db

HANDLER = "spark"
_LANES = 1  # deliveries of one lane have the order of their events
_AGAIN = 60.0  # seconds after which a stream that stands still says that it lives
_PATIENCE = 30.0  # seconds without any progress of the matcher


class StreamGroup:
    """The group of one stream; others are refused."""

    def __init__(self, db: Db, name: str, topics: Sequence[str] | None):
        self.name = name
        self._db = db
        self._condition = _condition(topics)
        self._found = False
        self._noted: int | None = None
        self._note_again = 0.0

    def make(self, *, history: bool) -> None:
        """Make the group if it is not there, from the first event there is or from now on."""
        try:
            self.find()
        except NotFound:
            begin = self._db.run(calls.ends()).first_one if history else None
            self._subscribe(from_position=begin, lanes=_LANES)

    def find(self) -> None:
        """Make sure that the group is there, is ours, and wants the topics of the stream."""
        if self._found:
            return
        try:
            handlers = {row.handler for row in self._db.run(calls.lag(self.name))}
        except NotFound as missing:
            missing.hint = (
                "It was deleted, and holds nothing any more. Start with a new checkpoint, which"
                " makes it anew."
            )
            raise
        there = len(self._db.run(subscription_calls.subscriptions(self.name)))
        if handlers != {HANDLER} or there > 1:
            raise Conflict(
                f'group "{self.name}" is there, and is not that of a stream of Spark.',
                hint="Give the stream a group of its own; option group reads what a group of others"
                " was delivered.",
            )
        self._subscribe()

    def note(self, up_to: int) -> None:
        """Everything up to a delivery is done."""
        if up_to == self._noted and time.monotonic() < self._note_again:
            return
        self._db.run(handler_calls.progress(self.name, HANDLER, up_to))
        self._noted, self._note_again = up_to, time.monotonic() + _AGAIN

    def wait_until_matched(self) -> None:
        """Return when all that was published by now is delivered to the group."""
        self._db.run(calls.tick())
        goal = self._db.run(calls.head())
        waits = Backoff(first=0.02, longest=0.5)
        reached, give_up = -1, 0.0
        while (present := self._matched()) < goal:
            if present > reached:
                reached, give_up = present, time.monotonic() + _PATIENCE
            elif time.monotonic() > give_up:
                raise Unavailable(
                    f'events up to position {goal} are to be delivered to group "{self.name}", and'
                    f" were up to {max(reached, 0)}.",
                    hint="Keep `trunkline up` running, or an app: they deliver."
                    " `trunkline broker subscriptions` tells whether it is in quarantine.",
                )
            time.sleep(waits.next())

    def _matched(self) -> int:
        """A position up to which events are matched for the group, at least."""
        head = self._db.run(calls.head())
        matched = head - self._db.run(calls.unmatched()).events
        late = [
            wanted.matched_up_to
            for wanted in self._db.run(subscription_calls.subscriptions(self.name))
            if wanted.matched_up_to is not None
        ]
        return min([matched, *late])

    def _subscribe(self, *, from_position: int | None = None, lanes: int | None = None) -> None:
        self._db.run(
            subscription_calls.subscribe(
                self.name,
                self._condition,
                from_position=from_position,
                handler=HANDLER,
                lanes=lanes,
                replace=True,
            )
        )
        self._found = True


def _condition(topics: Sequence[str] | None) -> dict[str, dict[str, list[str]]] | None:
    """Events of exactly these topics: names are no patterns here."""
    return None if topics is None else {"in": {"topic": sorted(set(topics))}}
