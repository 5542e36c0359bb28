/* Lock a partition, check the batch against the topic, number it and store it once.
   The tail is read in a statement of its own after the lock, with a fresh snapshot, so the number is final.
   A batch of this producer with the same or a higher number in the newest two segments stores nothing;
   then _log_repeated() finds the first answer. */
create or replace function trunkline._log_store(
  topic text, partition int, n int, codec int, value_ends bytea, payload bytea, value_valid bytea, key_ends bytea, keys bytea, key_valid bytea,
  headers bytea, producer_id uuid, producer_seq bigint, event_ids bytea default null,
  out first_offset bigint, out last_offset bigint, out at timestamptz)
language plpgsql as $$
declare
  held record;
  fresh text := '';
  statement text;
begin
  select t.compact, p.topic_id, p.segment_id, p.segment_first, p.segment_at, p.previous_id into held
    from trunkline.log_topic t join trunkline.log_partition p using (topic_id)
   where t.topic = _log_store.topic and p.partition = _log_store.partition
     for no key update of p;
  if not found then
    perform trunkline._log_missing(topic, partition);
  elsif not held.compact and value_valid is not null then
    perform trunkline._raise('TL422', format('topic "%s" is not compacted: a value must not be null.', topic),
      'A null value is a tombstone, which only a topic created with compact => true takes.');
  elsif held.compact and (codec <> 0 or key_ends is null or key_valid is not null) then
    perform trunkline._raise('TL422', format('topic "%s" is compacted: every message needs a key, and codec "none".', topic));
  end if;
  if producer_id is not null then
    fresh := format(' where not exists (select from trunkline.log_segment_%s d where d.producer_id = $12 and d.producer_seq >= $13)', held.segment_id);
    if held.previous_id is not null then
      fresh := fresh || format(' and not exists (select from trunkline.log_segment_%s d where d.producer_id = $12 and d.producer_seq >= $13)', held.previous_id);
    end if;
  end if;
  statement := format('insert into trunkline.log_segment_%1$s as s
      (base_offset, last_offset, at, producer_id, producer_seq, n, incarnation, format, codec,
       value_ends, payload, value_valid, key_ends, keys, key_valid, event_ids, headers)
    select next.base, next.base + $3 - 1, greatest(clock_timestamp(), next.at), $12, $13, $3, $1, 1, $4, $5, $6, $7, $8, $9, $10, $14, $11
      from (select t.last_offset + 1 as base, t.at from (select b.last_offset, b.at from trunkline.log_segment_%1$s b order by b.base_offset desc limit 1) t
            union all select $2, $15 limit 1) next%2$s
    returning s.base_offset, s.last_offset, s.at', held.segment_id, fresh);
  if current_setting('transaction_isolation') = 'read committed' then
    execute statement into first_offset, last_offset, at
      using (trunkline._incarnation_row()).incarnation, held.segment_first, n, codec, value_ends, payload, value_valid, key_ends, keys, key_valid,
            headers, producer_id, producer_seq, event_ids, held.segment_at;
  else
    begin
      execute statement into first_offset, last_offset, at
        using (trunkline._incarnation_row()).incarnation, held.segment_first, n, codec, value_ends, payload, value_valid, key_ends, keys, key_valid,
              headers, producer_id, producer_seq, event_ids, held.segment_at;
    exception when unique_violation then
      raise exception using errcode = '40001', message = 'could not serialize append: another transaction appended meanwhile';
    end;
  end if;
  if first_offset is null then
    select r.first_offset, r.last_offset, r.at into first_offset, last_offset, at
      from trunkline._log_repeated(held.segment_id, held.previous_id, producer_id, producer_seq) r;
  end if;
end $$;
