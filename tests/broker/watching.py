"""Short forms for tests of watched tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.broker.steps import events, head, tick
from tests.fixtures.asking import call

if TYPE_CHECKING:
    from tests.broker.steps import Found
    from tests.fixtures.asking import Session

ORDERS = "create table orders (id bigint primary key, status text, note text, total int)"


def watch(session: Session, relation: str = "orders", **given: Any) -> int:
    """Watch a table; the number of the watch."""
    return int(call(session, "broker_watch", relation=relation, **given)[0][0])


@dataclass
class Seen:
    """Reads the events that are new."""

    session: Session
    up_to: int = field(init=False)

    def __post_init__(self) -> None:
        tick(self.session)
        self.up_to = head(self.session)

    def new(self) -> list[Found]:
        tick(self.session)
        first, self.up_to = self.up_to + 1, head(self.session)
        return events(self.session, first, to_position=self.up_to)

    def brief(self) -> list[tuple[str, str | None, Any]]:
        """The last word of the topic, key and payload of new events."""
        return [(one.topic.rsplit(".", 1)[1], one.key, one.payload) for one in self.new()]

    def outline(self) -> list[tuple[str, str | None]]:
        """The last word of the topic and the key of new events."""
        return [(kind, key) for kind, key, _ in self.brief()]
