/* The next events from a position on, when they are not large, and stand with their ticks in the current slots, as those do
   that were published a moment ago; otherwise NULL.  A few need not be laid down anywhere to be matched. */
create or replace function trunkline._match_few(from_position bigint, max_events int)
returns trunkline.broker_match_event[] language plpgsql stable set enable_seqscan = off set enable_sort = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  tick_slot int := trunkline._ring_current('tick');
  event_slot int := trunkline._ring_current('event');
  numbered record;
  batch trunkline.broker_match_event[];
begin
  select array_agg(p.up_to) as positions, array_agg(p.xid) as xids, array_agg(p.seq) as seqs
    into numbered from trunkline._sequence_rows_here('event', tick_slot, from_position, max_events) p;
  select array_agg(row(p.up_to - from_position + 1, p.up_to, coalesce(e.event_id, e.seq), e.topic, e.key, e.payload, e.metadata, e.at, coalesce(e.subscription, -e.watch))::trunkline.broker_match_event)
    into batch
    from unnest(numbered.positions, numbered.xids, numbered.seqs) p (up_to, xid, seq)
   cross join lateral (select * from trunkline.event e where e.slot = event_slot and e.xid = p.xid and e.seq = p.seq
                          and pg_column_size(e.payload) + coalesce(pg_column_size(e.metadata), 0) < 2000 offset 0) e;
  return case when cardinality(batch) = cardinality(numbered.positions) then batch end;
end $$;
