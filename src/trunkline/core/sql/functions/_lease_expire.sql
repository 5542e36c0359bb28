/* Let the lease of a process run out now, as that of one that died and was waited for, for tests.  TL403 as lease_end. */
create or replace function trunkline._lease_expire(process uuid)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform trunkline._lease_check_holder(process);
  update trunkline.lease l set expires = clock_timestamp() where l.process = _lease_expire.process;
end $$;
comment on function trunkline._lease_expire(uuid) is 'Let the lease of a process run out now, as that of one that died.';
select trunkline._access('_lease_expire(uuid)', 'reader');
