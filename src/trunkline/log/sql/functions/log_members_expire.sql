/* A duty of maintain(): forget members and leases of processes that ended long ago without a word. */
create or replace function trunkline.log_members_expire()
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  delete from trunkline.log_member m where not exists (
    select from trunkline.lease l where l.process = m.process and l.expires > clock_timestamp() - interval '10 minutes');
  return false;
end $$;
comment on function trunkline.log_members_expire() is 'Forget group members whose process ended long ago; a duty of maintain().';
select trunkline._access('log_members_expire()', 'admin');
insert into trunkline.duty (duty, rank) values ('log_members_expire', 50) on conflict do nothing;
