/* Write what was found as deliveries, numbered from a number on, and wake the groups: broker:group:<id>:<lanes>.  The last number.
   Places count the events from the position begin_at on; buckets has one for each place. */
create or replace function trunkline._match_deliver(after bigint, begin_at bigint, buckets int[], places int[], subscriptions bigint[])
returns bigint language plpgsql as $$
declare
  last_number bigint;
  woken text[];
begin
  with item as (
    select g.group_id, buckets[f.place] * g.lanes / 64 as lane, begin_at + f.place - 1 as event_position, f.subscription, f.place
      from unnest(places, _match_deliver.subscriptions) f (place, subscription)
      join trunkline.broker_subscription s on s.subscription = f.subscription join trunkline.broker_group g using (group_id)),
  part as (
    select i.group_id, i.lane, (i.ordinal - 1) / 1000 as part, count(*)::int as n, min(i.event_position) as lowest,
           array_agg(i.event_position order by i.ordinal) as positions, array_agg(i.subscription order by i.ordinal) as subscriptions
      from (select item.*, row_number() over (partition by item.group_id, item.lane order by item.place, item.subscription) as ordinal from item) i
     group by 1, 2, 3),
  written as (
    insert into trunkline.delivery (slot, group_id, lane, first, n, lowest, positions, subscriptions, at)
    select (select r.current from trunkline.ring r where r.ring = 'delivery'), p.group_id, p.lane,
           after + 1 + sum(p.n) over (order by p.group_id, p.lane, p.part) - p.n, p.n, p.lowest, p.positions, p.subscriptions, clock_timestamp()
      from part p
    returning group_id, lane, first + n - 1 as last_one)
  select coalesce(max(w.last_one), after), array_agg(format('broker:group:%s:%s', w.group_id, w.lanes)) into last_number, woken
    from (select w.group_id, max(w.last_one) as last_one, string_agg(distinct w.lane::text, ',') as lanes from written w group by w.group_id) w;
  perform pg_notify('trunkline', w) from unnest(woken) w;
  return last_number;
end $$;
