/* Objects without an owner: they are older than owners, or the role of their owner no longer exists. */
create or replace function trunkline.doctor_objects()
returns table (object text, owner name) language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select o.object, o.owner from trunkline.object o
   where not starts_with(o.name, 'trunkline.') and not exists (select from pg_roles r where r.rolname = o.owner) order by o.object;
$$;
comment on function trunkline.doctor_objects() is 'Objects whose owner is not set or no longer exists.';
select trunkline._access('doctor_objects()', 'reader');
