/* Say that a process serves live subscriptions, before it reads them; returns its generation.  It is another one when the lease of the
   process ran out meanwhile: its subscriptions are gone then, see live_read().  Errors: TL423 no living lease. */
create or replace function trunkline.live_enter(process uuid)
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present bigint;
begin
  if process is null or not trunkline._lease_living(process) then
    raise exception using errcode = 'TL423', message = format('process %s has no living lease.', coalesce(process::text, 'NULL')),
      hint = 'Take one with lease_renew().';
  end if;
  loop  -- until nobody who expires it comes in between
    select p.generation into present from trunkline.live_process p where p.process = live_enter.process;
    exit when found;
    insert into trunkline.live_process (process) values (live_enter.process) on conflict do nothing;
  end loop;
  return present;
end $$;
comment on function trunkline.live_enter(uuid) is 'Say that a process serves live subscriptions; its generation.';
select trunkline._access('live_enter(uuid)', 'reader');
