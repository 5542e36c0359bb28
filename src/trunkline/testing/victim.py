"""A worker that writes down what it does, and dies when it was told to.

``python -m trunkline.testing.victim FILE``, the file holds its `Plan`; `crash_handlers` starts it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from trunkline.app import load
from trunkline.broker.handlers import Handler
from trunkline.broker.invocation import Failed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trunkline.broker.delivered import Delivered

MOMENTS = ("begins", "returned", "later")
"""As a call begins, when it has returned and nobody knows yet, milliseconds after it began."""

_LOOK_EVERY = 0.002  # seconds, while it may not die


@dataclass(frozen=True, slots=True)
class Plan:
    """Which app to run, and when to die."""

    app: str
    dsn: str
    record: str
    """The file in which it is written down what was done."""
    after: int | None
    """The number of the call at which to die; None to live."""
    moment: str
    later: float
    spared: list[int]
    """Events that processes died over before; one dies over others."""

    def write(self, file: Path) -> None:
        """Write it down where `read` finds it."""
        file.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, file: Path) -> Self:
        """The plan that was written down."""
        return cls(**json.loads(file.read_text()))


class Witness:
    """Writes down every call of a handler before it is made and after it returned."""

    def __init__(self, plan: Plan):
        self._plan = plan
        self._file = os.open(plan.record, os.O_WRONLY | os.O_APPEND)
        self._begun = 0
        self._at_work: dict[int, list[int]] = {}

    def say(self, **what: Any) -> None:
        """Write a line; it stays when the process dies."""
        os.write(self._file, json.dumps(what, default=str).encode() + b"\n")

    def begins(self, handler: str, events: Sequence[Delivered]) -> int:
        """A call is made now; its number."""
        self._begun += 1
        self._at_work[self._begun] = [event.event_id for event in events]
        self.say(call=self._begun, handler=handler, events=self._at_work[self._begun])
        self._die_at("begins")
        if self._begun == self._plan.after and self._plan.moment == "later":
            self._die_in(self._plan.later)
        return self._begun

    def returned(self, call: int, error: str | None) -> None:
        """A call has returned, and what it did is not settled yet."""
        self.say(call=call, returned=True, error=error)
        self._die_at("returned")
        del self._at_work[call]

    def _die_at(self, moment: str) -> None:
        due = self._plan.after is not None and self._begun >= self._plan.after
        if due and moment == self._plan.moment and self._may_die():
            os.kill(os.getpid(), signal.SIGKILL)

    def _die_in(self, seconds: float) -> None:
        timer = threading.Timer(seconds, self._die_soon)
        timer.daemon = True
        timer.start()

    def _die_soon(self) -> None:
        if self._may_die():
            os.kill(os.getpid(), signal.SIGKILL)
        self._die_in(_LOOK_EVERY)

    def _may_die(self) -> bool:
        spared = set(self._plan.spared)
        return all(spared.isdisjoint(events) for events in [*self._at_work.values()])


@dataclass(frozen=True, slots=True)
class Witnessed(Handler):
    """A handler whose calls are written down."""

    witness: Witness

    async def invoke(self, call: Callable[[], Any], events: Sequence[Delivered]) -> None:
        """As any handler, under the eyes of the witness."""
        number, error = self.witness.begins(self.name, events), None
        try:
            await Handler.invoke(self, call, events)
        except Failed as failure:
            error = str(failure)
            raise
        finally:
            self.witness.returned(number, error)


def _outlive_nobody() -> None:
    """Die when the one who started us has: nobody else would end us."""
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGKILL)


async def run(plan: Plan) -> None:
    """Run the handlers of the app until told to stop, or until it is time to die."""
    app = load(plan.app)
    app.dsn = plan.dsn
    witness = Witness(plan)
    app.wrap(
        lambda handler: Witnessed(
            **{field.name: getattr(handler, field.name) for field in fields(Handler)},
            witness=witness,
        )
    )
    async with app.opened() as platform:
        witness.say(process=await platform.broker.process())
        await app.run()


if __name__ == "__main__":
    threading.Thread(target=_outlive_nobody, daemon=True).start()
    asyncio.run(run(Plan.read(Path(sys.argv[1]))))
