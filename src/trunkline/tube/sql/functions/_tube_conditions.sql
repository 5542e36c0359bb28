/* The conditions of an attachment and its tube as one expression over a row r; NULL when there is none. */
create or replace function trunkline._tube_conditions(attached trunkline.tube_table)
returns text language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select nullif(concat_ws(' and ', '(' || t.condition || E'\n)', '(' || attached.condition || E'\n)'), '') from trunkline.tube t where t.tube_id = attached.tube_id;
$$;
select trunkline._access('_tube_conditions(trunkline.tube_table)', 'reader');
