/* The events behind deliveries of a lane, as a handler sees them: subscriptions that are not its own are left out.
   One that is named twice is there once. */
create or replace function trunkline._broker_deliveries(reader trunkline.broker_handler, lane int, deliveries bigint[])
returns table (delivery bigint, event_position bigint, subscriptions bigint[])
language plpgsql stable set enable_seqscan = off as $$
begin
  return query
    select w.delivery, d.positions[w.delivery - d.first + 1],
           array(select s.subscription from unnest(d.positions, d.subscriptions) s (event_position, subscription)
                  where s.event_position = d.positions[w.delivery - d.first + 1]
                    and (reader.subscriptions is null or s.subscription = any (reader.subscriptions))
                  order by 1)
      from (select distinct unnest(deliveries)) w (delivery)
      cross join lateral (
        select r.* from trunkline.delivery r
         where r.group_id = reader.group_id and r.lane = _broker_deliveries.lane and r.first <= w.delivery
         order by r.first desc limit 1) d
     where w.delivery < d.first + d.n;
end $$;
