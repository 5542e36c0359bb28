/* A process leaves in good order: what it owned is free at once.  Returns how many things that were.  Waits for no
   acknowledgement under way: what that is about can be had when its transaction has ended.
   TL403 unless the one who is logged in took the lease, may act for who did, or is an admin. */
create or replace function trunkline.lease_end(process uuid)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  freed int;
begin
  perform trunkline._lease_check_holder(process);
  perform trunkline._lock_briefly();
  with free as (select o.resource from trunkline.owner o where o.process = lease_end.process for no key update skip locked)
  update trunkline.owner o set process = null, since = clock_timestamp() from free f where o.resource = f.resource;
  get diagnostics freed = row_count;
  delete from trunkline.party p where p.process = lease_end.process;
  delete from trunkline.lease l where l.process = lease_end.process;
  return freed;
end $$;
comment on function trunkline.lease_end(uuid) is 'A process leaves in good order: what it owned is free at once.';
select trunkline._access('lease_end(uuid)', 'reader');
