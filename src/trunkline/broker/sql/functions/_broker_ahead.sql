/* What lies ahead of readers in lanes, each after a delivery, at most so many events of each: broker_fetch() says what the rows
   are.  place is that of the lane in the arrays.  Ticks and events are looked up for all of them together.  Readers who keep up
   find everything in the current slot of deliveries, whose deliveries are later than all others: see _delivery_still().
   Events of watched tables are for roles that may read them: readers pass over others. */
create or replace function trunkline._broker_ahead(readers trunkline.broker_handler[], lanes int[], after bigint[], most int[])
returns table (place int, up_to bigint, event_position bigint, event_id bigint, topic text, key text, payload jsonb, metadata jsonb, at timestamptz, subscriptions bigint[], blocked boolean)
language plpgsql stable set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  from_slot int := trunkline._ring_current('delivery');
  to_slot int := from_slot;
begin
  if exists (select from unnest(after) a where a < (select max(s.up_to) from trunkline.ring_slot s where s.ring = 'delivery'))
     and exists (select from unnest(readers, lanes, after) l (group_id, handler, subscriptions, ordering, created_at, lane, after)
                  where l.after < (select d.first + d.n - 1 from trunkline.delivery d
                          where d.slot <> from_slot and d.group_id = l.group_id and d.lane = l.lane order by d.first desc limit 1)) then
    from_slot := 0;
    to_slot := 2147483647;
  end if;
  return query
    with asked as materialized (
      select a.* from unnest(readers, lanes, after, most) with ordinality
             a (group_id, handler, subscriptions, ordering, created_at, lane, after, most, place)),
    ahead as materialized (
      select l.place, l.subscriptions as chosen, l.most, d.first, d.first + d.done + u.place - 1 as number, u.at_position, u.subscription
        from asked l
       cross join lateral (
         select f.*, greatest(l.after - f.first + 1, 0)::int as done from (
           select r.first, r.n, r.positions, r.subscriptions, sum(r.n) over (order by r.first) as up_to_here from trunkline.delivery r
            where r.slot between from_slot and to_slot and r.group_id = l.group_id and r.lane = l.lane and r.first + r.n - 1 > l.after
              and r.first >= coalesce((select b.first from trunkline.delivery b where b.slot between from_slot and to_slot and b.group_id = l.group_id and b.lane = l.lane and b.first <= least(l.after, 9223372036854775806) + 1
                                        order by b.first desc limit 1), 0)
            order by r.first limit l.most) f
          where f.up_to_here - f.n <= case when l.subscriptions is null then l.most else greatest(l.most, 1000) end) d
       cross join lateral unnest(d.positions[d.done + 1 :], d.subscriptions[d.done + 1 :]) with ordinality u (at_position, subscription, place)),
    wanted as (
      select w.* from (
        select a.place, a.most, max(a.number) as number, a.at_position, array_agg(a.subscription order by a.number) as subscriptions,
               row_number() over (partition by a.place order by max(a.number)) as rank
          from ahead a where a.chosen is null or a.subscription = any (a.chosen)
         group by a.place, a.most, a.first, a.at_position) w
       where w.rank <= w.most),
    found as materialized (
      select w.place, w.number, w.at_position, w.subscriptions, e.event_id, e.topic, e.key, e.payload, e.metadata, e.at, e.watch
        from wanted w left join trunkline._event_rows(array(select x.at_position from wanted x)) e on e.event_position = w.at_position),
    senders as materialized (  -- a webhook gets what its owner may read
      select l.place, trunkline._watch_readable(o.owner) as readable
        from asked l join trunkline.object o on o.object = l.handler and o.kind = 'webhook' where o.owner is not null),
    visible as (
      select f.* from found f
       where f.watch is null
          or coalesce(f.watch = any ((select trunkline._watch_readable(trunkline._caller()))::int[]), true) and not exists (select from senders s where s.place = f.place and f.watch <> all (s.readable))),
    seen as (
      select a.place, case when count(f.place) < a.most then a.number else max(f.number) end as number,
             coalesce((select max(v.number) from visible v where v.place = a.place), 0) as given
        from (select h.place, h.most, max(h.number) as number from ahead h group by h.place, h.most) a
        left join found f on f.place = a.place group by a.place, a.most, a.number)
    select v.place::int, v.number, v.at_position, v.event_id, v.topic, v.key, v.payload, v.metadata, v.at, v.subscriptions,
           l.ordering = 'strict' and v.key is not null and exists (
             select from trunkline.broker_retry r where r.group_id = l.group_id and r.handler = l.handler and r.key = v.key)
      from visible v join asked l on l.place = v.place
    union all
    select s.place::int, s.number, null, null, null, null, null, null, null, null, null from seen s where s.number > s.given
     order by 1, 2;
end $$;
