/* The highest position of a change that is numbered; 0 before the first. */
create or replace function trunkline.kv_head()
returns bigint language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select coalesce(max(h.first_position + h.n - 1), 0) from trunkline._tick_latest('kv_change') h;
$$;
comment on function trunkline.kv_head() is 'The highest position of a change that is numbered.';
select trunkline._access('kv_head()', 'reader');
