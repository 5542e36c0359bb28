/* The conditions of an attachment and its tube, ready to be appended to a where clause. */
create or replace function trunkline._tube_conditions(attached trunkline.tube_table)
returns text language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select concat(' and (' || t.condition || E'\n)', ' and (' || attached.condition || E'\n)') from trunkline.tube t where t.tube_id = attached.tube_id;
$$;
select trunkline._access('_tube_conditions(trunkline.tube_table)', 'reader');
