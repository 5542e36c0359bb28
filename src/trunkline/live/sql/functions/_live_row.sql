/* A live table; NULLs where it is none. */
create or replace function trunkline._live_row(relation regclass)
returns trunkline.live_table language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select t.* from trunkline.live_table t where t.relation = $1;
$$;
select trunkline._access('_live_row(regclass)', 'reader');
