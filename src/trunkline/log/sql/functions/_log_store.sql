/* Lock a partition, check the batch against the topic, number it and store it once.
   The tail is read in a statement of its own after the lock, with a fresh snapshot, so the number is final.
   A batch of this producer with the same or a higher number in the newest two segments stores nothing;
   then _log_repeated() finds the first answer.  That look is spared when the tail is the producer's own batch. */
create or replace function trunkline._log_store(
  topic text, partition int, n int, codec int, value_ends bytea, payload bytea, value_valid bytea, key_ends bytea, keys bytea, key_valid bytea,
  headers bytea, producer_id uuid, producer_seq bigint, event_ids bytea default null,
  out first_offset bigint, out last_offset bigint, out at timestamptz)
language plpgsql as $$
declare
  held record;
  tail bigint;
  tail_at timestamptz;
  tail_producer uuid;
  segment bigint;
  newest bigint;
  statement text;
begin
  if current_setting('synchronous_commit') = 'off' then perform trunkline._durably(); end if;
  if now() <> statement_timestamp() then perform trunkline._lock_briefly(); end if;
  if exists (select from trunkline.quota) then perform trunkline._quota_take(n, octet_length(payload) + coalesce(octet_length(keys), 0) + coalesce(octet_length(headers), 0)); end if;
  select t.compact, p.segment_id, p.segment_first, p.segment_at, p.previous_id into held
    from trunkline.log_topic t join trunkline.log_partition p using (topic_id)
   where t.topic = _log_store.topic and p.partition = _log_store.partition
     for no key update of p;
  if not found then
    perform trunkline._log_missing(topic, partition);
  elsif not held.compact and value_valid is not null then
    raise exception using errcode = 'TL422', message = format('topic "%s" is not compacted: a value must not be null.', topic),
      hint = 'A null value is a tombstone, which only a topic created with compact => true takes.';
  elsif held.compact and (codec <> 0 or key_ends is null or key_valid is not null) then
    raise exception using errcode = 'TL422', message = format('topic "%s" is compacted: every message needs a key, and codec "none".', topic);
  end if;
  execute format('select b.last_offset, b.at, b.producer_id, b.producer_seq from trunkline.log_segment_%s b order by b.base_offset desc limit 1', held.segment_id)
    into tail, tail_at, tail_producer, newest;
  if producer_id is not null then
    if tail_producer is distinct from producer_id then
      foreach segment in array array[held.segment_id, held.previous_id] loop
        exit when segment is null;
        execute format('select d.producer_seq from trunkline.log_segment_%s d where d.producer_id = $1 order by d.producer_seq desc limit 1', segment)
          into newest using producer_id;
        exit when newest is not null;
      end loop;
    end if;
    if newest >= producer_seq then
      select r.first_offset, r.last_offset, r.at into first_offset, last_offset, at
        from trunkline._log_repeated(held.segment_id, held.previous_id, producer_id, producer_seq) r;
      return;
    end if;
  end if;
  first_offset := coalesce(tail + 1, held.segment_first);
  last_offset := first_offset + n - 1;
  at := greatest(clock_timestamp(), tail_at, held.segment_at);
  -- plain VALUES, nothing returned: planning this statement is most of what an append of one message costs
  statement := format('insert into trunkline.log_segment_%s
      (base_offset, last_offset, at, producer_id, producer_seq, n, incarnation, format, codec,
       value_ends, payload, value_valid, key_ends, keys, key_valid, event_ids, headers)
    values ($1, $2, $3, $4, $5, $6, $7, 1, $8, $9, $10, $11, $12, $13, $14, $15, $16)', held.segment_id);
  if current_setting('transaction_isolation') = 'read committed' then
    execute statement
      using first_offset, last_offset, at, producer_id, producer_seq, n, (trunkline._incarnation_row()).incarnation, codec,
            value_ends, payload, value_valid, key_ends, keys, key_valid, event_ids, headers;
  else
    begin
      execute statement
        using first_offset, last_offset, at, producer_id, producer_seq, n, (trunkline._incarnation_row()).incarnation, codec,
              value_ends, payload, value_valid, key_ends, keys, key_valid, event_ids, headers;
    exception when unique_violation then
      raise exception using errcode = '40001', message = 'could not serialize append: another transaction appended meanwhile';
    end;
  end if;
end $$;
