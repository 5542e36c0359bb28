/* The attachments of a tube whose tables are there. */
create or replace function trunkline._tube_tables(tube_id int)
returns setof trunkline.tube_table language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select a.* from trunkline.tube_table a
   where a.tube_id = $1 and a.detached_at is null and exists (select from pg_class c where c.oid = a.relation) order by a.attachment;
$$;
select trunkline._access('_tube_tables(int)', 'reader');
