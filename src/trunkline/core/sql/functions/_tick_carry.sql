/* Note the last snapshot of sequences anew whose last tick stands in a slot that was left, so that the slot may leave
   though nothing comes to be numbered any more: an empty tick, after which everything goes on as from the one before.
   Skips sequences that are being numbered: that carries them too.  Returns how many it noted. */
create or replace function trunkline._tick_carry()
returns int language plpgsql as $$
declare
  left_slots int[] := array(select s.slot from trunkline.ring_slot s where s.ring = 'tick' and s.left_at is not null);
  name text;
  last trunkline.tick;
  carried int := 0;
begin
  perform trunkline._isolation_check('Carrying ticks');
  foreach name in array array(select s.sequence from trunkline.sequence s order by s.sequence) loop
    continue when (trunkline._tick_latest(name)).slot <> all (left_slots);
    perform 1 from trunkline.sequence s where s.sequence = name for no key update skip locked;
    continue when not found;
    last := trunkline._tick_latest(name);
    if last.slot = any (left_slots) then
      insert into trunkline.tick (slot, sequence, tick, first_position, n, xid_space, spaces_before, snapshot, xids, seqs, at)
      values (trunkline._ring_current('tick'), name, last.tick + 1, last.first_position + last.n, 0, last.xid_space, last.spaces_before,
              last.snapshot, '{}', '{}', greatest(clock_timestamp(), last.at));
      carried := carried + 1;
    end if;
  end loop;
  return carried;
end $$;
