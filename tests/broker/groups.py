"""Short forms for tests of groups: subscribe, match, join, read and commit in SQL."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID, uuid4

from tests.broker.steps import tick
from tests.fixtures.asking import ask, call

from trunkline.testing import wait_until

if TYPE_CHECKING:
    from datetime import datetime

    from tests.fixtures.asking import Session


class Waiting(NamedTuple):
    """What `broker_read` answers."""

    lane: int
    up_to: int
    position: int
    event_id: int
    topic: str
    key: str | None
    payload: Any
    metadata: Any
    at: datetime
    subscriptions: list[int]
    blocked: bool


class Share(NamedTuple):
    """What `broker_join` answers for one lane."""

    lane: int
    lanes: int
    epoch: int
    up_to: int
    surplus: bool
    suspect: bool


def subscribe(
    session: Session,
    group: str = "billing",
    condition: Any = None,
    params: Any = None,
    **given: Any,
) -> int:
    """Subscribe a group; the number of the subscription."""
    text = condition if condition is None or isinstance(condition, str) else json.dumps(condition)
    rows = call(
        session,
        "broker_subscribe",
        group_name=group,
        condition=text,
        params=json.dumps(params or {}),
        **given,
    )
    return int(rows[0][0])


def match(session: Session, **given: Any) -> int:
    """Number and match all that was committed; how many events."""
    tick(session)
    total = 0
    while matched := int(call(session, "broker_match", **given)[0][0]):
        total += matched
    while int(call(session, "broker_catch_up", **given)[0][0]):
        pass
    return total


def read(session: Session, group: str = "billing", **given: Any) -> list[Waiting]:
    """What waits for a handler, in the order of deliveries."""
    given.setdefault("max_events", 10_000)
    rows = call(session, "broker_read", group_name=group, **given)
    return sorted((Waiting(*row) for row in rows), key=lambda one: one.up_to)


def received(session: Session, group: str = "billing", **given: Any) -> list[Any]:
    """Match, then the payloads that wait, in the order of positions."""
    match(session)
    return [
        one.payload for one in sorted(read(session, group, **given), key=lambda one: one.position)
    ]


@dataclass
class Member:
    """A process that works for a handler."""

    session: Session
    group: str = "billing"
    handler: str = ""
    process: UUID | None = None

    def join(self) -> list[Share]:
        """Renew the lease and join; the lanes of this member."""
        self.process = self.process or uuid4()
        call(self.session, "lease_renew", process=self.process, name="test")
        return [Share(*row) for row in call(self.session, "broker_join", **self._self())]

    def leave(self) -> None:
        call(self.session, "broker_leave", **self._self())

    def commit(self, lane: int, epoch: int, up_to: int) -> None:
        given = {"group_name": self.group, "handler": self.handler}
        call(self.session, "broker_commit", **given, lane=lane, epoch=epoch, up_to=up_to)

    def commit_all(self) -> None:
        """Commit everything that waits in the lanes of this member."""
        for share in self.join():
            waiting = read(self.session, self.group, handler=self.handler, lane=share.lane)
            if waiting:
                self.commit(share.lane, share.epoch, waiting[-1].up_to)

    def _self(self) -> dict[str, Any]:
        return {"group_name": self.group, "handler": self.handler, "process": self.process}


def quarantined(session: Session, subscription: int) -> tuple[str, int] | None:
    """Error and position of a subscription in quarantine."""
    row = session.execute(
        "select error, error_position from trunkline.broker_subscription"
        " where subscription = %s and quarantined_at is not null",
        [subscription],
    ).fetchone()
    return None if row is None else (row[0], row[1])


def last_delivery(session: Session) -> int:
    return int(ask(session, "select trunkline._broker_delivered()"))


def blocked(waiter: Session, *, by: Session, watcher: Session) -> None:
    """Wait until a session waits for a lock of another."""
    query = "select %s = any (pg_blocking_pids(%s))"
    pids = [by.info.backend_pid, waiter.info.backend_pid]

    def waits() -> None:
        assert ask(watcher, query, pids)

    wait_until(waits)
