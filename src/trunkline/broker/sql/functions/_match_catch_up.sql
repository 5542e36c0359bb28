/* Match a part of the history for one subscription that began earlier, or was quarantined.  When it has come to where the
   matcher stands it is matched with all others.  The last delivery number. */
create or replace function trunkline._match_catch_up(late trunkline.broker_subscription, max_events int, up_to bigint, delivered bigint)
returns bigint language plpgsql as $$
declare
  reached bigint := late.caught_up_to;
  condition trunkline.broker_condition;
  statement text;
  trouble text;
begin
  delete from pg_temp.trunkline_found;
  if max_events > 0 then
    reached := coalesce(trunkline._match_take(late.caught_up_to + 1, max_events), up_to);
    select c.* into strict condition from trunkline.broker_condition c where c.condition_id = late.condition_id;
    statement := trunkline._match_statement(condition, late);
    begin
      insert into pg_temp.trunkline_found (place, subscription)
      select r.place, r.subscription from trunkline._match_run(condition.kind, statement) r;
    exception when others then
      trouble := format('%s (%s)', sqlerrm, sqlstate);
    end;
    if trouble is not null then
      perform trunkline._broker_quarantine(late.subscription, trouble, late.caught_up_to + trunkline._match_first_bad(condition.kind, statement), late.caught_up_to);
      return delivered;
    end if;
    delivered := trunkline._match_deliver(delivered);
  end if;
  update trunkline.broker_subscription s
     set caught_up_to = case when reached < up_to then reached end, from_position = case when reached < up_to then s.from_position else up_to + 1 end
   where s.subscription = late.subscription;
  return delivered;
end $$;
