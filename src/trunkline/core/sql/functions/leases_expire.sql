/* A duty of maintain(): forget leases that ended ten minutes ago, and their places in parties; what they owned is
   free for anybody anyway.  Leases that were renewed while the clock was ahead end one lease.ttl from now. */
create or replace function trunkline.leases_expire()
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform trunkline._leases_expire(clock_timestamp());
  return false;
end $$;
comment on function trunkline.leases_expire() is 'Forget leases that ended long ago; a duty of maintain().';
select trunkline._access('leases_expire()', 'admin');
insert into trunkline.duty (duty, rank) values ('leases_expire', 80) on conflict do nothing;
