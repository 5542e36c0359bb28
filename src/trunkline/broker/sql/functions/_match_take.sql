/* Lay the events of a range of positions ready for matching; the last position of the range. */
create or replace function trunkline._match_take(from_position bigint, max_events int)
returns bigint language plpgsql set enable_seqscan = off set jit = off as $$
declare
  last_position bigint;
  lowest xid8;
  highest xid8;
  slots text;
begin
  delete from pg_temp.trunkline_batch;
  select max(p.up_to), min(p.xid), max(p.xid) into last_position, lowest, highest from trunkline._sequence_rows('event', from_position, max_events) p;
  slots := trunkline._sequence_slots('event', lowest, highest);
  if slots is not null then
    execute format($sql$
      insert into pg_temp.trunkline_batch (place, event_position, event_id, topic, key, payload, metadata, at, subscription, lane_bucket)
      select (p.up_to - $1 + 1)::int, p.up_to, coalesce(e.event_id, e.seq), e.topic, e.key, e.payload, e.metadata, e.at, e.subscription,
             (hashtextextended(coalesce(e.key, e.topic), 0) & 63)::int
        from trunkline._sequence_rows('event', $1, $2) p
        join lateral (select * from (%s) e where e.xid = p.xid and e.seq = p.seq) e on true $sql$, slots)
      using from_position, (last_position - from_position + 1)::int;  -- a tick that came meanwhile is left for the next round
  end if;
  return last_position;
end $$;
