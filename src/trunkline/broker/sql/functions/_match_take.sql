/* Lay the events of a range of positions ready for matching; the last position of the range.  Many that were written one after the
   other are read as they stand in the index; otherwise each is looked up.
   Minus the watch stands in place of the subscription for events of watched tables; role is one whose rights count beside those of owners. */
create or replace function trunkline._match_take(from_position bigint, max_events int, role name default null)
returns bigint language plpgsql set enable_seqscan = off set enable_sort = off set enable_nestloop = on set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  run record := trunkline._sequence_run('event', from_position, max_events);
  numbered record;
  slots text;
  way text := 'join lateral (select * from (%s) e where e.xid = p.xid and e.seq = p.seq) e on true';
begin
  delete from pg_temp.trunkline_batch;
  if run.n is not null then
    execute format($sql$
      insert into pg_temp.trunkline_batch (place, event_position, event_id, topic, key, payload, metadata, at, subscription)
      select (e.seq - $4 + 1)::int, $1 + e.seq - $4, coalesce(e.event_id, e.seq), e.topic, e.key, e.payload, e.metadata, e.at, coalesce(e.subscription, -e.watch)
        from (%s) e where (e.xid, e.seq) between ($2, $4) and ($3, $5) and e.seq between $4 and $5 $sql$,
        coalesce(trunkline._sequence_slots('event', run.lowest, run.highest), 'select * from trunkline.event where false'))
      using from_position, run.lowest, run.highest, run.first_seq, run.last_seq;
    perform trunkline._match_hide(array(select b.subscription from pg_temp.trunkline_batch b where b.subscription < 0 group by 1), role);
    return from_position + run.n - 1;
  end if;
  -- kept apart from the look-up, which is planned each time: planning over the slots of ticks takes longer than reading them
  select max(p.up_to) as last_one, min(p.xid) as lowest, max(p.xid) as highest, min(p.seq) as first_seq, max(p.seq) as last_seq,
         array_agg(p.up_to) as positions, array_agg(p.xid) as xids, array_agg(p.seq) as seqs
    into numbered from trunkline._sequence_rows('event', from_position, max_events) p;
  slots := trunkline._sequence_slots('event', numbered.lowest, numbered.highest);
  if numbered.last_seq - numbered.first_seq < 2 * cardinality(numbered.positions)
     and numbered.highest::text::numeric - numbered.lowest::text::numeric < cardinality(numbered.positions) then
    way := 'join (select * from (%s) e where (e.xid, e.seq) between ($5, $7) and ($6, $8) offset 0) e on e.xid = p.xid and e.seq = p.seq';
    perform set_config('enable_nestloop', 'off', true);  -- until the function ends
  end if;
  if slots is not null then
    execute format($sql$
      insert into pg_temp.trunkline_batch (place, event_position, event_id, topic, key, payload, metadata, at, subscription)
      select (p.up_to - $1 + 1)::int, p.up_to, coalesce(e.event_id, e.seq), e.topic, e.key, e.payload, e.metadata, e.at, coalesce(e.subscription, -e.watch)
        from unnest($2, $3, $4) p (up_to, xid, seq) %s $sql$, format(way, slots))
      using from_position, numbered.positions, numbered.xids, numbered.seqs, numbered.lowest, numbered.highest, numbered.first_seq, numbered.last_seq;
  end if;
  perform trunkline._match_hide(array(select b.subscription from pg_temp.trunkline_batch b where b.subscription < 0 group by 1), role);
  return numbered.last_one;
end $$;
