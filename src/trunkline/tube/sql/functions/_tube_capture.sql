/* Take what a trigger saw.  Runs as the owner of the schema: writers need no right on tubes.  shards is NULL
   when the table has a fixed shard.  Everybody may call it, for triggers run as whoever writes: who does so by hand
   can touch keys of any attached table, which are then looked at once more, and nothing else.
   Every write to an attached table pays for this: what fits into one entry is looked up and stored by one statement.
   Errors: TL422. */
create or replace function trunkline._tube_capture(attachment int, operation text, shards int[], keys text[])
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  most int := 1;
  attached record;
begin
  if cardinality(keys) > 1 then
    most := trunkline._setting('tube.entry_keys');
  end if;
  -- every column in its order and type: the rows need no second projection
  insert into trunkline.tube_entry (slot, xid_space, xid, seq, tube_id, attachment, shard, priority, op, keys, payload, control, at)
  select pg_sequence_last_value('trunkline.tube_entry_slot')::int, trunkline._xid_space_held(), pg_current_xact_id(), nextval('trunkline.tube_seq'),
         a.tube_id, a.attachment, a.shard,
         trunkline._tube_priority()::smallint, left(operation, 1)::"char", _tube_capture.keys, null::jsonb, null::text, clock_timestamp()
    from trunkline.tube_table a
   where a.attachment = _tube_capture.attachment
     and shards is null and cardinality(_tube_capture.keys) <= most and operation in ('INSERT', 'UPDATE', 'DELETE');
  if found then
    return;
  elsif coalesce(operation, '') not in ('INSERT', 'UPDATE', 'DELETE') then
    raise exception using errcode = 'TL422', message = format('a write is INSERT, UPDATE or DELETE, got "%s".', operation);
  end if;
  select a.tube_id, a.shard into attached from trunkline.tube_table a where a.attachment = _tube_capture.attachment;
  if found then
    perform trunkline._tube_put_entries(attached.tube_id, attachment, attached.shard, shards, keys, left(operation, 1), null, trunkline._tube_priority());
  end if;
end $$;
select trunkline._access('_tube_capture(int, text, int[], text[])', 'public');
