/* Change settings of a topic; what is NULL stays as it is.  To keep for ever, pass a retention of more than 1000 years
   ('infinity' since Postgres 17) or retention_bytes 0.  Partitions can only be added: keys map to other partitions from the next message on. */
create or replace function trunkline.log_alter(
  topic text, partitions int default null, retention interval default null, retention_bytes bigint default null,
  compact boolean default null, codec text default null, early_release boolean default null, archive boolean default null)
returns trunkline.log_topic language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.log_topic := trunkline._log_topic_row(topic);
  wanted trunkline.log_topic;
begin
  perform trunkline._lock_briefly();
  perform trunkline._log_may(topic, 'manage');
  perform 1 from trunkline.log_topic t where t.topic_id = present.topic_id for no key update;
  present := trunkline._log_topic_row(topic);
  wanted := present;
  wanted.partitions := coalesce(log_alter.partitions, present.partitions);
  wanted.retention := case when log_alter.retention > interval '1000 years' then null
                           else coalesce(log_alter.retention, present.retention) end;
  wanted.retention_bytes := nullif(coalesce(log_alter.retention_bytes, present.retention_bytes), 0);
  wanted.compact := coalesce(log_alter.compact, present.compact);
  wanted.codec := coalesce(log_alter.codec, present.codec);
  wanted.early_release := coalesce(log_alter.early_release, present.early_release);
  wanted.archive := coalesce(log_alter.archive, present.archive);
  perform trunkline._log_check_settings(wanted);
  if wanted.partitions < present.partitions then
    raise exception using errcode = 'TL422', message = format('topic "%s" has %s partitions; they can be added, not removed, got %s.', topic, present.partitions, wanted.partitions);
  elsif wanted.compact and not present.compact then
    raise exception using errcode = 'TL422', message = 'a topic that was created without keys cannot become compacted.',
      hint = 'Create a new topic and replay into it.';
  elsif wanted.archive and not present.archive
        and exists (select from trunkline.log_segment s where s.topic_id = present.topic_id and s.compacted_at is not null) then
    raise exception using errcode = 'TL422', message = format('topic "%s" was compacted: its offsets have holes, which an archive must not.', topic),
      hint = 'Create a new topic and replay into it.';
  end if;
  if wanted.partitions > present.partitions then
    raise notice 'topic "%": keys map to other partitions from now on', topic;
    perform trunkline._log_partitions_add(present.topic_id, wanted.partitions);
  end if;
  update trunkline.log_topic t
     set partitions = wanted.partitions, retention = wanted.retention, retention_bytes = wanted.retention_bytes,
         compact = wanted.compact, codec = wanted.codec, early_release = wanted.early_release, archive = wanted.archive
   where t.topic_id = present.topic_id and t is distinct from wanted;
  return wanted;
end $$;
comment on function trunkline.log_alter(text, int, interval, bigint, boolean, text, boolean, boolean) is
  'Change settings of a topic; NULL leaves a setting as it is.';
select trunkline._access('log_alter(text, int, interval, bigint, boolean, text, boolean, boolean)', 'writer');
