/* Note that a sealed segment was copied to files: from now on readers find it there when it has left the database,
   and retention may take it.  The range must be that of the segment and continue what is archived of the partition.
   The same row again changes nothing; another one for the same range is TL409.  paths of files are relative to location.
   Locks: the row of the segment, so that it cannot leave meanwhile.  Writes: log_archive, log_archive_life.
   Errors: TL404, TL409, TL422 a row that makes no sense, or a topic that does not ask to be archived. */
create or replace function trunkline.log_archive_add(
  topic text, partition int, first_offset bigint, last_offset bigint, messages bigint, bytes bigint,
  location text, format text, files jsonb, checksum text, segment_id bigint)
returns trunkline.log_archive language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  part trunkline.log_partition := trunkline._log_partition_row(topic, partition);
  segment trunkline.log_segment;
  present trunkline.log_archive;
  wanted trunkline.log_archive;
  expected bigint;
begin
  perform trunkline._lock_briefly();
  perform trunkline._log_check_archive(first_offset, last_offset, messages, bytes, location, format, files, checksum);
  perform trunkline._isolation_check('Adding to the archive');
  select s.* into segment from trunkline.log_segment s where s.segment_id = log_archive_add.segment_id for no key update;
  select a.* into present from trunkline.log_archive a
   where a.topic_id = part.topic_id and a.partition = part.partition and a.last_offset >= log_archive_add.first_offset and a.first_offset <= log_archive_add.last_offset
   order by a.first_offset limit 1;
  wanted := row(part.topic_id, partition, first_offset, last_offset, messages, bytes, location, format, files, checksum,
                present.incarnation, segment_id, present.last_at, present.at);
  if present is not distinct from wanted then
    return present;
  elsif present.topic_id is not null then
    raise exception using errcode = 'TL409', message = format('offsets %s to %s of partition %s of "%s" are archived already, in other files.', present.first_offset, present.last_offset, partition, topic),
      hint = 'Another run was quicker: what you wrote is not part of the archive.', detail = jsonb_build_object('present', to_jsonb(present))::text;
  end if;
  perform trunkline._log_archive_settings(topic);
  if segment.topic_id is distinct from part.topic_id or segment.partition is distinct from partition or segment.last_offset is null then
    raise exception using errcode = 'TL409', message = format('segment %s is not a sealed segment of partition %s of "%s".', coalesce(segment_id::text, 'NULL'), partition, topic),
      hint = 'See log_archivable().';
  elsif last_offset <> segment.last_offset or first_offset not between segment.first_offset and greatest(segment.first_offset, part.first_offset) then
    raise exception using errcode = 'TL409', message = format('segment %s holds %s to %s, got %s to %s.', segment_id, greatest(segment.first_offset, part.first_offset), segment.last_offset, first_offset, last_offset),
      hint = 'See log_archivable().';
  end if;
  -- what retention took while the topic did not ask to be archived is a hole that nobody can fill
  expected := greatest(trunkline._log_archived_last(part) + 1, (select min(s.first_offset) from trunkline.log_segment s
                where s.topic_id = part.topic_id and s.partition = part.partition));
  if segment.first_offset <> expected then
    raise exception using errcode = 'TL409', message = format('the archive of partition %s of "%s" goes on at %s, got %s.', partition, topic, expected, first_offset),
      hint = 'Add segments in the order of their offsets.', detail = jsonb_build_object('expected', expected)::text;
  end if;
  execute format('select b.incarnation from trunkline.log_segment_%s b order by b.base_offset desc limit 1', segment_id) into wanted.incarnation;
  wanted.last_at := segment.last_at;
  wanted.at := clock_timestamp();
  insert into trunkline.log_archive values (wanted.*);
  execute format('insert into trunkline.log_archive_life (topic_id, partition, first_offset, begins, incarnation)
                  select $1, $2, $3, min(b.base_offset), b.incarnation from trunkline.log_segment_%s b group by b.incarnation', segment_id)
    using part.topic_id, partition, first_offset;
  return wanted;
end $$;
comment on function trunkline.log_archive_add(text, int, bigint, bigint, bigint, bigint, text, text, jsonb, text, bigint) is
  'Note that a sealed segment was copied to files: retention may take it then.';
select trunkline._access('log_archive_add(text, int, bigint, bigint, bigint, bigint, text, text, jsonb, text, bigint)', 'admin');
