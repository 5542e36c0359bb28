/* Copy cursors whose last word stands in a slot that was left into the current one, so that the slot may leave;
   at most a thousand, because their rows stay locked until commit.  Skips cursors that are being moved:
   moving them carries them too.  Returns how many it copied. */
create or replace function trunkline._cursor_carry()
returns int language plpgsql as $$
declare
  left_slots int[] := array(select s.slot from trunkline.ring_slot s where s.ring = 'cursor' and s.left_at is not null);
  key bigint;
  latest trunkline.cursor;
  carried int := 0;
begin
  perform trunkline._isolation_check('Carrying cursors');
  for key in select k.cursor_id from trunkline.cursor_key k
              where (trunkline._cursor_latest(k.cursor_id)).slot = any (left_slots) limit 1000 loop
    perform 1 from trunkline.cursor_key k where k.cursor_id = key for no key update skip locked;
    continue when not found;
    latest := trunkline._cursor_latest(key);
    if latest.slot = any (left_slots) then
      perform trunkline._cursor_write(key, latest.up_to, latest.state);
      carried := carried + 1;
    end if;
  end loop;
  return carried;
end $$;
