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
    has_direct := exists (select from pg_temp.trunkline_batch b where b.subscription > 0);
  else
    has_direct := exists (select from unnest(batch) b where b.subscription > 0);
  end if;
  with wanted as (
    select c.kind, trunkline._match_statement(c, source => source) as statement from trunkline.broker_condition c
     where exists (select from trunkline.broker_subscription_live s where s.condition_id = c.condition_id)
    union all
    select 'json', format('select b.place, s.subscription from %s b join trunkline.broker_subscription s on s.subscription = b.subscription', source)
     where has_direct)
  select array_agg(f.place), array_agg(f.subscription) into places, subscriptions
    from (select r.place, r.subscription from wanted w cross join lateral trunkline._condition_run(w.statement, batch) r where w.kind = 'sql'
          union all
          select r.place, r.subscription from wanted w cross join lateral trunkline._match_run(w.kind, w.statement, batch) r where w.kind <> 'sql') f;
end $$;
