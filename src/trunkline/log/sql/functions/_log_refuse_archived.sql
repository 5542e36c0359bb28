/* TL410 for an offset that only files hold; the facts are what a client needs to read on from there.
   before is the incarnation that wrote the last message before the files, as far as the archive knows. */
create or replace function trunkline._log_refuse_archived(topic text, part trunkline.log_partition, asked bigint, archived trunkline.log_archive)
returns void language plpgsql as $$
begin
  raise exception using errcode = 'TL410', message = format('offset %s of partition %s of "%s" is archived; the database holds what begins at %s.', asked, part.partition, topic, part.first_offset),
    hint = 'Read it with a client or with Spark, which take archived and hot offsets as one topic, or start from "hot".', detail = jsonb_build_object('archived', true, 'topic', topic, 'partition', part.partition, 'asked', asked, 'hot', part.first_offset,
      'first', archived.first_offset, 'last', archived.last_offset, 'location', archived.location, 'format', archived.format, 'files', archived.files,
      'before', (select a.incarnation from trunkline.log_archive a
                  where a.topic_id = part.topic_id and a.partition = part.partition and a.last_offset = archived.first_offset - 1))::text;
end $$;
