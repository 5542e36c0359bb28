/* The query that finds the matches of one condition among the events at hand: place and subscription.  Subscriptions
   are found by the hash of what must be equal, where the condition has such a part.
   With one subscription given, for that alone, whether it is matched with the others or catches up. */
create or replace function trunkline._match_statement(condition trunkline.broker_condition, alone trunkline.broker_subscription default null)
returns text language sql stable as $$
  select format('select e.place, s.subscription from pg_temp.trunkline_batch e join %s on %s where e.subscription is null and e.event_position >= s.from_position and (%s)',
    case when alone.subscription is null then 'trunkline.broker_subscription_live s'
         else format('(select %L::bigint as subscription, %L::text as group_name, %L::jsonb as params, %L::bigint as from_position) s', alone.subscription,
                (select g.group_name from trunkline.broker_group g where g.group_id = alone.group_id), alone.params, alone.from_position) end,
    case when alone.subscription is null then format('s.condition_id = %s', condition.condition_id)
              || coalesce(' and s.key_hash = hash_record_extended(' || condition.event_key || ', 0)', '')
         else format('e.event_position is distinct from %L', alone.error_position) end,
    condition.expression);
$$;
