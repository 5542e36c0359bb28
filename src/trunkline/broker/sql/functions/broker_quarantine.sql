/* Set subscriptions aside whose condition takes too long: all that are matched with a condition, or, without one, that
   which catches up with the history.  They go on with broker_resume().  Returns how many. */
create or replace function trunkline.broker_quarantine(error text, condition_id int default null)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  late trunkline.broker_subscription;
  matched bigint;
  many int;
begin
  -- a round under way would find matches that are found again later
  perform trunkline._cursor_hold('broker:matcher');
  late := trunkline._match_late_held();
  matched := trunkline._broker_matched();
  -- no event is to blame: none is left out when they are resumed
  perform trunkline._broker_quarantine(s.subscription, broker_quarantine.error, null, matched)
     from trunkline.broker_subscription s
    where s.quarantined_at is null
      and case when broker_quarantine.condition_id is null then s.subscription = late.subscription
               else s.condition_id = broker_quarantine.condition_id and s.caught_up_to is null end;
  get diagnostics many = row_count;
  return many;
end $$;
comment on function trunkline.broker_quarantine(text, int) is 'Set subscriptions aside whose condition takes too long.';
select trunkline._access('broker_quarantine(text, int)', 'admin');
