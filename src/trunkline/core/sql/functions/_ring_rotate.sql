/* ring_rotate with the clock given, for tests. */
create or replace function trunkline._ring_rotate(ring text, now_ timestamptz)
returns boolean language plpgsql as $$
declare
  state trunkline.ring;
  slots int := trunkline._setting(format('ring.%s.slots', ring));
  pause interval := trunkline._setting(format('ring.%s.rotate_every', ring));
  in_use boolean;
  next_slot int;
  other int;
begin
  select r.* into state from trunkline.ring r where r.ring = _ring_rotate.ring for no key update skip locked;
  if not found then
    return false;
  end if;
  if slots > (select count(*) from trunkline.ring_slot s where s.ring = _ring_rotate.ring) then
    perform trunkline._ring_grow(ring, slots);
  end if;
  -- slots that were left give their disk back as soon as their rule allows
  for other in select s.slot from trunkline.ring_slot s
                where s.ring = _ring_rotate.ring and s.left_at is not null and s.slot <> state.current
                order by s.left_at loop
    perform trunkline._ring_free(ring, other);
  end loop;
  if now_ < state.rotated_at + pause then
    return false;
  end if;
  execute format('select exists (select from trunkline.%I)', ring || '_' || state.current) into in_use;
  if not in_use then
    return false;
  end if;
  next_slot := (state.current + 1) % slots;
  if not trunkline._ring_free(ring, next_slot) then
    return false;
  end if;
  update trunkline.ring_slot s set left_at = now_ where s.ring = _ring_rotate.ring and s.slot = state.current;
  update trunkline.ring r set current = next_slot, rotated_at = now_ where r.ring = _ring_rotate.ring;
  return true;
end $$;
