/* Copy a segment without the messages whose key has a later value, and without tombstones that are old enough.
   The table log_compact_<later> holds the highest offset of each key of the partition.  A batch that lost all its messages
   leaves too, unless it is the witness of an idempotent producer in one of the newest two segments.
   Batches beyond up_to are not looked at.  next_id is the copy: the segment itself when nothing changed, NULL when
   nothing is left; until it is swapped in, it is no part of the log. */
create or replace function trunkline._log_compact_copy(
  segment trunkline.log_segment, up_to bigint, later bigint, newest boolean, out next_id bigint, out removed bigint)
language plpgsql as $$
declare
  before record;
  after record;
  counted text := 'select count(*) as batches, coalesce(sum(b.n), 0) as messages from trunkline.log_segment_%s b where b.base_offset <= $1';
begin
  execute format(counted, segment.segment_id) into before using up_to;
  next_id := trunkline._log_segment_create(null, null, segment.first_offset);
  execute format($sql$
    with kept as (
      select b.base_offset, m.i, m.log_offset, m.key, m.value, m.header, substr(b.event_ids, 8 * m.i + 1, 8) as event_id
        from trunkline.log_segment_%1$s b
        cross join lateral trunkline._log_messages(b.base_offset, b.n, b.value_ends, b.payload, b.value_valid, b.key_ends, b.keys, b.key_valid, b.deltas, b.headers) m
        join trunkline.log_compact_%3$s l on l.key = m.key and l.log_offset = m.log_offset
       where b.base_offset <= $3 and (m.value is not null or b.at > clock_timestamp() - $1)),
    packed as (
      select k.base_offset, trunkline._log_pack(array_agg(k.value order by k.i), array_agg(k.key order by k.i), array_agg(k.header order by k.i)) as p,
             string_agg(trunkline._log_int_bytes((k.log_offset - k.base_offset)::int), '' order by k.i) as deltas,
             string_agg(k.event_id, '' order by k.i) as event_ids
        from kept k group by k.base_offset)
    insert into trunkline.log_segment_%2$s
    select b.base_offset, b.last_offset, b.at, b.producer_id, b.producer_seq, coalesce((k.p).n, 0), b.incarnation, b.format, b.codec,
           coalesce((k.p).value_ends, E'\\x00000000'), coalesce((k.p).payload, ''), (k.p).value_valid, (k.p).key_ends, (k.p).keys, (k.p).key_valid,
           coalesce(k.deltas, ''), k.event_ids, (k.p).headers
      from trunkline.log_segment_%1$s b left join packed k using (base_offset)
     where b.base_offset <= $3 and (k.base_offset is not null or $2 and b.producer_id is not null) $sql$, segment.segment_id, next_id, later)
    using trunkline._setting('log.tombstone_retention')::interval, newest, up_to;
  execute format(counted, next_id) into after using up_to;
  removed := before.messages - after.messages;
  if after = before or after.batches = 0 then
    execute format('drop table trunkline.log_segment_%s', next_id);
    delete from trunkline.log_segment s where s.segment_id = next_id;
    next_id := case when after = before then segment.segment_id end;
  end if;
end $$;
