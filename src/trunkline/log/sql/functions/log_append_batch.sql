/* Append a record batch that a client packed (docs/reference/record-batch.md).  Offsets are gapless: the
   partition's row is held until commit, so call it in a transaction of its own.
   With release_early, where the topic allows it, the commit does not wait for the disk: acknowledge nothing
   before log_flush().  A client that appends often may call the partition's own log_append_batch_<topic_id>_<partition>, where there
   is one: the same in less time.  Errors: TL404, TL409 repeated number, TL413 too large, TL422 malformed. */
create or replace function trunkline.log_append_batch(
  topic text, partition int, n int, codec int, value_ends bytea, payload bytea, value_valid bytea default null,
  key_ends bytea default null, keys bytea default null, key_valid bytea default null, headers bytea default null,
  producer_id uuid default null, producer_seq bigint default null, release_early boolean default false,
  out first_offset bigint, out last_offset bigint, out at timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  bytes bigint := trunkline._log_append_bytes(value_ends, payload, key_ends, keys, headers);
  most int := trunkline._setting('log.batch_bytes');
  stored record;
begin
  if bytes > most then
    raise exception using errcode = 'TL413', message = format('a record batch holds at most %s bytes, got %s.', most, bytes),
      hint = 'Send smaller batches, or raise the setting log.batch_bytes.', detail = jsonb_build_object('limit', most, 'bytes', bytes)::text;
  elsif not trunkline._log_whole(n, codec, value_ends, payload, value_valid, key_ends, keys, key_valid, headers) then
    raise exception using errcode = 'TL422', message = 'the record batch is malformed.',
      hint = 'A batch has n >= 1 messages, n + 1 ends, keys with key_ends, and a JSON array of n headers; see docs/reference/record-batch.md.', detail = jsonb_build_object('n', n, 'codec', codec)::text;
  elsif (producer_id is null) <> (producer_seq is null) then
    raise exception using errcode = 'TL422', message = 'producer_id and producer_seq go together.';
  end if;
  perform trunkline._log_may(topic, 'append');
  stored := trunkline._log_store(topic, partition, n, codec, value_ends, payload, value_valid, key_ends, keys, key_valid, headers, producer_id, producer_seq);
  first_offset := stored.first_offset;
  last_offset := stored.last_offset;
  at := stored.at;
  if release_early and (trunkline._log_topic_row(topic)).early_release then
    perform set_config('synchronous_commit', 'off', true);
  end if;
end $$;
comment on function trunkline.log_append_batch(text, int, int, int, bytea, bytea, bytea, bytea, bytea, bytea, bytea, uuid, bigint, boolean) is
  'Append a record batch that a client packed; returns the offsets of its first and last message.';
select trunkline._access('log_append_batch(text, int, int, int, bytea, bytea, bytea, bytea, bytea, bytea, bytea, uuid, bigint, boolean)', 'writer');
