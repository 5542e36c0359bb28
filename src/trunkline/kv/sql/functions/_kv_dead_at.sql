/* From when on nobody can read a key; NULL when it lives for ever. */
create or replace function trunkline._kv_dead_at(value jsonb, stamp bigint, expires_at timestamptz, counted_until timestamptz)
returns timestamptz language sql immutable as $$
  select nullif(greatest(case when value is null then to_timestamp(stamp / 1000000.0) else coalesce(expires_at, 'infinity') end,
                         coalesce(counted_until, '-infinity')), 'infinity');
$$;
