/* Put the copies that _log_compact() made in the places of their segments.  Holds the partition until commit, so
   nothing else should follow.  What was appended to the current segment since its copy was made is copied as it is. */
create or replace function trunkline._log_compact_swap(topic text, partition int, segments bigint[], copies bigint[], copied bigint)
returns void language plpgsql as $$
declare
  part trunkline.log_partition := trunkline._log_partition_row(topic, partition);
  segment trunkline.log_segment;
  pair record;
begin
  perform trunkline._lock_briefly();
  perform 1 from trunkline.log_partition p where p.topic_id = part.topic_id and p.partition = part.partition for no key update;
  part := trunkline._log_partition_row(topic, partition);
  if part.segment_id = any (segments) then
    perform trunkline._log_roll(part.topic_id, part.partition);
  end if;
  for pair in select u.old_id, u.next_id from unnest(segments, copies) u (old_id, next_id) loop
    select s.* into segment from trunkline.log_segment s where s.segment_id = pair.old_id and s.topic_id = part.topic_id;
    continue when not found;  -- retention was quicker; the copy is dropped by log_segments_drop()
    if pair.next_id = pair.old_id then
      update trunkline.log_segment s set compacted_at = clock_timestamp() where s.segment_id = pair.old_id;
      continue;
    end if;
    if pair.next_id is null and segment.last_offset > copied then
      pair.next_id := trunkline._log_segment_create(null, null, segment.first_offset);
    end if;
    if segment.last_offset > copied then
      execute format('insert into trunkline.log_segment_%s select b.* from trunkline.log_segment_%s b where b.base_offset > $1', pair.next_id, pair.old_id) using copied;
    end if;
    update trunkline.log_segment s
       set topic_id = segment.topic_id, partition = segment.partition, last_offset = segment.last_offset, last_at = segment.last_at, created_at = segment.created_at,
           compacted_at = case when segment.last_offset > copied then null else clock_timestamp() end,
           bytes = pg_total_relation_size(to_regclass('trunkline.log_segment_' || pair.next_id))
     where s.segment_id = pair.next_id;
    update trunkline.log_segment s set topic_id = null where s.segment_id = pair.old_id;
    update trunkline.log_partition p set previous_id = pair.next_id
     where p.topic_id = part.topic_id and p.partition = part.partition and p.previous_id = pair.old_id;
  end loop;
end $$;
