/* Forget everything before an offset of a partition, archived or not; files of the archive are left to their owner.  Whole segments leave at once; the rest of the segment that
   holds the offset stays on disk, out of reach.  Returns the first offset there is.  TL404, TL422 beyond the tail. */
create or replace function trunkline.log_trim(topic text, partition int, before_offset bigint)
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  part trunkline.log_partition := trunkline._log_partition_row(topic, partition);
  segment trunkline.log_segment;
  tail bigint;
begin
  perform trunkline._lock_briefly();
  perform trunkline._log_may(topic, 'manage');
  perform 1 from trunkline.log_partition p where p.topic_id = part.topic_id and p.partition = part.partition for no key update;
  part := trunkline._log_partition_row(topic, partition);
  tail := trunkline._log_tail(part);
  if before_offset is null or before_offset < 1 or before_offset > tail + 1 then
    raise exception using errcode = 'TL422', message = format('partition %s of "%s" holds %s to %s, cannot trim before %s.', partition, topic, part.first_offset, tail, coalesce(before_offset::text, 'NULL'));
  end if;
  update trunkline.log_partition p
     set first_offset = greatest(p.first_offset, before_offset), archived_from = greatest(p.archived_from, before_offset)
   where p.topic_id = part.topic_id and p.partition = part.partition and least(p.first_offset, p.archived_from) < before_offset;
  delete from trunkline.log_archive a where a.topic_id = part.topic_id and a.partition = part.partition and a.last_offset < before_offset;
  for segment in select s.* from trunkline.log_segment s
                  where s.topic_id = part.topic_id and s.partition = part.partition and s.last_offset < before_offset loop
    perform trunkline._log_retire(segment);
  end loop;
  return greatest(part.first_offset, before_offset);
end $$;
comment on function trunkline.log_trim(text, int, bigint) is 'Forget everything before an offset of a partition.';
select trunkline._access('log_trim(text, int, bigint)', 'writer');
