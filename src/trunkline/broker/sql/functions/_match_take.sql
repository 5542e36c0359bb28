/* Lay the events of a range of positions ready for matching; the last position of the range. */
create or replace function trunkline._match_take(from_position bigint, max_events int)
returns bigint language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  numbered record;
  slots text;
begin
  delete from pg_temp.trunkline_batch;
  -- kept apart from the look-up, which is planned each time: planning over the slots of ticks takes longer than reading them
  select max(p.up_to) as last_one, min(p.xid) as lowest, max(p.xid) as highest,
         array_agg(p.up_to) as positions, array_agg(p.xid) as xids, array_agg(p.seq) as seqs
    into numbered from trunkline._sequence_rows('event', from_position, max_events) p;
  slots := trunkline._sequence_slots('event', numbered.lowest, numbered.highest);
  if slots is not null then
    execute format($sql$
      insert into pg_temp.trunkline_batch (place, event_position, event_id, topic, key, payload, metadata, at, subscription, lane_bucket)
      select (p.up_to - $1 + 1)::int, p.up_to, coalesce(e.event_id, e.seq), e.topic, e.key, e.payload, e.metadata, e.at, e.subscription,
             (hashtextextended(coalesce(e.key, e.topic), 0) & 63)::int
        from unnest($2, $3, $4) p (up_to, xid, seq)
        join lateral (select * from (%s) e where e.xid = p.xid and e.seq = p.seq) e on true $sql$, slots)
      using from_position, numbered.positions, numbered.xids, numbered.seqs;
  end if;
  return numbered.last_one;
end $$;
