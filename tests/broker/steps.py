"""Short forms for tests that speak to the broker in SQL."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.fixtures.asking import ask, call, forget_prepared

if TYPE_CHECKING:
    from datetime import datetime

    from tests.fixtures.asking import Session

RUN_AS_MATCHER = (
    "_condition_run(text, trunkline.broker_match_event[])",
    "_condition_parse(text)",
)
"""The functions that belong to the role of conditions."""


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
    'webhook_log', 'broker_subscription_aside',
    'broker_topic', 'broker_group', 'broker_condition', 'broker_watched_table'] loop
    execute format('delete from trunkline.%I', name);
  end loop;
  update trunkline.config set value = default_value where value <> default_value;
  update trunkline.ring set current = 0, rotated_at = clock_timestamp(), held_since = null,
    held_by = null;
  perform setval('trunkline.event_slot', 0);
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
    forget_prepared(session)
    session.execute(SWEEP)
    session.execute("reset lock_timeout")
    return session


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
