/* The first offset that was appended at a time or later (exact to the batch; among archived ones to the segment); one past the last when
   everything is older.  Times never decrease inside a partition, so a bisection needs no index on time. */
create or replace function trunkline.log_offset_at(topic text, partition int, at_time timestamptz)
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  part trunkline.log_partition;
  segment trunkline.log_segment;
  archived bigint;
begin
  if at_time is null then
    raise exception using errcode = 'TL422', message = 'at_time must not be NULL.';
  end if;
  perform trunkline._log_may(topic, 'read', 'consume');
  for attempt in 1 .. 10 loop
    begin
      part := trunkline._log_partition_row(topic, partition);
      -- times never decrease: if the last message that left is older, so is all that is archived
      select greatest(a.first_offset, part.archived_from) into archived from trunkline.log_archive a
       where a.topic_id = part.topic_id and a.partition = part.partition and a.last_at >= at_time
         and a.last_offset < part.first_offset and a.last_offset >= trunkline._log_first(part) order by a.first_offset limit 1;
      if found then
        return archived;
      end if;
      -- the floor once more, in the snapshot that lists the segments: what left between our looks may be archived by now
      select s.* into segment from trunkline.log_partition p join trunkline.log_segment s using (topic_id, partition)
       where p.topic_id = part.topic_id and p.partition = part.partition and p.first_offset = part.first_offset
         and (s.last_at is null or s.last_at >= at_time)
       order by s.first_offset limit 1;
      continue when not found;
      return trunkline._log_bisect(segment, greatest(segment.first_offset, part.first_offset),
                                   coalesce(segment.last_offset, trunkline._log_tail(part)) + 1, at_time);
    exception when undefined_table then
      null;  -- retention or compaction dropped the segment between our two looks: look again
    end;
  end loop;
  perform trunkline._log_left();
end $$;
comment on function trunkline.log_offset_at(text, int, timestamptz) is 'The first offset appended at a time or later.';
select trunkline._access('log_offset_at(text, int, timestamptz)', 'reader');
