/* Take what a trigger saw.  Runs as the owner of the schema: writers need no right on tubes.  shards is NULL
   when the table has a fixed shard.  Everybody may call it, for triggers run as whoever writes: who does so by hand
   can touch keys of any attached table, which are then looked at once more, and nothing else. */
create or replace function trunkline._tube_capture(attachment int, operation text, shards int[], keys text[])
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  tube_id int;
  fixed int;
begin
  select a.tube_id, a.shard into tube_id, fixed from trunkline.tube_table a where a.attachment = _tube_capture.attachment;
  if found then
    perform trunkline._tube_put_entries(tube_id, attachment, fixed, shards, keys, left(operation, 1), null, trunkline._tube_priority());
  end if;
end $$;
select trunkline._access('_tube_capture(int, text, int[], text[])', 'public');
