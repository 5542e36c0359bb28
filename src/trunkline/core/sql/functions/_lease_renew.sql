/* lease_renew with the clock given, for tests. */
create or replace function trunkline._lease_renew(process uuid, name text, now_ timestamptz)
returns timestamptz language plpgsql as $$
declare
  until timestamptz := now_ + trunkline._setting('lease.ttl')::interval;
begin
  perform trunkline._lock_briefly();
  insert into trunkline.lease as l (process, name, started_at, renewed_at, expires, role)
  values (_lease_renew.process, coalesce(_lease_renew.name, ''), now_, now_, until, trunkline._caller())
  on conflict on constraint lease_pkey do update
     set expires = greatest(l.expires, excluded.expires),
         renewed_at = case when excluded.expires >= l.expires then excluded.renewed_at else l.renewed_at end;
  return until;
end $$;
