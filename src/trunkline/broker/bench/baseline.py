"""The plain design of the document that the broker grew out of, in SQL, as quick as it can be made.

Events are inserted; a statement trigger puts their ids into a table of what is unread; a poller
takes them out of it by DELETE, joins them with the subscriptions, and writes one row per event and
subscription; a group reads those from where it was. The document's own table of what is unread is
UNLOGGED and loses what was acknowledged when the server crashes. Here it is logged, as ours is.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = "bench_broker"

_SCRIPT = """
drop schema if exists bench_broker cascade;
create schema bench_broker;
set search_path = bench_broker;
create sequence ids;
create function new_id() returns text language sql volatile as $$
  select 'pm' || lpad(to_hex((extract(epoch from clock_timestamp()) * 1000000)::bigint), 13, '0')
              || lpad(to_hex(nextval('bench_broker.ids') & 268435455), 9, '0')
$$;
create table events (
  id varchar(24) primary key default bench_broker.new_id(),
  topic varchar(255) not null, payload jsonb not null, metadata jsonb, subscription_id bigint
) with (autovacuum_enabled = off);
create table unread_events (event_id varchar(24) primary key) with (
  autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_cost_delay = 0);
create function mark_unread() returns trigger language plpgsql as $$
begin
  insert into bench_broker.unread_events select n.id from added n;
  return null;
end $$;
create trigger unread after insert on events referencing new table as added
  for each statement execute function bench_broker.mark_unread();
create table subscriptions (
  id bigint generated always as identity primary key, group_id varchar(48) not null,
  conditions_sql text not null, params jsonb not null);
create index on subscriptions using gin (params jsonb_path_ops) with (fastupdate = off);
create table subscription_events (
  id bigint generated always as identity, group_id varchar(48) not null,
  event_id varchar(24) not null, subscription_id bigint not null
) with (autovacuum_enabled = off);
create index on subscription_events (group_id, id);
create table groups (id varchar(48) primary key, last_read bigint not null);
create function poll(most int) returns bigint language plpgsql as $$
declare
  written bigint;
begin
  with taken as (
    select u.event_id from bench_broker.unread_events u order by u.event_id
       for update skip locked limit most),
  gone as (
    delete from bench_broker.unread_events u using taken t where u.event_id = t.event_id
    returning u.event_id)
  insert into bench_broker.subscription_events (group_id, event_id, subscription_id)
  select s.group_id, e.id, s.id
    from gone g join bench_broker.events e on e.id = g.event_id
    join bench_broker.subscriptions s
      on e.subscription_id is null and {condition}
   order by e.id;
  get diagnostics written = row_count;
  return written;
end $$;
"""
_READ = """
select e.id, e.topic, e.payload, e.metadata, array_agg(r.subscription_id), max(r.id)
  from (select * from bench_broker.subscription_events
         where group_id = %s and id > %s order by id limit %s) r
  join bench_broker.events e on e.id = r.event_id
 group by e.id
"""


class Baseline:
    """Connections of its own to tables of its own."""

    def __init__(self, dsn: str):
        self._dsn = dsn
        self.connection = psycopg.connect(dsn, autocommit=True)

    def create(self, condition: str) -> None:
        """Make the tables anew; ``condition`` is what all subscriptions ask, over e and s."""
        self.connection.execute(sql.SQL(_SCRIPT).format(condition=sql.SQL(condition)))
        self.connection.execute("reset search_path")

    def subscribe(self, group: str, params: str, n: int) -> None:
        """Subscriptions of a group: ``params`` is an expression over the number g."""
        self.connection.execute(
            sql.SQL(
                "insert into bench_broker.subscriptions (group_id, conditions_sql, params)"
                " select {group}, 'one', {params} from generate_series(1, {n}) g"
            ).format(group=group, params=sql.SQL(params), n=n)
        )
        self.connection.execute("insert into bench_broker.groups values (%s, 0)", [group])
        self.connection.execute("analyze bench_broker.subscriptions")

    def publish(self, rows: str, n: int) -> None:
        """Insert events in one statement: ``rows`` selects topic and payload over the number g."""
        self.connection.execute(
            sql.SQL(
                "insert into bench_broker.events (topic, payload) select {rows}"
                " from generate_series(1, {n}) g"
            ).format(rows=sql.SQL(rows), n=n),
            prepare=True,
        )

    def poll(self, most: int = 10_000) -> int:
        """One poll; how many rows of event and subscription it wrote."""
        row = self.connection.execute(
            "select bench_broker.poll(%s)", [most], prepare=True
        ).fetchone()
        assert row is not None
        return int(row[0])

    def read(self, group: str, most: int = 10_000) -> int:
        """What is new for a group, and move on; how many events."""
        with self.connection.transaction():
            row = self.connection.execute(
                "select last_read from bench_broker.groups where id = %s for update", [group]
            ).fetchone()
            assert row is not None
            rows = self.connection.execute(_READ, [group, row[0], most], prepare=True).fetchall()
            if rows:
                self.connection.execute(
                    "update bench_broker.groups set last_read = %s where id = %s",
                    [max(found[-1] for found in rows), group],
                )
        return len(rows)

    def drop(self) -> None:
        """Remove the tables."""
        self.connection.execute("drop schema if exists bench_broker cascade")

    def close(self) -> None:
        """Let go of the connection."""
        self.connection.close()


@contextmanager
def baseline(dsn: str, condition: str) -> Iterator[Baseline]:
    """The plain design for the length of a block."""
    made = Baseline(dsn)
    try:
        made.create(condition)
        yield made
        made.drop()
    finally:
        made.close()


def table_bytes(connection: psycopg.Connection[Any], schema: str, pattern: str) -> int:
    """What the tables of a schema take on disk, with their indexes."""
    row = connection.execute(
        "select coalesce(sum(pg_total_relation_size(c.oid)), 0) from pg_class c"
        " where c.relnamespace = %s::regnamespace and c.relkind = 'r' and c.relname ~ %s",
        [schema, pattern],
    ).fetchone()
    assert row is not None
    return int(row[0])
