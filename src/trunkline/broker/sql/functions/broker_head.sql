/* The highest position that is numbered; 0 before the first. */
create or replace function trunkline.broker_head()
returns bigint language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select coalesce(max(h.first_position + h.n - 1), 0) from trunkline._tick_latest('event') h;
$$;
comment on function trunkline.broker_head() is 'The highest position that is numbered.';
select trunkline._access('broker_head()', 'reader');
