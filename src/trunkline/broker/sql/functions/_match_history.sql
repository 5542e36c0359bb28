/* Match the next part of the history for one subscription, write what is found as deliveries, and note how far it has come,
   which may be less than max_events; the last number.
   An event on which its condition fails is the end of that part, so that each that is left out later lies behind it.
   NULL when the condition failed on the first: it is in quarantine then, with error and event. */
create or replace function trunkline._match_history(late trunkline.broker_subscription, max_events int, delivered bigint)
returns bigint language plpgsql as $$
declare
  condition trunkline.broker_condition;
  found_ record;
  reached bigint;
  bad_place int;
  trouble text;
begin
  if max_events < 1 then
    return delivered;
  end if;
  reached := trunkline._match_take(late.caught_up_to + 1, max_events);
  select c.* into strict condition from trunkline.broker_condition c where c.condition_id = late.condition_id;
  begin
    select array_agg(r.place) as places, array_agg(r.subscription) as subscriptions into found_ from trunkline._match_run(condition.kind, trunkline._match_statement(condition, late)) r;
  exception when others then
    trouble := format('%s (%s)', sqlerrm, sqlstate);
  end;
  if trouble is not null then
    bad_place := trunkline._match_first_bad(condition, late);
    if bad_place > 1 then
      return trunkline._match_history(late, bad_place - 1, delivered);
    end if;
    perform trunkline._broker_quarantine(late.subscription, trouble, late.caught_up_to + bad_place, late.caught_up_to);
    return null;
  end if;
  update trunkline.broker_subscription s set caught_up_to = reached where s.subscription = late.subscription;
  return trunkline._match_deliver(delivered, late.caught_up_to + 1, trunkline._match_buckets(null), found_.places, found_.subscriptions, late => true);
end $$;
