/* Append messages; any language can call it.  With a partition all go there; without, each goes to the
   partition of its key, and messages without a key go together to one partition: that of a message with a key, if there is
   one, or that of the producer, or else any that no open transaction holds.  Partitions are taken in their order, so that
   two calls never wait for each other; transactions of several calls may (40P01): repeat them, or append in the same order.
   Returns a row per partition with the offsets, in the order of partitions.  A repeat with the same
   (producer_id, producer_seq) stores nothing and returns the first answer.
   Holds its partitions until commit: to publish inside a business transaction use broker_publish().
   Errors: TL404, TL409, TL413 message too large, TL422 empty batch, lengths that differ, null value, bad header. */
create or replace function trunkline.log_append(
  topic text, partition int, payloads bytea[], keys bytea[] default null, headers jsonb[] default null,
  producer_id uuid default null, producer_seq bigint default null)
returns table (to_partition int, first_offset bigint, last_offset bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  settings trunkline.log_topic := trunkline._log_topic_row(topic);
  total int := coalesce(cardinality(payloads), 0);
  most int := trunkline._setting('log.message_bytes');
  most_together int := trunkline._setting('log.batch_bytes');
  largest int;
  bytes bigint;
  chosen int := partition;
  part record;
  batch trunkline.log_batch;
  stored record;
begin
  perform trunkline._log_may(topic, 'append');
  select max(octet_length(p)), sum(octet_length(p)) into largest, bytes from unnest(payloads) p;
  bytes := coalesce(bytes, 0) + coalesce((select sum(octet_length(k)) from unnest(keys) k), 0) + coalesce((select sum(octet_length(h::text)) from unnest(headers) h), 0);
  if total = 0 then
    raise exception using errcode = 'TL422', message = 'the batch is empty: payloads needs at least one message.';
  elsif array_ndims(payloads) <> 1 then
    raise exception using errcode = 'TL422', message = format('payloads is a list of messages, got an array of %s dimensions.', array_ndims(payloads));
  elsif cardinality(keys) <> total or cardinality(headers) <> total then
    raise exception using errcode = 'TL422', message = format('payloads, keys and headers need the same length, got %s, %s and %s.', total, coalesce(cardinality(keys), total), coalesce(cardinality(headers), total));
  elsif largest > most then
    raise exception using errcode = 'TL413', message = format('a message holds at most %s bytes, got %s.', most, largest),
      hint = 'Send a reference to it, or raise the setting log.message_bytes.', detail = jsonb_build_object('limit', most, 'bytes', largest)::text;
  elsif bytes > most_together then
    raise exception using errcode = 'TL413', message = format('a batch holds at most %s bytes, got %s.', most_together, bytes),
      hint = 'Send smaller batches, or raise the setting log.batch_bytes.', detail = jsonb_build_object('limit', most_together, 'bytes', bytes)::text;
  elsif exists (select from unnest(headers) h where jsonb_typeof(h) <> 'object') then
    raise exception using errcode = 'TL422', message = 'a header must be a JSON object or NULL.', hint = 'For example: {"trace": "abc"}';
  elsif (producer_id is null) <> (producer_seq is null) then
    raise exception using errcode = 'TL422', message = 'producer_id and producer_seq go together.';
  end if;
  if chosen is null then
    select trunkline.log_partition_of(k, settings.partitions) into chosen from unnest(keys) k where k is not null limit 1;
  end if;
  if chosen is null then
    chosen := case when producer_id is null then trunkline._log_partition_free(settings)
                   else trunkline.log_partition_of(uuid_send(producer_id), settings.partitions) end;
  end if;
  for part in
    select r.to_partition, array_agg(r.value order by r.ordinal) as payloads,
           case when log_append.keys is not null then array_agg(r.key order by r.ordinal) end as keys,
           case when log_append.headers is not null then array_agg(r.header order by r.ordinal) end as headers
      from (select m.*, case when log_append.partition is null and m.key is not null
                             then trunkline.log_partition_of(m.key, settings.partitions) else chosen end as to_partition
              from rows from (unnest(log_append.payloads), unnest(log_append.keys), unnest(log_append.headers)) with ordinality
                   m (value, key, header, ordinal)) r
     group by r.to_partition order by r.to_partition
  loop
    batch := trunkline._log_pack(part.payloads, part.keys, part.headers);
    stored := trunkline._log_store(topic, part.to_partition, batch.n, 0, batch.value_ends, batch.payload, batch.value_valid,
                                   batch.key_ends, batch.keys, batch.key_valid, batch.headers, producer_id, producer_seq);
    to_partition := part.to_partition;
    first_offset := stored.first_offset;
    last_offset := stored.last_offset;
    return next;
  end loop;
end $$;
comment on function trunkline.log_append(text, int, bytea[], bytea[], jsonb[], uuid, bigint) is
  'Append messages to a partition, or each to the partition of its key; returns their offsets.';
select trunkline._access('log_append(text, int, bytea[], bytea[], jsonb[], uuid, bigint)', 'writer');
