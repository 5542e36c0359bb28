/* The number of this life of the server: tokens and Spark checkpoints carry it. */
create or replace function trunkline.incarnation()
returns int language sql security definer set search_path = pg_catalog, pg_temp as $$
  select (trunkline._incarnation_row()).incarnation;
$$;
comment on function trunkline.incarnation() is 'The number of this life of the server.';
select trunkline._access('incarnation()', 'reader');
