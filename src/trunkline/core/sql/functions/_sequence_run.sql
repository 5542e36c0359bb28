/* What of the tick that holds a position follows from there on, when many rows do, their seqs have no gap and their xids
   are near to each other: how many, and the seqs and xids between which they are.  Otherwise n is NULL.  Such rows need
   not be looked up one by one. */
create or replace function trunkline._sequence_run(sequence text, from_position bigint, max_rows int,
  out n int, out first_seq bigint, out last_seq bigint, out lowest xid8, out highest xid8)
language plpgsql stable set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  held record;
begin
  select from_position - t.first_position + 1 as begin_at, least(t.n, from_position - t.first_position + max_rows) as end_at, t.xids, t.seqs into held
    from trunkline.tick t where t.sequence = _sequence_run.sequence and t.first_position <= from_position order by t.first_position desc limit 1;
  if held.end_at - held.begin_at >= 1000 and held.seqs[held.end_at] - held.seqs[held.begin_at] = held.end_at - held.begin_at then
    first_seq := held.seqs[held.begin_at];
    last_seq := held.seqs[held.end_at];
    select min(x), max(x) into lowest, highest from unnest(held.xids[held.begin_at : held.end_at]) x;
    n := case when highest::text::numeric - lowest::text::numeric <= last_seq - first_seq then last_seq - first_seq + 1 end;
  end if;
end $$;
