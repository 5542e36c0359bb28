/* Tables that are live by their comment. */
create or replace function trunkline._live_tagged()
returns setof trunkline.live_table language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select t.* from trunkline.live_table t where t.tagged;
$$;
select trunkline._access('_live_tagged()', 'reader');
