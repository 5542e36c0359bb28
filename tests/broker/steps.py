"""Short forms for tests that speak to the broker in SQL."""

from __future__ import annotations

import json
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from psycopg import sql
from tests.fixtures.asking import ask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

Session = psycopg.Connection[Any]


class Found(NamedTuple):
    """What `broker_events` answers."""

    position: int
    event_id: int
    topic: str
    key: str | None
    payload: Any
    metadata: Any
    subscription: int | None
    at: datetime


@contextmanager
def connections(dsn: str) -> Iterator[Callable[..., Session]]:
    """Open connections to a database: ``connect(autocommit=False)``."""
    with ExitStack() as opened:

        def open_one(*, autocommit: bool = True, **options: Any) -> Session:
            connection = psycopg.connect(dsn, autocommit=autocommit, **options)
            return opened.enter_context(closing(connection))

        yield open_one


def call(session: Session, name: str, /, **arguments: Any) -> list[tuple[Any, ...]]:
    """Call a function of the schema with named arguments."""
    named = [
        sql.SQL("{} => {}").format(sql.Identifier(argument), sql.Placeholder(argument))
        for argument in arguments
    ]
    query = sql.SQL("select * from trunkline.{}({})").format(
        sql.Identifier(name), sql.SQL(", ").join(named)
    )
    return session.execute(query, arguments).fetchall()


def publish(session: Session, topic: str, payload: Any = None, **given: Any) -> int:
    """Publish one event; its id."""
    metadata = given.pop("metadata", None)
    if metadata is not None:
        given["metadata"] = json.dumps(metadata)
    rows = call(session, "broker_publish", topic=topic, payload=json.dumps(payload), **given)
    return int(rows[0][0])


def tick(session: Session) -> int:
    """Number what was committed; how many events."""
    return int(ask(session, "select trunkline.broker_tick()"))


def head(session: Session) -> int:
    return int(ask(session, "select trunkline.broker_head()"))


def events(session: Session, from_position: int = 1, **given: Any) -> list[Found]:
    """Events from a position on, in order."""
    given.setdefault("max_events", 10_000)
    rows = call(session, "broker_events", from_position=from_position, **given)
    return [Found(*row) for row in rows]


def payloads(session: Session, from_position: int = 1, **given: Any) -> list[Any]:
    """Number what was committed; the payloads from a position on, in order."""
    tick(session)
    return [event.payload for event in events(session, from_position, **given)]
