/* A process serves live subscriptions no longer: all of them end.  Returns how many. */
create or replace function trunkline.live_leave(process uuid)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  ended int;
begin
  perform trunkline._lease_check_holder(process);
  delete from trunkline.live_subscription s where s.process = live_leave.process;
  get diagnostics ended = row_count;
  delete from trunkline.live_process p where p.process = live_leave.process;
  return ended;
end $$;
comment on function trunkline.live_leave(uuid) is 'A process serves live subscriptions no longer: all of them end.';
select trunkline._access('live_leave(uuid)', 'reader');
