/* Run one condition over the next events, without any effect: to find the one that takes too long.  Its errors are told
   as text, a timeout is raised.  Errors: TL404, TL422. */
create or replace function trunkline.broker_match_try(condition_id int, max_events int default 100)
returns text language plpgsql security definer set search_path = pg_catalog, pg_temp set jit = off as $$
declare
  condition trunkline.broker_condition;
begin
  if max_events is null or max_events < 1 then
    raise exception using errcode = 'TL422', message = format('max_events is at least 1, got %s.', coalesce(max_events::text, 'NULL'));
  end if;
  select c.* into condition from trunkline.broker_condition c where c.condition_id = broker_match_try.condition_id;
  if not found then
    raise exception using errcode = 'TL404', message = format('there is no condition %s.', coalesce(condition_id::text, 'NULL'));
  end if;
  perform trunkline._match_prepare();
  perform trunkline._match_take(trunkline._broker_matched() + 1, max_events);
  return trunkline._match_fails(condition, null, int4range(1, null));
end $$;
comment on function trunkline.broker_match_try(int, int) is 'Run one condition over the next events, without any effect.';
select trunkline._access('broker_match_try(int, int)', 'admin');
