/* Note for slots that take no rows any more the first tick that had seen all of theirs: no row of them has a higher
   position.  Taken while they wait for older slots to leave; in a new life of the server it is taken anew. */
create or replace function trunkline._sequence_note(ring text, last trunkline.tick)
returns void language plpgsql as $$
begin
  update trunkline.ring_slot s
     set snapshot = last.snapshot, xid_space = last.xid_space, up_to = last.first_position + last.n - 1
   where s.ring = _sequence_note.ring and s.left_at is not null and (s.snapshot is null or s.xid_space <> last.xid_space)
     and not trunkline._sequence_beyond(s.ring, s.slot, last);
end $$;
