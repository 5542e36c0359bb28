/* How many messages of a compacted batch lie below an offset. */
create or replace function trunkline._log_skip(deltas bytea, distance bigint)
returns int language sql immutable as $$
  select count(*)::int from generate_series(0, octet_length(deltas) / 4 - 1) i where trunkline._log_int(deltas, i) < distance;
$$;
