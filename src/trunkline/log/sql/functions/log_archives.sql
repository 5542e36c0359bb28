/* What is archived of a topic, in the order of offsets: ranges, files and checksums.  incarnation is the life of the
   server that wrote the last message of a range.  TL404 when there is no such topic or partition. */
create or replace function trunkline.log_archives(topic text, partition int default null, from_offset bigint default 1)
returns table (partition int, first_offset bigint, last_offset bigint, messages bigint, bytes bigint, location text, format text,
               files jsonb, checksum text, incarnation int, segment_id bigint, last_at timestamptz, at timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  -- a statement of its own: as a condition it would not be looked at where nothing is archived
  select case when $2 is null then (trunkline._log_topic_row($1)).topic_id else (trunkline._log_partition_row($1, $2)).topic_id end;
  select a.partition, a.first_offset, a.last_offset, a.messages, a.bytes, a.location, a.format, a.files, a.checksum, a.incarnation, a.segment_id, a.last_at, a.at
    from trunkline.log_archive a
   where a.topic_id = (trunkline._log_topic_row($1)).topic_id
     and ($2 is null or a.partition = $2) and a.last_offset >= coalesce($3, 1)
   order by a.partition, a.first_offset;
$$;
comment on function trunkline.log_archives(text, int, bigint) is 'What is archived of a topic: ranges, files and checksums.';
select trunkline._access('log_archives(text, int, bigint)', 'reader');
