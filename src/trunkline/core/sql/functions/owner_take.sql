/* Take a resource that no living process owns.  Returns the epoch to acknowledge with, the present one if
   the process owns it already, or NULL if another living process does, or while an acknowledgement is under way.
   A hand-over raises the epoch.  TL423 without a living lease.  A process that does the same work
   several times over tells its members apart by name.  TL403 for the process of another role, and for
   resources that Trunkline shares out itself (log:, broker:, live:, tube:, kv:) unless an admin asks. */
create or replace function trunkline.owner_take(resource text, process uuid, member text default '')
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform trunkline._lease_check_holder(process);
  if resource ~ '^(log|broker|live|tube|kv|gone):' and not trunkline._administers() then
    raise exception using errcode = 'TL403', message = format('the resource %s is shared out by Trunkline itself.', left(resource, 200)),
      hint = 'Give yours another prefix, for example app:.';
  end if;
  return trunkline._owner_take(resource, process, member, clock_timestamp());
end $$;
comment on function trunkline.owner_take(text, uuid, text) is
  'Take a resource that no living process owns: the epoch, or NULL if another living process owns it.';
select trunkline._access('owner_take(text, uuid, text)', 'writer');
