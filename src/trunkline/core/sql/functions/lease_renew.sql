/* Say that a process lives; returns when the lease ends by the server's clock, at the earliest.
   Writes: one lease row per process, nothing per consumer or group. */
create or replace function trunkline.lease_renew(process uuid, name text default '')
returns timestamptz language sql security definer set search_path = pg_catalog, pg_temp as $$
  select trunkline._lease_renew(process, name, clock_timestamp());
$$;
comment on function trunkline.lease_renew(uuid, text) is
  'Say that a process lives; returns when its lease ends. Call it every third of lease.ttl.';
select trunkline._access('lease_renew(uuid, text)', 'reader');
