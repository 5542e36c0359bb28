/* Find the matches of all conditions among the events at hand, in one statement: the functions that it calls are
   STABLE, so that all of them see the subscriptions of one moment. */
create or replace function trunkline._match_find()
returns void language plpgsql as $$
begin
  delete from pg_temp.trunkline_found;
  insert into pg_temp.trunkline_found (place, subscription)
  select b.place, s.subscription from pg_temp.trunkline_batch b join trunkline.broker_subscription s on s.subscription = b.subscription
  union all
  select r.place, r.subscription
    from trunkline.broker_condition c cross join lateral trunkline._match_run(c.kind, trunkline._match_statement(c)) r
   where exists (select from trunkline.broker_subscription_live s where s.condition_id = c.condition_id);
end $$;
