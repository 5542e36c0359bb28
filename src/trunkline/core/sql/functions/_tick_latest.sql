/* The last tick of a sequence, without its arrays: they may be long, and every poll asks this.
   The plan is kept by the session: it must not rest on statistics of a slot that was empty. */
create or replace function trunkline._tick_latest(sequence text)
returns trunkline.tick language plpgsql stable set enable_seqscan = off as $$
declare
  latest trunkline.tick;
begin
  select t.slot, t.sequence, t.tick, t.first_position, t.n, t.xid_space, t.spaces_before, t.snapshot, t.at
    into latest.slot, latest.sequence, latest.tick, latest.first_position, latest.n, latest.xid_space,
         latest.spaces_before, latest.snapshot, latest.at
    from trunkline.tick t where t.sequence = _tick_latest.sequence order by t.tick desc limit 1;
  return latest;
end $$;
