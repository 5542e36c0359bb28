/* Write a sealed segment anew without the messages whose key has a later value, and without tombstones that
   are old enough.  Returns how many messages left.  A batch that lost all its messages leaves too, unless it is
   the witness of an idempotent producer in the newest sealed segment.  Later values are looked for in the whole
   partition: the table log_compact_<later> holds the highest offset of each key. */
create or replace function trunkline._log_compact_segment(segment trunkline.log_segment, later bigint, newest boolean)
returns bigint language plpgsql as $$
declare
  before bigint;
  after bigint;
  next_id bigint;
begin
  execute format('select coalesce(sum(b.n), 0) from trunkline.log_segment_%s b', segment.segment_id) into before;
  next_id := trunkline._log_segment_create(segment.topic_id, segment.partition, segment.first_offset);
  execute format($sql$
    with kept as (
      select b.base_offset, m.i, m.log_offset, m.key, m.value, m.header
        from trunkline.log_segment_%1$s b
        cross join lateral trunkline._log_messages(b.base_offset, b.n, b.value_ends, b.payload, b.value_valid, b.key_ends, b.keys, b.key_valid, b.deltas, b.headers) m
        join trunkline.log_compact_%3$s l on l.key = m.key and l.log_offset = m.log_offset
       where m.value is not null or b.at > clock_timestamp() - $1),
    packed as (
      select k.base_offset, trunkline._log_pack(array_agg(k.value order by k.i), array_agg(k.key order by k.i), array_agg(k.header order by k.i)) as p,
             string_agg(trunkline._log_int_bytes((k.log_offset - k.base_offset)::int), '' order by k.i) as deltas
        from kept k group by k.base_offset)
    insert into trunkline.log_segment_%2$s
    select b.base_offset, b.last_offset, b.at, b.producer_id, b.producer_seq, coalesce((k.p).n, 0), b.incarnation, b.format, b.codec,
           coalesce((k.p).value_ends, '\x00000000'), coalesce((k.p).payload, ''), (k.p).value_valid, (k.p).key_ends, (k.p).keys, (k.p).key_valid,
           coalesce(k.deltas, ''), null, (k.p).headers
      from trunkline.log_segment_%1$s b left join packed k using (base_offset)
     where k.base_offset is not null or $2 and b.producer_id is not null $sql$, segment.segment_id, next_id, later)
    using trunkline._setting('log.tombstone_retention')::interval, newest;
  execute format('select coalesce(sum(b.n), 0) from trunkline.log_segment_%s b', next_id) into after;
  if after = 0 and not newest then  -- nothing of it is left
    execute format('drop table trunkline.log_segment_%s', next_id);
    delete from trunkline.log_segment s where s.segment_id = next_id;
    update trunkline.log_segment s set topic_id = null where s.segment_id = segment.segment_id;
    return before;
  elsif after = before then
    execute format('drop table trunkline.log_segment_%s', next_id);
    delete from trunkline.log_segment s where s.segment_id = next_id;
    update trunkline.log_segment s set compacted_at = clock_timestamp() where s.segment_id = segment.segment_id;
    return 0;
  end if;
  update trunkline.log_segment s set last_offset = segment.last_offset, last_at = segment.last_at, created_at = segment.created_at, compacted_at = clock_timestamp(),
         bytes = pg_total_relation_size(to_regclass('trunkline.log_segment_' || next_id))
   where s.segment_id = next_id;
  update trunkline.log_segment s set topic_id = null where s.segment_id = segment.segment_id;
  update trunkline.log_partition p set previous_id = next_id
   where p.topic_id = segment.topic_id and p.partition = segment.partition and p.previous_id = segment.segment_id;
  return before - after;
end $$;
