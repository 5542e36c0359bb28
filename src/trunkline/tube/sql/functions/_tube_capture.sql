/* Take what a trigger saw.  Runs as the owner of the schema: writers need no right on tubes.  shards is NULL or
   holds NULLs when the table has a fixed shard. */
create or replace function trunkline._tube_capture(attachment int, operation text, shards int[], keys text[])
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  attached trunkline.tube_table;
begin
  select a.* into attached from trunkline.tube_table a where a.attachment = _tube_capture.attachment;
  if found then
    perform trunkline._tube_put_entries(attached.tube_id, attached.attachment, attached.shard,
      case when attached.shard is null then shards end, keys, left(operation, 1), null, trunkline._tube_priority());
  end if;
end $$;
select trunkline._access('_tube_capture(int, text, int[], text[])', 'public');
