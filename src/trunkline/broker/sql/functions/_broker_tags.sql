/* Positions beyond one, each with the hash of its topic.  Reads the ticks, not the events. */
create or replace function trunkline._broker_tags(after bigint)
returns table (event_position bigint, tag bigint) language sql stable as $$
  select t.first_position + u.place - 1, u.tag
    from trunkline.tick t cross join lateral unnest(t.tags) with ordinality u (tag, place)
   where t.sequence = 'event'
     and t.first_position >= coalesce((select b.first_position from trunkline.tick b
           where b.sequence = 'event' and b.first_position <= least(after, 9223372036854775806) + 1 order by b.first_position desc limit 1), 0)
     and t.first_position + u.place - 1 > after;
$$;
