/* Write what was found as deliveries, numbered from a number on, and wake the groups: broker:group:<id>:<lanes>.  The last number.
   Places count the events from the position begin_at on; buckets has one for each place.  late: they may lie before those that were
   delivered already. */
create or replace function trunkline._match_deliver(after bigint, begin_at bigint, buckets int[], places int[], subscriptions bigint[], late boolean default false)
returns bigint language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  last_number bigint;
  woken text[];
begin
  with whose as materialized (  -- once for each subscription, however many events it gets
    select s.subscription, g.group_id, g.lanes
      from (select distinct u.subscription from unnest(_match_deliver.subscriptions) u (subscription)) u
      join trunkline.broker_subscription s on s.subscription = u.subscription join trunkline.broker_group g on g.group_id = s.group_id),
  lane as (
    select i.group_id, i.lane, count(*)::int as n, array_agg(begin_at + i.place - 1 order by i.place, i.subscription) as positions,
           array_agg(i.subscription order by i.place, i.subscription) as subscriptions
      from (select w.group_id, buckets[f.place] * w.lanes / 64 as lane, f.place, f.subscription
              from unnest(places, _match_deliver.subscriptions) f (place, subscription) join whose w using (subscription)) i
     group by 1, 2),
  numbered as (
    select l.*, after + 1 + sum(l.n) over (order by l.group_id, l.lane) - l.n as first from lane l),
  part as (
    -- around a thousand in a row, each event whole: a part begins with the first delivery of an event, found by halving
    select l.group_id, l.lane, l.first + p.done as first, p.until - p.done as n,
           l.positions[p.done + 1 : p.until] as positions, l.subscriptions[p.done + 1 : p.until] as subscriptions
      from numbered l
     cross join lateral (
       select 0 as done, l.n as until where l.n <= 1000
       union all
       select b.done, lead(b.done, 1, l.n) over (order by b.done)
         from (select distinct width_bucket(l.positions[g.place] - 1, l.positions) as done from generate_series(1, l.n, 1000) g (place) where l.n > 1000) b) p),
  written as (
    insert into trunkline.delivery (slot, group_id, lane, first, n, lowest, positions, subscriptions, at, late)
    select (select r.current from trunkline.ring r where r.ring = 'delivery'), p.group_id, p.lane,
           p.first, p.n, p.positions[1], p.positions, p.subscriptions, clock_timestamp(), _match_deliver.late
      from part p
    returning group_id, lane, first + n - 1 as last_one)
  select coalesce(max(w.last_one), after), array_agg(format('broker:group:%s:%s', w.group_id, w.lanes)) into last_number, woken
    from (select w.group_id, max(w.last_one) as last_one, string_agg(distinct w.lane::text, ',') as lanes from written w group by w.group_id) w;
  perform pg_notify('trunkline', w) from unnest(woken) w;
  return last_number;
end $$;
