/* Take a sealed segment out of the log; its table is dropped by log_segments_drop(). */
create or replace function trunkline._log_retire(segment trunkline.log_segment)
returns void language plpgsql as $$
begin
  update trunkline.log_partition p
     set first_offset = greatest(p.first_offset, segment.last_offset + 1), previous_id = nullif(p.previous_id, segment.segment_id)
   where p.topic_id = segment.topic_id and p.partition = segment.partition;
  update trunkline.log_segment s set topic_id = null where s.segment_id = segment.segment_id;
end $$;
