/* Copy the segments of a partition without what compaction removes; with_current, also the one that takes appends.
   Locks nothing that an append or a reader needs: _log_compact_swap() puts the copies in their places.
   Which segments are sealed is settled first and the latest offsets are gathered after that, so that a value
   appended meanwhile counts as later, and is never itself taken for missing.
   copied is how far the copy of the current segment reaches. */
create or replace function trunkline._log_compact(
  topic text, partition int, with_current boolean, out segments bigint[], out copies bigint[], out copied bigint, out removed bigint)
language plpgsql as $$
declare
  part trunkline.log_partition;
  sealed trunkline.log_segment[];
  current trunkline.log_segment;
  segment trunkline.log_segment;
  copy record;
begin
  perform trunkline._lock_briefly();
  perform trunkline._isolation_check('Compaction');
  part := trunkline._log_partition_row(topic, partition);
  perform pg_advisory_xact_lock(hashtextextended(format('trunkline.log_compact:%s:%s', part.topic_id, part.partition), 0));
  part := trunkline._log_partition_row(topic, partition);
  sealed := array(select s from trunkline.log_segment s
                   where s.topic_id = part.topic_id and s.partition = part.partition and s.last_offset is not null order by s.first_offset);
  select s.* into current from trunkline.log_segment s where s.segment_id = part.segment_id and s.last_offset is null;
  copied := trunkline._log_tail(part);
  sealed := trunkline._log_compact_later(case when current.segment_id is null then sealed else sealed || current end, part.segment_id);
  segments := '{}';
  copies := '{}';
  removed := 0;
  -- newest first: once the current one is sealed, the one before it needs no witnesses any more
  for segment in select s.* from unnest(sealed) s where s.last_offset is not null or with_current and s.segment_id = current.segment_id order by s.first_offset desc loop
    copy := trunkline._log_compact_copy(segment, coalesce(segment.last_offset, copied), part.segment_id,
              segment.last_offset is null or segment.segment_id = part.previous_id and not current.segment_id = any (segments));
    continue when segment.last_offset is null and copy.next_id = segment.segment_id;
    segments := segments || segment.segment_id;
    copies := copies || copy.next_id;
    removed := removed + copy.removed;
  end loop;
  execute format('drop table trunkline.log_compact_%s', part.segment_id);
end $$;
