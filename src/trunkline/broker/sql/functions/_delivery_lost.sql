/* What leaves with a slot of deliveries before these groups have read it: how much of each, the first, the last, and whether
   it is worth an event.  It is not when nothing but such events leaves: they would be about each other for ever.
   A delivery is read when every handler that it is for has committed it; without any handler, when it was numbered before the
   group was made.  What trimmed_to tells of was counted before. */
create or replace function trunkline._delivery_lost(child text, groups int[])
returns table (group_id int, lost bigint, lost_first bigint, lost_last bigint, worth_telling boolean)
language plpgsql stable as $$
begin
  return query execute format($sql$
    with behind as materialized (
      select g.group_id, g.lanes, g.begins_after, g.trimmed_to, exists (select from trunkline.broker_handler h where h.group_id = g.group_id) as handled
        from trunkline.broker_group g where g.group_id = any ($1)),
    reader as materialized (
      select b.group_id, l.lane, h.subscriptions, trunkline._broker_position(h.group_id, h.handler, l.lane) as up_to
        from behind b join trunkline.broker_handler h using (group_id) cross join lateral generate_series(0, b.lanes - 1) l (lane)),
    unread as materialized (
      select d.group_id, d.first + u.place - 1 as number, u.event_position
        from trunkline.%1$I d join behind b using (group_id)
       cross join lateral unnest(d.positions, d.subscriptions) with ordinality u (event_position, subscription, place)
       where d.first + u.place - 1 > b.trimmed_to
         and case when b.handled
                  then exists (select from reader r where r.group_id = d.group_id and r.lane = d.lane and r.up_to < d.first + u.place - 1
                                  and (r.subscriptions is null or u.subscription = any (r.subscriptions)))
                  else d.first + u.place - 1 > b.begins_after end),
    told as materialized (
      select t.first_position + u.place - 1 as event_position
        from (select min(u.event_position) as low, max(u.event_position) as high from unread u) r
       cross join lateral (
         select t.first_position, t.tags from trunkline.tick t
          where t.sequence = 'event' and t.first_position <= r.high and hashtextextended('trunkline.group.trimmed', 0) = any (t.tags)
            and t.first_position >= coalesce((select b.first_position from trunkline.tick b
                  where b.sequence = 'event' and b.first_position <= r.low order by b.first_position desc limit 1), 0)) t
       cross join lateral unnest(t.tags) with ordinality u (tag, place)
       where u.tag = hashtextextended('trunkline.group.trimmed', 0))
    select u.group_id, count(*), min(u.number), max(u.number), bool_or(u.event_position not in (select t.event_position from told t))
      from unread u group by u.group_id $sql$, child) using groups;
end $$;
