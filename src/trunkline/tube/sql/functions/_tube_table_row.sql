/* The attachment of a table to a tube; NULLs when there is none. */
create or replace function trunkline._tube_table_row(tube_id int, relation regclass)
returns trunkline.tube_table language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select a.* from trunkline.tube_table a where a.tube_id = $1 and a.relation = $2 and a.detached_at is null;
$$;
select trunkline._access('_tube_table_row(int, regclass)', 'reader');
