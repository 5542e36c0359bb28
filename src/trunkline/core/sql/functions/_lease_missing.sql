/* Is the lock of a process free?  It is held by the session that its lease is tied to.
   Locks: if it is free, the lock shared, until the transaction ends. */
create or replace function trunkline._lease_missing(process uuid)
returns boolean language sql volatile as $$
  select pg_try_advisory_xact_lock_shared(trunkline.lease_key($1));
$$;
