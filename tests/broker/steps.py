"""Short forms for tests that speak to the broker in SQL."""

from __future__ import annotations

import json
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from psycopg import sql
from tests.fixtures.asking import ask, column

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


SWEEP = """
do $$
declare
  name text;
begin
  for name in select nspname from pg_namespace
               where nspname !~ '^pg_' and nspname not in ('trunkline', 'information_schema') loop
    execute format('drop schema %I cascade', name);
  end loop;
  perform trunkline.log_delete(t.topic) from trunkline.log_topic t;
  foreach name in array array[  -- TRUNCATE of every slot of every ring would take longer
    'lease', 'owner', 'party', 'tick', 'cursor', 'cursor_key', 'event', 'event_due', 'delivery',
    'webhook_log',
    'broker_topic', 'broker_group', 'broker_condition', 'broker_watched_table'] loop
    execute format('delete from trunkline.%I', name);
  end loop;
  update trunkline.config set value = default_value where value <> default_value;
  update trunkline.ring set current = 0, rotated_at = clock_timestamp(), held_since = null,
    held_by = null;
  update trunkline.ring_slot
     set left_at = null, free_since = null, snapshot = null, xid_space = null, up_to = null
   where coalesce(left_at, free_since) is not null or snapshot is not null;
  perform setval(s.seqrelid::regclass, 1, false) from pg_sequence s
     join pg_class c on c.oid = s.seqrelid
    where c.relname in ('event_seq', 'broker_group_group_id_seq',
      'broker_subscription_subscription_seq', 'broker_condition_condition_id_seq',
      'broker_webhook_webhook_seq');
  perform trunkline._cursor_write(
    trunkline._cursor_ensure('broker:matcher'), 0, '{"deliveries": 0}');
end $$;
create schema public;
grant usage on schema public to public;
"""


def swept(session: Session) -> Session:
    """Remove what an earlier test left."""
    session.execute("set lock_timeout = '5s'")
    for gid in column(
        session, "select gid from pg_prepared_xacts where database = current_database()"
    ):
        session.execute(sql.SQL("rollback prepared {}").format(gid))
    session.execute(SWEEP)
    session.execute("reset lock_timeout")
    return session


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
