/* The last tick of a sequence, without its arrays: they may be long, and every poll asks this.  It stands in the slot that
   takes ticks now, unless none came there yet: _tick_still() lets no tick be late.
   The plan is kept by the session: it must not rest on statistics of a slot that was empty. */
create or replace function trunkline._tick_latest(sequence text)
returns trunkline.tick language plpgsql stable set enable_seqscan = off set plan_cache_mode = force_generic_plan as $$
declare
  latest trunkline.tick;
  here int := (select r.current from trunkline.ring r where r.ring = 'tick');
begin
  select t.slot, t.sequence, t.tick, t.first_position, t.n, t.xid_space, t.spaces_before, t.snapshot, t.at
    into latest.slot, latest.sequence, latest.tick, latest.first_position, latest.n, latest.xid_space,
         latest.spaces_before, latest.snapshot, latest.at
    from trunkline.tick t where t.sequence = _tick_latest.sequence and t.slot = here order by t.tick desc limit 1;
  if not found then
    select t.slot, t.sequence, t.tick, t.first_position, t.n, t.xid_space, t.spaces_before, t.snapshot, t.at
      into latest.slot, latest.sequence, latest.tick, latest.first_position, latest.n, latest.xid_space,
           latest.spaces_before, latest.snapshot, latest.at
      from trunkline.tick t where t.sequence = _tick_latest.sequence order by t.tick desc limit 1;
  end if;
  return latest;
end $$;
