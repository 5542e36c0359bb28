/* The number of this schema, and the oldest package that it serves.  Clients compare both with theirs when they
   connect.  schema rises with each release whose package needs something that older schemas lack; oldest_client rises
   when a function, parameter or output column is removed that packages of a lower number use. */
create or replace function trunkline.compatibility()
returns table (schema int, oldest_client int)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select 1, 1;
$$;
comment on function trunkline.compatibility() is 'The number of this schema, and the oldest package that it serves.';
select trunkline._access('compatibility()', 'public');
