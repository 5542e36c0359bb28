/* Do half of the slots of a ring wait to be emptied? */
create or replace function trunkline._ring_half_left(ring text)
returns boolean language sql stable as $$
  select 2 * count(s.left_at) >= least(count(*), trunkline._setting(format('ring.%s.slots', $1))::int) from trunkline.ring_slot s where s.ring = $1;
$$;
