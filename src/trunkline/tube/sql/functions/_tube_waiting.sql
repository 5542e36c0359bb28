/* How many entries of a lane wait in a range of positions, and the time of the tick of the first. */
create or replace function trunkline._tube_waiting(tube trunkline.tube, lane int, priority int, from_position bigint, to_position bigint, out n bigint, out oldest timestamptz)
language sql stable as $$
  select count(*), (select t.at from trunkline.tick t where t.sequence = 'tube_entry' and t.first_position <= min(p.up_to) order by t.first_position desc limit 1)
    from trunkline._tube_positions(tube, lane, priority, from_position, to_position) p;
$$;
