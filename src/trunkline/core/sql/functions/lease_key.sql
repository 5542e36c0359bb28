/* The key of the advisory lock that a session of a process holds for as long as the process is there. */
create or replace function trunkline.lease_key(process uuid)
returns bigint language sql immutable as $$
  select hashtextextended('trunkline.lease ' || $1::text, 0);
$$;
comment on function trunkline.lease_key(uuid) is 'The key of the advisory lock that says that a process is there.';
select trunkline._access('lease_key(uuid)', 'reader');
