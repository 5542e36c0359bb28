"""The design that ours is compared with: a row per message and a counter row.

Written as its author meant it and as fast as psycopg allows: one statement per append with a binary
array, offsets reserved by the update of a counter row; a claim that moves the group's row and knows
the old and the new value, the range read in the same transaction, which commits durably: what its
reader did before that happens at least once. A message is what the author's reader selects of it:
its offset, its payload and when it was written. What the document gets wrong (a claim computed from
the new value alone) is right here; what it does needlessly (a second unique index, a transaction
around a single statement, reading the column ``id`` as well) is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

SCHEMA = "bench_seed"

_TABLES = f"""
drop schema if exists {SCHEMA} cascade;
create schema {SCHEMA};
create table {SCHEMA}.topicpartition (
  id bigserial primary key,
  log_offset bigint unique not null,
  payload bytea not null,
  created_at timestamptz not null default now()
) with (autovacuum_analyze_scale_factor = 0.05);
create table {SCHEMA}.log_counter (id int primary key, next_offset bigint not null);
insert into {SCHEMA}.log_counter values (1, 1);
create table {SCHEMA}.consumer_offsets (
  group_id text primary key, next_offset bigint not null default 1
);
"""

_APPEND = f"""
with reserved as (
  update {SCHEMA}.log_counter set next_offset = next_offset + %b
   where id = 1 returning next_offset - %b as first_offset)
insert into {SCHEMA}.topicpartition (log_offset, payload)
select r.first_offset + p.place - 1, p.payload
  from reserved r, unnest(%b::bytea[]) with ordinality p (payload, place)
"""

_CLAIM = f"""
with tip as (
  select next_offset - 1 as last_offset from {SCHEMA}.log_counter where id = 1),
held as (
  select next_offset from {SCHEMA}.consumer_offsets where group_id = %s for update)
update {SCHEMA}.consumer_offsets c
   set next_offset = held.next_offset
                   + least(%s::bigint, greatest(0, tip.last_offset - held.next_offset + 1))
  from tip, held
 where c.group_id = %s
returning held.next_offset, c.next_offset - 1
"""

_READ = f"""
select log_offset, payload, created_at from {SCHEMA}.topicpartition
 where log_offset between %b and %b order by log_offset
"""


class Baseline:
    """One connection that appends and claims."""

    def __init__(self, dsn: str):
        self._writer = psycopg.connect(dsn, autocommit=True)
        self._reader = psycopg.connect(dsn)
        self._writer.prepare_threshold = 0
        self._reader.prepare_threshold = 0

    def create(self) -> None:
        """Make the tables anew, empty."""
        self._writer.execute(_TABLES, prepare=False)

    def drop(self) -> None:
        """Leave nothing behind."""
        self._writer.execute(f"drop schema if exists {SCHEMA} cascade")

    def append(self, payloads: Sequence[bytes]) -> int:
        """Append in one statement, which is one transaction; how many messages that were."""
        n = len(payloads)
        self._writer.execute(_APPEND, (n, n, payloads))
        return n

    def start(self, group: str) -> None:
        """Put a group before the first message."""
        self._writer.execute(
            f"insert into {SCHEMA}.consumer_offsets (group_id) values (%s)"
            " on conflict (group_id) do update set next_offset = 1",
            [group],
        )

    def claim(self, group: str, most: int) -> list[tuple[int, bytes, datetime]]:
        """Claim up to ``most`` messages and read them, in one transaction."""
        cursor = self._reader.cursor(binary=True)
        row = cursor.execute(_CLAIM, (group, most, group)).fetchone()
        assert row is not None
        first, last = row
        messages: list[Any] = []
        if first <= last:
            messages = cursor.execute(_READ, (first, last)).fetchall()
        self._reader.commit()
        return messages

    def analyze(self) -> None:
        """Give the planner its statistics."""
        self._writer.execute(f"analyze {SCHEMA}.topicpartition")

    def close(self) -> None:
        """Close the connections."""
        self._reader.close()
        self._writer.close()
