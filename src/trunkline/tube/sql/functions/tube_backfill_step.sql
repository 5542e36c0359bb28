/* Do the next chunk of a backfill.  The table is read as its owner or as you, with no right that the roles lack that attached it and set
   conditions.  Returns whether there is more to do now; when
   all rows are emitted it waits, step by step, for transactions that were open at the start, then writes backfill_end.
   A row whose condition or shard fails is emitted, as when it is written.  Two callers at once: one works.
   Errors: TL403, TL404, TL422 a key column is not what it was. */
create or replace function trunkline.tube_backfill_step(backfill bigint)
returns boolean language plpgsql
set quote_all_identifiers = off set extra_float_digits = 1 set intervalstyle = 'postgres' as $$
declare
  work trunkline.tube_backfill := trunkline._tube_backfill_take(backfill);
  reading record;
  attached trunkline.tube_table;
  reader name;
  chunk record;
begin
  if work.backfill is null or work.status not in ('running', 'finishing') then
    return false;
  elsif work.status = 'finishing' then
    return trunkline._tube_backfill_finish(work);
  end if;
  reading := trunkline._tube_reading(work.attachment);
  attached := reading.attached;
  if attached.relation is null or attached.attachment <> work.attachment then
    perform trunkline._tube_backfill_advance(work, null, null, null, 0);
    return true;
  end if;
  reader := trunkline._stored_role(reading.authors, format('the backfill of table %s', attached.relation_name), reading.owner);
  if trunkline._stored_plain(reader, reading.authors || reading.owner) then
    begin
      execute trunkline._tube_backfill_query(work, attached, false) into chunk using work.reached, array[work.chunk];
    exception when others then
      execute trunkline._tube_backfill_query(work, attached, true) into chunk using work.reached, array[work.chunk];
    end;
  else
    begin
      select d.texts as keys, d.others as reached, d.places as shards, d.n into chunk
        from trunkline._run_as(reader, trunkline._tube_backfill_query(work, attached, false), work.reached, array[work.chunk]) d;
    exception when others then
      select d.texts as keys, d.others as reached, d.places as shards, d.n into chunk
        from trunkline._run_as(reader, trunkline._tube_backfill_query(work, attached, true), work.reached, array[work.chunk]) d;
    end;
  end if;
  perform trunkline._tube_backfill_advance(work, chunk.keys, case when attached.shard is null then chunk.shards end, chunk.reached, chunk.n);
  return true;
end $$;
comment on function trunkline.tube_backfill_step(bigint) is 'Do the next chunk of a backfill; whether there is more to do.';
select trunkline._access('tube_backfill_step(bigint)', 'reader');
