/* Do the next chunk of a backfill.  The table is read with your rights.  Returns whether there is more to do now; when
   all rows are emitted it waits, step by step, for transactions that were open at the start, then writes backfill_end.
   A row whose condition or shard cannot be told is emitted, as when it is written.  Two callers at once: one works.
   Errors: TL404, TL422 a key column is not what it was. */
create or replace function trunkline.tube_backfill_step(backfill bigint)
returns boolean language plpgsql
set quote_all_identifiers = off set extra_float_digits = 1 set intervalstyle = 'postgres' as $$
declare
  work trunkline.tube_backfill := trunkline._tube_backfill_take(backfill);
  attached trunkline.tube_table;
  chunk record;
begin
  if work.backfill is null or work.status not in ('running', 'finishing') then
    return false;
  elsif work.status = 'finishing' then
    return trunkline._tube_backfill_finish(work);
  end if;
  attached := trunkline._tube_attachment(work.attachment);
  if not exists (select from pg_class c where c.oid = attached.relation) then
    perform trunkline._tube_backfill_advance(work, null, null, null, 0);
    return true;
  end if;
  begin
    execute trunkline._tube_backfill_query(work, attached, false) into chunk using work.reached, work.chunk;
  exception when others then
    execute trunkline._tube_backfill_query(work, attached, true) into chunk using work.reached, work.chunk;
  end;
  perform trunkline._tube_backfill_advance(work, chunk.keys, case when attached.shard is null then chunk.shards end, chunk.reached, chunk.n);
  return true;
end $$;
comment on function trunkline.tube_backfill_step(bigint) is 'Do the next chunk of a backfill; whether there is more to do.';
select trunkline._access('tube_backfill_step(bigint)', 'reader');
