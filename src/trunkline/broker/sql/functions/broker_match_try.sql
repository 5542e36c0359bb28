/* Run one condition over the next events, without any effect: to find the one that takes too long.  Its errors are told
   as text, a timeout is raised.  TL404. */
create or replace function trunkline.broker_match_try(condition_id int, max_events int default 100)
returns text language plpgsql security definer set search_path = pg_catalog, pg_temp set jit = off as $$
declare
  condition trunkline.broker_condition;
begin
  select c.* into condition from trunkline.broker_condition c where c.condition_id = broker_match_try.condition_id;
  if not found then
    perform trunkline._raise('TL404', format('there is no condition %s.', condition_id));
  end if;
  perform trunkline._match_prepare();
  perform trunkline._match_take(trunkline._broker_matched() + 1, max_events);
  return trunkline._match_fails(condition, null, int4range(1, max_events, '[]'));
end $$;
comment on function trunkline.broker_match_try(int, int) is 'Run one condition over the next events, without any effect.';
select trunkline._access('broker_match_try(int, int)', 'admin');
