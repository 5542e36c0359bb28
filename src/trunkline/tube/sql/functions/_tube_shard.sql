/* The shard of a row r: computed, 0 when that gives NULL or a negative number; NULL for a table with a fixed one. */
create or replace function trunkline._tube_shard(attached trunkline.tube_table)
returns text language sql immutable as $$
  select coalesce('greatest(coalesce((' || attached.shard_expression || E'\n)::int, 0), 0)', 'null::int');
$$;
select trunkline._access('_tube_shard(trunkline.tube_table)', 'reader');
