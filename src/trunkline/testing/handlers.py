"""`run_handlers`: the handlers of an app, to the end of a list of events."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trunkline.core.arguments import checked
from trunkline.core.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from trunkline.app import App
    from trunkline.broker.attempts import Attempt
    from trunkline.broker.delivered import DeadLetterDetails, Delivered
    from trunkline.broker.models import NewEvent


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the handlers of an app made of events."""

    attempts: Sequence[Attempt]
    """Every call of a handler, in order."""
    dead: Sequence[DeadLetterDetails]
    """The dead letters among them, and older ones that hold back events of their key."""
    handlers: Collection[str]
    """The names of the app's handlers."""

    def handled(self, handler: str) -> list[Delivered]:
        """The events that a handler took without an error, in order."""
        return [
            event
            for attempt in self._attempts_of(handler)
            if attempt.error is None
            for event in attempt.events
        ]

    def errors(self, handler: str) -> list[str]:
        """What went wrong with a handler: the first line of each error, in order."""
        return [
            attempt.error.splitlines()[0] for attempt in self._attempts_of(handler) if attempt.error
        ]

    def _attempts_of(self, handler: str) -> list[Attempt]:
        check_known(handler, self.handlers)
        return [attempt for attempt in self.attempts if attempt.handler == handler]


@checked
async def run_handlers(
    app: App, events: Iterable[NewEvent] = (), *, timeout: float = 30
) -> Outcome:
    """Publish events and run an app's handlers until nothing is left to do.

    Everything is as in production, on a real database, but what waits for another try does not
    wait. What handlers publish is handled too::

        outcome = await run_handlers(app, [NewEvent("orders", {"number": 1})])
        assert outcome.errors("bill") == []
    """
    from trunkline.app import App
    from trunkline.broker import handler_calls

    if not isinstance(app, App):
        raise Invalid(f"app is an App, got {app!r:.100}.")

    attempts: list[Attempt] = []
    handlers = [(handler.group, handler.name) for handler in app.handlers]
    async with app.opened() as platform, asyncio.timeout(timeout):
        await app.register()
        await platform.broker.publish_many(events)
        more = 1
        while more:
            broker = platform.broker
            while await broker.tick() + await broker.match() + await broker.catch_up():
                pass
            for worker in app.workers(attempts.append):
                await worker.run_until_quiet()
            more = await platform.broker.tick()
            for handler in handlers:
                more += await platform.db.run(handler_calls.hasten(*handler))
        tried = {
            (each.group, each.handler, event.event_id) for each in attempts for event in each.events
        }
        dead = [
            await platform.broker.dead_show(letter.retry)
            for letter in reversed(await platform.broker.dead_list())
            if (letter.group_name, letter.handler, letter.event_id) in tried
            or ((letter.group_name, letter.handler) in handlers and letter.behind)
        ]
    return Outcome(attempts, dead, [name for _, name in handlers])


def check_known(handler: str, handlers: Collection[str]) -> None:
    """`Invalid` for a name that no handler has: it would be taken for one without errors."""
    if handler not in handlers:
        known = ", ".join(sorted(handlers))
        raise Invalid(f'the app has no handler "{handler}".', hint=f"It has: {known}.")
