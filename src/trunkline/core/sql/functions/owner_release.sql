/* Give a resource back.  Returns whether it was still held with that epoch.  TL403 when the process of another role holds it.  Waits for acknowledgements under way. */
create or replace function trunkline.owner_release(resource text, epoch bigint)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform trunkline._lock_briefly();
  perform trunkline._lease_check_holder(o.process) from trunkline.owner o where o.resource = $1 and o.epoch = $2 and o.process is not null;
  update trunkline.owner o set process = null, since = clock_timestamp()
   where o.resource = $1 and o.epoch = $2 and o.process is not null;
  return found;
end $$;
comment on function trunkline.owner_release(text, bigint) is 'Give a resource back; false if the epoch is not the present one.';
select trunkline._access('owner_release(text, bigint)', 'writer');
