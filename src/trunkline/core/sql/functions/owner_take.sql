/* Take a resource that nobody living owns.  Returns the epoch to acknowledge with, the present one if
   the process owns it already, or NULL if another living process does.  A hand-over raises the epoch
   and waits for acknowledgements under way.  TL423 without a living lease.  A process that does the same work
   several times over tells its members apart by name. */
create or replace function trunkline.owner_take(resource text, process uuid, member text default '')
returns bigint language sql security definer set search_path = pg_catalog, pg_temp as $$
  select trunkline._owner_take(resource, process, member, clock_timestamp());
$$;
comment on function trunkline.owner_take(text, uuid, text) is
  'Take a resource that nobody living owns: the epoch, or NULL if another living process owns it.';
select trunkline._access('owner_take(text, uuid, text)', 'writer');
