/* Compact a topic that was created with compact => true: of each key only the last value stays, a null value
   (tombstone) for log.tombstone_retention.  Offsets keep their numbers, so there may be holes.
   Returns a row per partition with how many messages left.  Errors: TL404, TL422 not a compacted topic. */
create or replace function trunkline.log_compact(topic text, partition int default null)
returns table (in_partition int, removed bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  settings trunkline.log_topic := trunkline._log_topic_row(topic);
  part trunkline.log_partition;
  segment trunkline.log_segment;
begin
  if not settings.compact then
    perform trunkline._raise('TL422', format('topic "%s" is not compacted.', topic), 'Create a topic with compact => true.');
  elsif partition is not null then
    perform trunkline._log_partition_row(topic, partition);
  end if;
  for part in select p.* from trunkline.log_partition p
               where p.topic_id = settings.topic_id and (log_compact.partition is null or p.partition = log_compact.partition) order by p.partition loop
    perform pg_advisory_xact_lock(hashtextextended(format('trunkline.log_compact:%s:%s', part.topic_id, part.partition), 0));
    if pg_relation_size(to_regclass('trunkline.log_segment_' || part.segment_id)) > 0 then
      perform trunkline._log_roll(part.topic_id, part.partition);
      part := trunkline._log_partition_row(topic, part.partition);
    end if;
    in_partition := part.partition;
    removed := 0;
    execute format('create unlogged table trunkline.log_compact_%s (key bytea, log_offset bigint)', part.segment_id);
    for segment in select s.* from trunkline.log_segment s where s.topic_id = part.topic_id and s.partition = part.partition order by s.first_offset loop
      execute format($sql$
        insert into trunkline.log_compact_%1$s
        select m.key, max(m.log_offset) from trunkline.log_segment_%2$s b
          cross join lateral trunkline._log_messages(b.base_offset, b.n, b.value_ends, b.payload, b.value_valid, b.key_ends, b.keys, b.key_valid, b.deltas, null) m
         group by m.key $sql$, part.segment_id, segment.segment_id);
    end loop;
    execute format('delete from trunkline.log_compact_%1$s l using (
        select x.key, max(x.log_offset) as log_offset from trunkline.log_compact_%1$s x group by x.key) top
       where top.key = l.key and l.log_offset < top.log_offset', part.segment_id);
    for segment in select s.* from trunkline.log_segment s
                    where s.topic_id = part.topic_id and s.partition = part.partition and s.last_offset is not null order by s.first_offset loop
      removed := removed + trunkline._log_compact_segment(segment, part.segment_id, segment.segment_id = part.previous_id);
    end loop;
    execute format('drop table trunkline.log_compact_%s', part.segment_id);
    return next;
  end loop;
end $$;
comment on function trunkline.log_compact(text, int) is 'Of each key only the last value stays; offsets keep their numbers.';
select trunkline._access('log_compact(text, int)', 'admin');
