/* Say that a process lives; returns when the lease ends by the server's clock, at the earliest.
   Writes: one lease row per process, nothing per consumer or group.  TL403 for the process of another role. */
create or replace function trunkline.lease_renew(process uuid, name text default '')
returns timestamptz language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform trunkline._lease_check_holder(process);
  return trunkline._lease_renew(process, name, clock_timestamp());
end $$;
comment on function trunkline.lease_renew(uuid, text) is
  'Say that a process lives; returns when its lease ends. Call it every third of lease.ttl.';
select trunkline._access('lease_renew(uuid, text)', 'reader');
