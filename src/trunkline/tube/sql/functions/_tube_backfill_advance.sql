/* Store a chunk's keys and how far the backfill got; a chunk that is not full was the last. */
create or replace function trunkline._tube_backfill_advance(work trunkline.tube_backfill, keys text[], shards int[], reached text[], looked_at bigint)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  attached trunkline.tube_table := trunkline._tube_attachment(work.attachment);
begin
  perform trunkline._tube_attachment_may(work.attachment, 'consume');
  if cardinality(keys) > 0 then
    perform trunkline._tube_put_entries(attached.tube_id, attached.attachment, attached.shard, shards, keys, 'B', null, 1);
  end if;
  update trunkline.tube_backfill b
     set reached = coalesce(_tube_backfill_advance.reached, b.reached), keys_done = b.keys_done + coalesce(cardinality(keys), 0),
         stepped_at = clock_timestamp(), status = case when looked_at < b.chunk then 'finishing' else b.status end
   where b.backfill = work.backfill;
end $$;
select trunkline._access('_tube_backfill_advance(trunkline.tube_backfill, text[], int[], text[], bigint)', 'reader');
