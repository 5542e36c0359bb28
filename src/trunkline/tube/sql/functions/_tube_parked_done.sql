/* Forget parked keys that entries of a lane in a range of positions have touched after they were parked: they were delivered, or they would have
   been parked again. */
create or replace function trunkline._tube_parked_done(tube trunkline.tube, lane int, priority int, from_position bigint, to_position bigint)
returns void language sql as $$
  delete from trunkline.tube_parked p
   where p.tube_id = tube.tube_id and p.shard % tube.lanes = lane
     and exists (select from trunkline._tube_positions(tube, lane, priority, from_position, to_position) n
                   join trunkline.tube_entry e on e.xid = n.xid and e.seq = n.seq
                  where coalesce(e.attachment, 0) = p.attachment and e.shard = p.shard and p.key = any (e.keys) and e.at > p.parked_at);
$$;
