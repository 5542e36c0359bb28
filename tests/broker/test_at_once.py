"""Everything that the broker does may go on at the same time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from tests.broker.groups import Member, read, subscribe
from tests.broker.steps import publish, tick
from tests.fixtures.asking import call, column

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.asking import Session

EVENTS = 100
KEYS = ("a", "b")


def publishes(own: Session, key: str) -> None:
    for number in range(EVENTS):
        publish(own, "order", number, key=key)


def works(own: Session) -> None:
    tick(own)
    call(own, "broker_match", max_events=7)


def expires(own: Session) -> None:
    subscribe(own, "short", expiry="1 millisecond")
    call(own, "broker_expire")


def maintains(own: Session) -> None:
    own.execute("call trunkline.maintain()")


@dataclass
class Reader:
    """Reads and commits; what it has seen."""

    process: UUID = field(default_factory=uuid4)
    seen: dict[str, list[int]] = field(default_factory=lambda: {key: [] for key in KEYS})
    done: threading.Event = field(default_factory=threading.Event)

    def reads(self, own: Session) -> None:
        member = Member(own, process=self.process)
        for share in member.join():
            if waiting := read(own, lane=share.lane):
                for one in waiting:
                    self.seen[one.key or ""].append(one.payload)
                member.commit(share.lane, share.epoch, waiting[-1].up_to)
        if sum(map(len, self.seen.values())) >= EVENTS * len(KEYS):
            self.done.set()

    def repeat(self, step: Callable[[Session], None], own: Session) -> None:
        """Do something until everything was read."""
        try:
            while not self.done.is_set():
                step(own)
        finally:
            self.done.set()


def test_publishing_matching_reading_expiring_and_upkeep_at_once_give_every_event_once(
    session: Session, connect: Callable[..., Session]
) -> None:
    for ring in ("event", "tick", "delivery", "cursor"):
        call(session, "config_set", name=f"ring.{ring}.rotate_every", value="1 millisecond")
    subscribe(session)
    reader = Reader()
    steps = (works, works, expires, maintains, maintains, reader.reads)
    with ThreadPoolExecutor(8) as threads:
        running = [threads.submit(reader.repeat, step, connect()) for step in steps]
        running += [threads.submit(publishes, connect(), key) for key in KEYS]
        for one in running:
            one.result(60)

    assert reader.seen == {key: list(range(EVENTS)) for key in KEYS}
    assert column(session, "select error from trunkline.duty_list() where error is not null") == []
