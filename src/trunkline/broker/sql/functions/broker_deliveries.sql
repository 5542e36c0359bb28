/* Deliveries of a group in a range of their numbers, in order: each an event and the subscription that it is for.  The
   number of a delivery never changes, so that a range gives the same whenever it is read.  Takes nothing, reads only.
   Errors: TL404, TL410 deliveries of the range, or their events, have left, TL422. */
create or replace function trunkline.broker_deliveries(group_name text, from_delivery bigint, to_delivery bigint)
returns table (delivery bigint, subscription bigint, event_position bigint, event_id bigint, topic text, key text, payload jsonb, metadata jsonb, at timestamptz)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
  readable int[] := trunkline._watch_readable(trunkline._caller());
  present trunkline.broker_group := trunkline._broker_group_for(group_name, 'consume');
  ahead record;
  given bigint;
begin
  if from_delivery is null or to_delivery is null then
    raise exception using errcode = 'TL422', message = 'from_delivery and to_delivery are numbers, got NULL.';
  elsif from_delivery < 1 then
    raise exception using errcode = 'TL422', message = format('deliveries begin at 1, got %s.', from_delivery);
  elsif from_delivery <= greatest(present.trimmed_to, present.left_to) then
    perform trunkline._broker_refuse_left(present, from_delivery - 1,
      format('Begin with the first there is: from_delivery => %s.', greatest(present.trimmed_to, present.left_to) + 1));
  end if;
  select array_agg(d.first + u.place - 1) as numbers, array_agg(u.subscription) as subscriptions, array_agg(u.at_position) as positions into ahead
    from generate_series(0, present.lanes - 1) l (lane)
   cross join lateral (
     select r.first, r.positions, r.subscriptions from trunkline.delivery r
      where r.group_id = present.group_id and r.lane = l.lane and r.first <= to_delivery
        and r.first >= coalesce((select b.first from trunkline.delivery b where b.group_id = present.group_id and b.lane = l.lane and b.first <= from_delivery
                                  order by b.first desc limit 1), 0)) d
   cross join lateral unnest(d.positions, d.subscriptions) with ordinality u (at_position, subscription, place)
   where d.first + u.place - 1 between from_delivery and to_delivery;
  return query
    select a.number, a.subscription, e.event_position, e.event_id, e.topic, e.key, e.payload, e.metadata, e.at
      from unnest(ahead.numbers, ahead.subscriptions, ahead.positions) a (number, subscription, at_position)
      join trunkline._event_rows(ahead.positions) e on e.event_position = a.at_position
     where e.watch is null or coalesce(e.watch = any (readable), true)
     order by a.number;
  get diagnostics given = row_count;
  if given < coalesce(cardinality(ahead.numbers), 0)
     and (select count(*) from trunkline._event_rows(ahead.positions)) < (select count(distinct p) from unnest(ahead.positions) p) then
    perform trunkline._event_left((select min(p) from unnest(ahead.positions) p));
  end if;
end $$;
comment on function trunkline.broker_deliveries(text, bigint, bigint) is 'Deliveries of a group in a range of their numbers, in order.';
select trunkline._access('broker_deliveries(text, bigint, bigint)', 'reader');
