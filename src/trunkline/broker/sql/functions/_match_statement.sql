/* The query that finds the matches of one condition among the events at hand: place and subscription.  Subscriptions
   are found by the hash of what must be equal, where the condition has such a part: OFFSET 0 lets no statistics decide
   otherwise, and lets the condition see only the rows that are meant for it, so that it fails on no others.
   With one subscription given, for that alone, whether it is matched with the others or catches up; ranges leave only
   some of the events and subscriptions.  Those that are set aside while their rows are held are left out, and so are events
   of watched tables that none of the roles may read that have subscribed: see _match_hide().
   source: where the events at hand are. */
create or replace function trunkline._match_statement(condition trunkline.broker_condition, alone trunkline.broker_subscription default null,
  places int4range default '(,)', among int8range default '(,)', source text default 'pg_temp.trunkline_batch')
returns text language sql stable as $$
  select format($sql$
    select e.place, s.subscription
      from (select b.place, b.event_position, b.event_id, b.topic, b.key, b.payload, b.metadata, b.at, null::bigint as subscription, -b.subscription as watch from %s b
             where (b.subscription is null or b.subscription < 0) and b.place <@ %L::int4range and b.event_position is distinct from %L offset 0) e
      cross join lateral (%s offset 0) s
     where case when e.event_position >= s.from_position%s then (%s) end $sql$, source, places, alone.error_position,
    case when alone.subscription is null
         then format('select * from trunkline.broker_subscription_live l where l.condition_id = %s and l.subscription <@ %L::int8range', condition.condition_id, among)
              || coalesce(' and l.key_hash = hash_record_extended(' || condition.event_key || ', 0)', '')
              || coalesce((select format(' and l.subscription <> all (%L::bigint[])', array_agg(a.subscription)) from trunkline.broker_subscription_aside a having count(*) > 0), '')
         else format('select %L::bigint as subscription, %L::text as group_name, %L::jsonb as params, %L::bigint as from_position, %L::name[] as owners', alone.subscription,
                (select g.group_name from trunkline.broker_group g where g.group_id = alone.group_id), alone.params, alone.from_position, alone.owners) end,
    case when coalesce(current_setting('trunkline.match_hidden', true), '') not in ('', '{}')
         then format(' and (e.watch is null or s.owners = ''{}'' or exists (select from unnest(s.owners) o where (o || '' '' || e.watch) <> all (%L::text[])))', current_setting('trunkline.match_hidden')) else '' end,
    condition.expression);
$$;
