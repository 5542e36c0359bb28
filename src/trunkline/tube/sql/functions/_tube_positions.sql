/* Positions of one lane and priority in a range: where its entries are.  Reads the ticks, not the entries. */
create or replace function trunkline._tube_positions(tube trunkline.tube, lane int, priority int, from_position bigint, to_position bigint)
returns table (up_to bigint, xid xid8, seq bigint) language sql stable as $$
  select t.first_position + u.place - 1, u.xid, u.seq
    from trunkline.tick t cross join lateral unnest(t.xids, t.seqs, t.tags) with ordinality u (xid, seq, tag, place)
   where t.sequence = 'tube_entry' and t.first_position <= to_position
     and t.first_position >= coalesce((select b.first_position from trunkline.tick b
           where b.sequence = 'tube_entry' and b.first_position <= from_position order by b.first_position desc limit 1), 0)
     and u.tag >> 31 = tube.tube_id::bigint * 2 + priority and (u.tag & 2147483647) % tube.lanes = lane
     and t.first_position + u.place - 1 between from_position and to_position
   order by 1;
$$;
