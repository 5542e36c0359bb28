/* broker_fetch for a reader that need not be registered. */
create or replace function trunkline._broker_fetch(present trunkline.broker_group, reader trunkline.broker_handler, lanes int[], after bigint[], max_events int)
returns table (lane int, up_to bigint, event_position bigint, event_id bigint, topic text, key text, payload jsonb, metadata jsonb, at timestamptz, subscriptions bigint[], blocked boolean)
language plpgsql stable set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
begin
  if lanes is null or after is null or cardinality(lanes) <> cardinality(after) or max_events is null or max_events < 1
     or exists (select from unnest(lanes) l where l is null or l not between 0 and present.lanes - 1) then
    perform trunkline._raise('TL422', format('lanes are numbers from 0 to %s, each with the delivery to begin after; max_events is at least 1.', present.lanes - 1));
  elsif exists (select from unnest(after) a where a < present.trimmed_to) then
    perform trunkline._broker_refuse_trimmed(present, (select min(a) from unnest(after) a));
  end if;
  return query
    with ahead as materialized (
      select l.lane, d.first, d.first + d.done + u.place - 1 as number, u.at_position, u.subscription
        from unnest(lanes, after) l (lane, after)
       cross join lateral (
         select f.*, greatest(l.after - f.first + 1, 0)::int as done from (
           select r.first, r.n, r.positions, r.subscriptions, sum(r.n) over (order by r.first) as up_to_here from trunkline.delivery r
            where r.group_id = present.group_id and r.lane = l.lane and r.first + r.n - 1 > l.after
              and r.first >= coalesce((select b.first from trunkline.delivery b where b.group_id = present.group_id and b.lane = l.lane and b.first <= l.after + 1
                                        order by b.first desc limit 1), 0)
            order by r.first limit max_events) f
          where f.up_to_here - f.n <= case when reader.subscriptions is null then max_events else greatest(max_events, 1000) end) d
       cross join lateral unnest(d.positions[d.done + 1 :], d.subscriptions[d.done + 1 :]) with ordinality u (at_position, subscription, place)),
    wanted as (
      select w.* from (
        select a.lane, max(a.number) as number, a.at_position, array_agg(a.subscription order by a.number) as subscriptions,
               row_number() over (partition by a.lane order by max(a.number)) as rank
          from ahead a where reader.subscriptions is null or a.subscription = any (reader.subscriptions)
         group by a.lane, a.first, a.at_position) w
       where w.rank <= max_events),
    seen as (
      select a.lane, case when count(w.lane) < max_events then max(a.number) end as number from (select h.lane, max(h.number) as number from ahead h group by h.lane) a
        left join wanted w on w.lane = a.lane group by a.lane)
    select w.lane, w.number, w.at_position, e.event_id, e.topic, e.key, e.payload, e.metadata, e.at, w.subscriptions,
           reader.ordering = 'strict' and e.key is not null and exists (
             select from trunkline.broker_retry r where r.group_id = present.group_id and r.handler = reader.handler and r.key = e.key)
      from wanted w left join trunkline._event_rows(array(select x.at_position from wanted x)) e on e.event_position = w.at_position
    union all
    select s.lane, s.number, null, null, null, null, null, null, null, null, null from seen s
     where s.number > coalesce((select max(w.number) from wanted w where w.lane = s.lane), 0)
     order by 1, 2;
end $$;
