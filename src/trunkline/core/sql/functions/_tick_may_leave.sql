/* A slot of ticks may leave when each sequence has a later tick elsewhere and no reader needs its positions. */
create or replace function trunkline._tick_may_leave(ring text, slot int)
returns boolean language plpgsql as $$
declare
  kind record;
  needed bigint;
begin
  for kind in
    select t.sequence, max(t.tick) as newest, max(t.first_position + t.n) as beyond, q.keep_from
      from trunkline.tick t left join trunkline.sequence q using (sequence)
     where t.slot = _tick_may_leave.slot group by t.sequence, q.keep_from
  loop
    if kind.keep_from is null then
      continue;  -- the sequence is gone
    end if;
    execute format('select trunkline.%I()', kind.keep_from) into needed;
    if needed < kind.beyond or kind.newest = (trunkline._tick_latest(kind.sequence)).tick then
      return false;
    end if;
  end loop;
  return true;
end $$;
