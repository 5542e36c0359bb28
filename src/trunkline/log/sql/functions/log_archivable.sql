/* Sealed segments that are not archived yet, oldest first: of one topic, or of all that ask for it.
   first_offset is the first that can still be read.  Errors: TL404, TL422 the topic does not ask to be archived. */
create or replace function trunkline.log_archivable(topic text default null)
returns table (topic text, partition int, segment_id bigint, first_offset bigint, last_offset bigint, bytes bigint, last_at timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  -- a statement of its own: as a condition it would not be looked at where nothing is archived
  select trunkline._log_archive_settings($1) where $1 is not null;
  select t.topic, s.partition, s.segment_id, greatest(s.first_offset, p.first_offset), s.last_offset, s.bytes, s.last_at
    from trunkline.log_topic t join trunkline.log_partition p using (topic_id) join trunkline.log_segment s using (topic_id, partition)
   where t.archive and ($1 is null or t.topic = $1) and s.last_offset >= p.first_offset
     and not exists (select from trunkline.log_archive a where a.topic_id = s.topic_id and a.partition = s.partition and a.last_offset = s.last_offset)
   order by t.topic, s.partition, s.first_offset;
$$;
comment on function trunkline.log_archivable(text) is 'Sealed segments that are not archived yet, oldest first.';
select trunkline._access('log_archivable(text)', 'reader');
