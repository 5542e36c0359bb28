/* Tie a lease to this session: when the session ends, the process is taken for dead within about a second, not after
   lease.ttl.  Before, take the lock on the same connection: pg_try_advisory_lock(lease_key(process)).
   backend is the pid of the server's session as the driver knows it (PQbackendPID); a pooler tells another.
   Returns whether the lease is tied to the session now.  If not (the lock is not held here, the session is a pooler's,
   the lease is gone), the lease lasts until it expires, as without a session.  TL403 as lease_end. */
create or replace function trunkline.lease_attend(process uuid, backend int)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  lock_key bigint := trunkline.lease_key(process);
  held boolean := backend = pg_backend_pid() and exists (
    select from pg_locks k join pg_database d on d.oid = k.database
     where k.locktype = 'advisory' and k.pid = pg_backend_pid() and d.datname = current_database() and k.mode = 'ExclusiveLock'
       and k.granted and k.objsubid = 1 and k.classid::bigint = (lock_key >> 32 & 4294967295) and k.objid::bigint = (lock_key & 4294967295));
begin
  perform trunkline._lease_check_holder(process);
  perform trunkline._lock_briefly();
  update trunkline.lease l set session_since = case when held then clock_timestamp() end, missing_since = null
   where l.process = lease_attend.process;
  return held and found;
end $$;
comment on function trunkline.lease_attend(uuid, int) is 'Tie a lease to this session, which holds the lock of the process: it ends with the session.';
select trunkline._access('lease_attend(uuid, int)', 'reader');
