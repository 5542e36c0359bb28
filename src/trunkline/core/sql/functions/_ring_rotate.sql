/* Let the next free slot take the rows if the current one has had its time and holds any.  Locks only the row of the ring.
   A slot is free when it is not waiting to be emptied; rows that came late stand in some, and do no harm.  A ring in which none may be late has a
   function named as _tick_still() is, which waits for its writer, no longer than maintain.lock_timeout, and keeps it waiting until this transaction ends.
   When rows are needed for so long that no slot is free, the current one lasts as long as all the older ones together, and then the ring
   gets another slot: a year takes about twenty, and what leaves first is never more than half of all.
   A ring with many writers may have a sequence named as event_slot is, which has the current slot without a query. */
create or replace function trunkline._ring_rotate(ring text, now_ timestamptz)
returns boolean language plpgsql as $$
declare
  state trunkline.ring;
  slots int := trunkline._setting(format('ring.%s.slots', ring));
  pause interval := trunkline._setting(format('ring.%s.rotate_every', ring));
  still text := format('trunkline.%I()', '_' || ring || '_still');
  copy regclass := to_regclass(format('trunkline.%I', ring || '_slot'));
  before text := current_setting('lock_timeout');
  in_use boolean;
  next_slot int;
  oldest timestamptz;
begin
  perform trunkline._isolation_check('Rotating a ring');
  select r.* into state from trunkline.ring r where r.ring = _ring_rotate.ring for no key update skip locked;
  if not found then
    return false;
  end if;
  if slots > (select count(*) from trunkline.ring_slot s where s.ring = _ring_rotate.ring) then
    perform trunkline._ring_grow(ring, slots);
  end if;
  if pg_sequence_last_value(copy) <> state.current then
    perform setval(copy, state.current);
  end if;
  if now_ < state.rotated_at + pause then
    return false;
  end if;
  execute format('select exists (select from trunkline.%I)', ring || '_' || state.current) into in_use;
  if not in_use then
    return false;
  end if;
  select s.slot into next_slot from trunkline.ring_slot s
   where s.ring = _ring_rotate.ring and s.left_at is null and s.slot <> state.current and s.slot < slots
   order by s.slot < state.current, s.slot limit 1;
  if not found then
    select coalesce(min(s.slot) filter (where s.left_at is null and s.slot <> state.current), max(s.slot) + 1), min(s.left_at) into next_slot, oldest
      from trunkline.ring_slot s where s.ring = _ring_rotate.ring;
    update trunkline.ring r
       set held_since = coalesce(r.held_since, now_), held_by = coalesce(r.held_by, 'rows that are needed or not yet numbered')
     where r.ring = _ring_rotate.ring and (r.held_since is null or r.held_by is null);
    if now_ < state.rotated_at + (state.rotated_at - oldest) or next_slot >= 256 then
      return false;
    end if;
    perform trunkline._ring_grow(ring, next_slot + 1);
  end if;
  if to_regprocedure(still) is not null then
    begin
      perform set_config('lock_timeout', ceil(1000 * extract(epoch from trunkline._setting('maintain.lock_timeout')::interval))::int || 'ms', true);
      execute 'select ' || still;
      perform set_config('lock_timeout', before, true);
    exception when lock_not_available then
      return false;  -- another time
    end;
  end if;
  update trunkline.ring_slot s set left_at = now_ where s.ring = _ring_rotate.ring and s.slot = state.current;
  update trunkline.ring r set current = next_slot, rotated_at = now_ where r.ring = _ring_rotate.ring;
  perform setval(copy, next_slot);  -- at once, and for good: whoever goes by it too early or too late only writes to another slot
  return true;
end $$;
