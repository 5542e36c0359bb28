/* TL410 when entries of a lane in a range of positions have left the ring.  Only acknowledged ones do. */
create or replace function trunkline._tube_check_there(tube trunkline.tube, lane int, priority int, from_position bigint, to_position bigint)
returns void language plpgsql stable as $$
declare
  first_one bigint := (select min(t.first_position) from trunkline.tick t where t.sequence = 'tube_entry');
begin
  if greatest(from_position, 1) < first_one
     or exists (select from trunkline._tube_positions(tube, lane, priority, from_position, to_position) p
                 where not exists (select from trunkline.tube_entry e where e.xid = p.xid and e.seq = p.seq)) then
    raise exception using errcode = 'TL410', message = format('entries of tube "%s" from position %s on have left: they were acknowledged.', tube.tube, from_position),
      hint = 'Read from the position after the acknowledged one.', detail = jsonb_build_object('acknowledged', trunkline._tube_position(tube, lane, priority))::text;
  end if;
end $$;
