"""The least that storing and reading record batches can cost, beside which ours is shown.

One table that is known beforehand has the columns and indexes of a segment. A function locks a row,
reads the tail, numbers the batch and stores it: no segment to find, no checks, no producers, no
lives of the server. A reader selects the batches, decodes them as our client does, and notes how
far it has come in one durable row that nothing guards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from psycopg.rows import class_row

from trunkline.log.batches import StoredBatch
from trunkline.log.bench.baseline import SCHEMA
from trunkline.log.decoding import DecodedBatch, decode

if TYPE_CHECKING:
    from trunkline.log.batches import PackedBatch

_TABLES = f"""
drop table if exists {SCHEMA}.batch, {SCHEMA}.held, {SCHEMA}.place;
create table {SCHEMA}.batch (like trunkline.log_batch including all);
create table {SCHEMA}.held (id int primary key);
insert into {SCHEMA}.held values (1);
create table {SCHEMA}.place (turn bigint generated always as identity primary key, up_to bigint);
create or replace function {SCHEMA}.least_append(n int, value_ends bytea, payload bytea)
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  tail bigint;
begin
  perform 1 from {SCHEMA}.held h where h.id = 1 for no key update;
  select b.last_offset into tail from {SCHEMA}.batch b order by b.base_offset desc limit 1;
  tail := coalesce(tail, 0);
  insert into {SCHEMA}.batch
    (base_offset, last_offset, at, n, incarnation, format, codec, value_ends, payload)
  values (tail + 1, tail + n, clock_timestamp(), n, 1, 1, 0, value_ends, payload);
  return tail + 1;
end $$;
"""

_READ = f"""
select format, codec, incarnation, base_offset, last_offset, n, at, value_ends, payload,
       value_valid, key_ends, keys, key_valid, deltas, event_ids, headers, 0 as skip, n as take
  from {SCHEMA}.batch where base_offset > %b order by base_offset limit %b
"""


class Least:
    """One connection and one table, made anew."""

    def __init__(self, dsn: str):
        self._connection = psycopg.connect(dsn, autocommit=True)
        self._connection.execute(_TABLES)
        self._connection.prepare_threshold = 0
        self._reader = self._connection.cursor(binary=True, row_factory=class_row(StoredBatch))

    def append(self, batch: PackedBatch) -> int:
        """Number a batch and store it; how many messages that were."""
        values = (batch.n, batch.value_ends, batch.payload)
        self._connection.execute(f"select {SCHEMA}.least_append(%b, %b, %b)", values)
        return batch.n

    def read(self, after: int, batches: int) -> list[DecodedBatch]:
        """The batches after an offset."""
        return [decode(row) for row in self._reader.execute(_READ, (after, batches))]

    def commit(self, up_to: int) -> None:
        """Note durably how far it was read."""
        self._connection.execute(f"insert into {SCHEMA}.place (up_to) values (%s)", [up_to])

    def close(self) -> None:
        """Close the connection; the tables go with the baseline's."""
        self._connection.close()
