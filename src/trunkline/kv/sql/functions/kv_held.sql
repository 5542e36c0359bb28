/* Keys that are held back because the clock that stamped them was too far ahead. */
create or replace function trunkline.kv_held()
returns table (namespace text, key text, stamped_for timestamptz, held_at timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select h.namespace, h.key, to_timestamp(h.stamp / 1000000.0), h.held_at from trunkline.kv_held h order by h.stamp, 1, 2;
$$;
comment on function trunkline.kv_held() is 'Keys that are held back because the clock that stamped them was too far ahead.';
select trunkline._access('kv_held()', 'reader');
