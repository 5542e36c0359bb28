/* Find the matches of all conditions among the events at hand, in one statement: the functions that it calls are
   STABLE, so that all of them see the subscriptions of one moment.  The events are those given, or, when that is NULL,
   those that were laid down. */
create or replace function trunkline._match_find(batch trunkline.broker_match_event[], out places int[], out subscriptions bigint[])
language plpgsql as $$
declare
  source text := 'unnest($1)';
  has_direct boolean;
begin
  if batch is null then
    source := 'pg_temp.trunkline_batch';
    has_direct := exists (select from pg_temp.trunkline_batch b where b.subscription is not null);
  else
    has_direct := exists (select from unnest(batch) b where b.subscription is not null);
  end if;
  select array_agg(f.place), array_agg(f.subscription) into places, subscriptions
    from (select r.place, r.subscription
            from trunkline._match_run('json', format('select b.place, s.subscription from %s b join trunkline.broker_subscription s on s.subscription = b.subscription', source), batch) r
           where has_direct
          union all
          select r.place, r.subscription
            from trunkline.broker_condition c cross join lateral trunkline._match_run(c.kind, trunkline._match_statement(c, source => source), batch) r
           where exists (select from trunkline.broker_subscription_live s where s.condition_id = c.condition_id)) f;
end $$;
