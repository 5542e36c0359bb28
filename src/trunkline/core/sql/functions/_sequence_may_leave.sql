/* A slot of numbered rows may leave when all its rows are numbered and no reader needs them.
   A row that came late is not seen by the tick that _sequence_note() noted: then the note is taken anew. */
create or replace function trunkline._sequence_may_leave(ring text, slot int)
returns boolean language plpgsql as $$
declare
  last trunkline.tick := trunkline._tick_latest(ring);
  noted trunkline.tick := last;
  note trunkline.ring_slot;
  keeper text;
  needed bigint;
begin
  if last.tick is null then
    return false;
  end if;
  perform trunkline._sequence_note(ring, last);
  if trunkline._sequence_beyond(ring, slot, last) then
    return false;
  end if;
  select s.* into strict note from trunkline.ring_slot s
   where s.ring = _sequence_may_leave.ring and s.slot = _sequence_may_leave.slot;
  noted.snapshot := note.snapshot;
  if note.snapshot is null or note.xid_space <> last.xid_space or trunkline._sequence_beyond(ring, slot, noted) then
    update trunkline.ring_slot s
       set snapshot = last.snapshot, xid_space = last.xid_space, up_to = last.first_position + last.n - 1
     where s.ring = _sequence_may_leave.ring and s.slot = _sequence_may_leave.slot
    returning s.* into note;
  end if;
  select q.keep_from into strict keeper from trunkline.sequence q where q.sequence = _sequence_may_leave.ring;
  execute format('select trunkline.%I()', keeper) into needed;
  return needed is null or needed > note.up_to;
end $$;
